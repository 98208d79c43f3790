"""What an operator costs: floating-point operations and bytes moved, from static shapes.

Conventions: a multiplication and an addition are one operation each, so a multiply-add is two. An elementary
function (Exp, Tanh, Erf) counts as one, as does a comparison. Bytes are those of all operands read and all
results written once, the least that an operator can move; an operator that only gives a tensor another shape
moves none. A symbolic dim counts as 1: the cost is that of one sample where the batch is symbolic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir

from netgrad.onnx.view import subgraphs

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """Floating-point operations and bytes; None where a shape or a formula is unknown."""

    flops: int | None
    bytes: int | None


def cost_of(node: onnx_ir.Node) -> Cost:
    """The cost of one node whose values have shapes; what is inside a node has a cost of its own."""
    if any(True for _ in subgraphs(node)):
        return Cost(0, 0)
    inputs = [None if value is None else _shape(value) for value in node.inputs]
    outputs = [_shape(value) for value in node.outputs if value.name]
    return Cost(_flops(node, inputs, outputs), _bytes(node))


def total(costs: Sequence[Cost]) -> tuple[Cost, int]:
    """The sum of what is known, and the number of costs of which something is not."""
    known = Cost(sum(cost.flops or 0 for cost in costs), sum(cost.bytes or 0 for cost in costs))
    return known, sum(cost.flops is None or cost.bytes is None for cost in costs)


def _shape(value: onnx_ir.Value) -> Shape | None:
    if value.shape is None:
        return None
    dims = [dim if isinstance(dim, int) else (1 if dim.value is not None else None) for dim in value.shape]
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None


_NO_BYTES = frozenset({"Constant", "Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"})

_MOVES = _NO_BYTES | frozenset(
    {
        *("Cast", "CastLike", "Compress", "Concat", "ConstantOfShape", "DepthToSpace", "Dropout", "Expand"),
        *("EyeLike", "Gather", "GatherElements", "GatherND", "OneHot", "Pad", "Range", "ScatterElements"),
        *("ScatterND", "Slice", "SpaceToDepth", "Split", "Tile", "Transpose", "Trilu", "Where", "NonZero"),
        *("MaxUnpool", "Resize", "ReverseSequence"),
    }
)
"""Operators that compute nothing (or next to nothing) on the numbers they move."""

_ELEMENTWISE = frozenset(
    {
        *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Celu", "Clip"),
        *("Cos", "Cosh", "CumSum", "Div", "Elu", "Equal", "Erf", "Exp", "Floor", "Greater"),
        *("GreaterOrEqual", "HardSigmoid", "IsInf", "IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log"),
        *("Mod", "Mul", "Neg", "Not", "Or", "PRelu", "Pow", "Reciprocal", "Relu", "Round", "Selu"),
        *("Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Tan"),
        *("Tanh", "ThresholdedRelu", "Xor"),
    }
)
"""Operators that do one operation per element of the result."""

_PER_ELEMENT = {
    "BatchNormalization": 2,  # a scale and a shift, the statistics being folded into them
    "Gelu": 5,
    "GroupNormalization": 8,  # mean 1, variance 3, normalise 2, scale and shift 2
    "HardSwish": 4,
    "InstanceNormalization": 8,
    "LayerNormalization": 8,
    "LogSoftmax": 5,  # maximum, difference, Exp, sum, difference
    "Mish": 4,
    "RMSNormalization": 4,
    "Softmax": 5,
    "Swish": 3,
}
"""Operators with so many operations per element of the first input."""


def _flops(node: onnx_ir.Node, inputs: Sequence[Shape | None], outputs: Sequence[Shape | None]) -> int | None:
    kind = node.op_type
    if node.domain not in ("", "ai.onnx"):
        return None
    if kind in _MOVES:
        return 0
    if not outputs or outputs[0] is None or any(shape is None for shape in inputs[:1]):
        return None
    size = math.prod(outputs[0])
    if kind in _ELEMENTWISE:
        return size
    if kind in ("Max", "Min", "Mean", "Sum"):
        return size * max(len(inputs) - 1, 1)
    first = inputs[0] if inputs else None
    if first is None:
        return None
    if kind in _PER_ELEMENT:
        return _PER_ELEMENT[kind] * math.prod(first)
    if kind.startswith(("Reduce", "Arg", "Global")) or kind in ("TopK", "MaxRoiPool"):
        return math.prod(first)
    formula = _FORMULAS.get(kind)
    return None if formula is None else formula(node, inputs, outputs[0])


def _matmul(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """Y[.., m, n] = A[.., m, k] B[.., k, n]: 2 k per element of Y."""
    return None if inputs[0] is None else 2 * math.prod(output) * (inputs[0][-1] if inputs[0] else 1)


def _gemm(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """Y[m, n] = alpha A B + beta C: 2 k per element of Y, and one for C."""
    if inputs[0] is None:
        return None
    inner = inputs[0][0 if _int(node, "transA", 0) else 1]
    return math.prod(output) * (2 * inner + (1 if len(inputs) > 2 and inputs[2] is not None else 0))


def _conv(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """Each element of Y sums over the C / group channels and the kernel: W is [M, C / group, *kernel]."""
    weight = inputs[1]
    if weight is None:
        return None
    return math.prod(output) * (2 * math.prod(weight[1:]) + (1 if len(inputs) > 2 else 0))


def _conv_transpose(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """Each element of X is spread over M / group channels and the kernel: W is [C, M / group, *kernel]."""
    data, weight = inputs[0], inputs[1]
    if data is None or weight is None:
        return None
    return 2 * math.prod(data) * math.prod(weight[1:]) + (math.prod(output) if len(inputs) > 2 else 0)


def _pool(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """One operation per element of the window, for each element of Y."""
    attribute = node.attributes.get("kernel_shape")
    return None if attribute is None else math.prod(output) * math.prod(attribute.as_ints())


def _lrn(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """A square and `size` additions, then scale, shift, power and division."""
    return math.prod(output) * (_int(node, "size", 1) + 5)


def _einsum(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
    """All operands multiplied at every combination of indices, and added up."""
    attribute = node.attributes.get("equation")
    if attribute is None or any(shape is None for shape in inputs):
        return None
    terms = attribute.as_string().replace(" ", "").split("->")[0].split(",")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, inputs, strict=True):
        if "." in term or shape is None or len(term) != len(shape):
            return None
        for label, dim in zip(term, shape, strict=True):
            sizes[label] = max(dim, sizes.get(label, 1))
    return len(terms) * math.prod(sizes.values())


def _recurrent(gates: int) -> Callable[[onnx_ir.Node, Sequence[Shape | None], Shape], int | None]:
    """Matrix products of a recurrent operator: X is [steps, batch, C], W is [directions, gates h, C]."""

    def flops(node: onnx_ir.Node, inputs: Sequence[Shape | None], output: Shape) -> int | None:
        data, recurrent = inputs[0], inputs[2]
        if data is None or recurrent is None:
            return None
        directions, hidden = recurrent[0], recurrent[2]
        return 2 * data[0] * data[1] * directions * gates * hidden * (data[2] + hidden)

    return flops


_FORMULAS: dict[str, Callable[[onnx_ir.Node, Sequence[Shape | None], Shape], int | None]] = {
    "AveragePool": _pool,
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Einsum": _einsum,
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "LRN": _lrn,
    "LSTM": _recurrent(4),
    "LpPool": _pool,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "RNN": _recurrent(1),
}


def _bytes(node: onnx_ir.Node) -> int | None:
    if node.op_type in _NO_BYTES and node.domain in ("", "ai.onnx"):
        return 0
    moved = 0
    read = dict.fromkeys(value for value in node.inputs if value is not None)
    for value in (*read, *(value for value in node.outputs if value.name)):
        shape = _shape(value)
        if shape is None or value.dtype is None or value.dtype == onnx_ir.DataType.STRING:
            return None
        moved += math.ceil(math.prod(shape) * value.dtype.itemsize)
    return moved


def _int(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()
