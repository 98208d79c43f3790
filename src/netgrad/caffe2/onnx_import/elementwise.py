"""Elementwise operators: functions of one operand, of two that broadcast, and of any number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Add": "Add",
    "And": "And",
    "Asin": "Asin",
    "Atan": "Atan",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Div": "Div",
    "Equal": "EQ",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Greater": "GT",
    "GreaterOrEqual": "GE",
    "Identity": "Copy",
    "Less": "LT",
    "LessOrEqual": "LE",
    "Log": "Log",
    "Mul": "Mul",
    "Neg": "Negative",
    "Not": "Not",
    "Or": "Or",
    "Reciprocal": "Reciprocal",
    "Relu": "Relu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Sqrt": "Sqrt",
    "Sub": "Sub",
    "Tan": "Tan",
    "Tanh": "Tanh",
    "Xor": "Xor",
}
"""Operators of the same meaning. Those of two operands broadcast as NumPy does, as in late Caffe2."""


@writes(*_SAME)
def _same(n: Node) -> None:
    n.write(_SAME[n.op.type], n.inputs)


# ---- one operand with attributes ---------------------------------------------------------------------


@writes("LeakyRelu")
def _leaky_relu(n: Node) -> None:
    n.write("LeakyRelu", alpha=n.attribute("alpha", 0.01))


@writes("Elu")
def _elu(n: Node) -> None:
    n.write("Elu", alpha=n.attribute("alpha", 1.0))


@writes("ThresholdedRelu")
def _thresholded_relu(n: Node) -> None:
    n.write("ThresholdedRelu", alpha=n.attribute("alpha", 1.0))


@writes("Selu")
def _selu(n: Node) -> None:
    n.write(
        "Selu",
        alpha=n.attribute("alpha", 1.67326319217681884765625),
        scale=n.attribute("gamma", 1.05070102214813232421875),
    )


@writes("HardSigmoid")
def _hard_sigmoid(n: Node) -> None:
    n.write("HardSigmoid", alpha=n.attribute("alpha", 0.2), beta=n.attribute("beta", 0.5))


@writes("Gelu")
def _gelu(n: Node) -> None:
    n.write("Gelu", fast_gelu=1 if n.attribute("approximate", "none") == "tanh" else None)


@writes("Cast")
def _cast(n: Node) -> None:
    n.write("Cast", to=n.number_of(ir.DataType(n.attribute("to", 0))))


@writes("Clip")
def _clip(n: Node) -> None:
    """The bounds are arguments of float; those that are computed are compared with each element."""
    given = [(at, name) for at, name in ((1, "min"), (2, "max")) if n.has(at)]
    if all(n.info(at).constant is not None for at, _ in given):
        bounds: dict[str, Any] = {name: float(n.constant(at).reshape(-1)[0]) for at, name in given}
        n.write("Clip" if bounds else "Copy", **bounds)
        return
    x, shape = n.inputs[0], n.step("Shape", n.inputs[:1])
    for at, name in given:
        bound = n.step("Expand", [n.inputs[at], shape])
        output = n.outputs[0] if at == given[-1][0] else n.fresh(name)
        x = n.write("Max" if name == "min" else "Min", [x, bound], [output])


@writes("IsNaN")
def _is_nan(n: Node) -> None:
    n.write("NE", [n.inputs[0], n.inputs[0]])  # nothing else differs from itself


@writes("Dropout")
def _dropout(n: Node) -> None:
    """Outside of training the input; in training a mask that is drawn."""
    training = n.has(2) and bool(n.constant(2).reshape(-1)[0])
    if not training:
        n.write("Dropout", is_test=1)
        if n.reads_output(1):
            n.write("ConstantFill", n.inputs[:1], n.outputs[1:2], value=1, dtype=TensorProto.BOOL)
        return
    ratio = float(n.constant(1).reshape(-1)[0]) if n.has(1) else 0.5
    mask = n.outputs[1] if len(n.outputs) > 1 else n.fresh("mask")
    n.write("Dropout", outputs=[n.outputs[0], mask], ratio=ratio, is_test=0)


@writes("Mod")
def _mod(n: Node) -> None:
    """By a constant, and with the sign of the divisor, or with ``fmod`` that of the operand."""
    divisor = n.constant(1)
    if divisor.size != 1 or divisor.dtype.kind not in "iu":
        raise n.refused("Caffe2's Mod divides by one whole number")
    follows = 0 if n.attribute("fmod", 0) else 1
    n.write("Mod", divisor=int(divisor.reshape(-1)[0]), sign_follow_divisor=follows)


@writes("IsInf")
def _is_inf(n: Node) -> None:
    dtype = n.info(0).dtype
    if dtype is None:
        raise n.refused("the type of its elements is not known")
    signs = [sign for name, sign in (("detect_positive", 1), ("detect_negative", -1)) if n.attribute(name, 1)]
    bounds = [n.parameter(np.asarray([sign * np.inf], dtype.numpy()), "infinite") for sign in signs]
    if len(bounds) == 1:
        n.write("EQ", [n.inputs[0], bounds[0]], broadcast=1)
    elif bounds:
        n.write("Or", [n.step("EQ", [n.inputs[0], bound], broadcast=1) for bound in bounds])
    else:
        n.write("ConstantFill", value=0, dtype=TensorProto.BOOL)


# ---- several operands --------------------------------------------------------------------------------


def same_shapes(n: Node, operands: Sequence[int]) -> list[str]:
    """The operands, broadcast where their shapes differ or are not known to be equal.

    Raises:
        UnsupportedOperatorError: The shape to broadcast to is not known.
    """
    shapes = [n.info(at).shape for at in operands]
    names = [n.inputs[at] for at in operands]
    if shapes[0] is not None and None not in shapes[0] and all(shape == shapes[0] for shape in shapes):
        return names
    shape = np.broadcast_shapes(*(n.dims(at) for at in operands))
    wanted = ""
    found = []
    for at, name in zip(operands, names, strict=True):
        if n.dims(at) != shape:
            wanted = wanted or n.parameter(np.asarray(shape, np.int64), "shape")
            name = n.step("Expand", [name, wanted])
        found.append(name)
    return found


@writes("Sum", "Mean", "Max", "Min")
def _variadic(n: Node) -> None:
    n.write(n.op.type, same_shapes(n, range(len(n.inputs))))


@writes("Where")
def _where(n: Node) -> None:
    n.write("Where", same_shapes(n, [0, 1, 2]))


@writes("Pow")
def _pow(n: Node) -> None:
    """An exponent for all elements is an argument."""
    exponent = n.info(1).constant
    if exponent is not None and exponent.size == 1 and len(n.info(1).shape or ()) <= n.rank():
        n.write("Pow", exponent=float(exponent.reshape(-1)[0]))
    else:
        n.write("Pow", same_shapes(n, [0, 1]))


@writes("PRelu")
def _prelu(n: Node) -> None:
    """A slope for all elements, or one per channel."""
    slope = n.dims(1)
    rank = n.rank()
    padded = (1,) * (rank - len(slope)) + slope
    if len(padded) != rank or any(dim != 1 for axis, dim in enumerate(padded) if axis != 1):
        raise n.refused("Caffe2's PRelu has one slope, or one per channel")
    size = int(np.prod(slope))
    if len(slope) == 1 and (size == 1 or rank <= 2):
        n.write("PRelu", n.inputs)
        return
    flat = n.fresh("slope")
    n.write("Reshape", [n.inputs[1]], [flat, n.fresh("slope_shape")], shape=[size])
    n.write("PRelu", [n.inputs[0], flat])
