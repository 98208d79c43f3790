"""Types and shapes of what operators without a schema give, as the rules of users say."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.core.operator import Operator
from netgrad.onnx.edit import all_graphs, as_operator
from netgrad.onnx.infer import schema_of
from netgrad.onnx.rules.declaration import Declaration, Origin
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import FLOATING, TensorInfo, tensor_info


def infer_results(model: ir.Model, declared: Callable[[Operator], Declaration | None]) -> None:
    """Give outputs of users' operators the type and shape that they have, in place, and infer what follows.

    What the model says, or the standard's inference found, stays. Of an operator that neither knows, the
    ``infer`` of its rule is asked. Without one, its outputs have the element type of its first floating-point
    input.

    Args:
        model: A prepared model.
        declared: What is declared of an operator.

    Raises:
        InvalidArgumentError: An ``infer`` failed, or gave something else than one answer per output.
    """
    while _one_round(model, declared):
        infer_shapes(model)


def _one_round(model: ir.Model, declared: Callable[[Operator], Declaration | None]) -> bool:
    """Ask every operator once, in order; whether anything new was learnt."""
    found = False
    for graph in all_graphs(model):
        for node in graph:
            if all(value.type is not None and value.shape is not None for value in node.outputs):
                continue
            domain = "" if node.domain == "ai.onnx" else node.domain
            if schema_of(node.op_type, model.opset_imports.get(node.domain, 1), domain) is not None:
                continue
            declaration = declared(as_operator(node))
            if declaration is None or (declaration.origin is not Origin.USER and declaration.infer is None):
                continue
            for value, info in zip(node.outputs, _results(node, declaration), strict=True):
                if value.name:
                    found |= _learn(value, info)
    return found


def _results(node: ir.Node, declaration: Declaration) -> list[TensorInfo]:
    given = [None if value is None else tensor_info(value) for value in node.inputs]
    if declaration.infer is None:
        dtypes = [info.dtype for info in given if info is not None and info.dtype in FLOATING]
        return [TensorInfo(dtypes[0] if dtypes else None)] * len(node.outputs)
    where = f"`infer` of the rule {declaration.source} for {as_operator(node)}"
    try:
        answer = declaration.infer(*given)
    except Exception as error:  # a function of the user's may raise anything
        raise InvalidArgumentError(f"{where} failed with {type(error).__name__}: {error}") from error
    results = [answer] if isinstance(answer, TensorInfo) else list(answer)
    if len(results) < len(node.outputs) or not all(isinstance(info, TensorInfo) for info in results):
        raise InvalidArgumentError(
            f"{where} gives {answer!r}; it is to give a TensorInfo for each of {len(node.outputs)} outputs"
        )
    return results[: len(node.outputs)]


def _learn(value: ir.Value, info: TensorInfo) -> bool:
    """Note what is new; whether anything was."""
    found = False
    if value.type is None and info.dtype is not None:
        value.type = info.ir_type
        found = True
    if value.shape is None and info.shape is not None:
        value.shape = ir.Shape(info.shape)
        found = True
    return found
