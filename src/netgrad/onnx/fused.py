"""Operators that ONNX Runtime's optimizer fuses, in terms of the standard operators that they stand for.

An exported model that was optimized holds them in the domain ``com.microsoft``. The definitions are those of
the kernels' documentation: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import onnx
import onnx.parser
import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.edit import as_operator
from netgrad.onnx.half import HALF

_VERSION: Final = 18  # of the operators in the definitions


def is_fused(node: onnx_ir.Node) -> bool:
    """Whether the node's operator has a definition here."""
    return (node.domain, node.op_type) in _DEFINITIONS


def fused_operators() -> list[tuple[str, str]]:
    """Domain and type of every operator with a definition here."""
    return sorted(_DEFINITIONS)


def fused_definition(node: onnx_ir.Node) -> onnx.FunctionProto:
    """The definition of one node for which `is_fused`, with its attributes written into it.

    Raises:
        UnsupportedOperatorError: The node has a form that the definition does not cover.
    """
    write, inputs, outputs, attributes = _DEFINITIONS[node.domain, node.op_type]
    unknown = sorted(set(node.attributes) - set(attributes))
    if unknown:
        raise _refused(node, f"its attribute '{unknown[0]}' is not understood")
    writer = _Writer(node)
    write(writer)
    signature = f"({', '.join(inputs[: len(node.inputs)])}) => ({', '.join(outputs[: len(node.outputs)])})"
    text = f'<opset_import: ["": {_VERSION}], domain: "netgrad"> definition {signature} {{\n'
    return onnx.parser.parse_function(text + "\n".join(writer.lines) + "\n}")


def _refused(node: onnx_ir.Node, why: str) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(f"no gradient for this form of {as_operator(node)}: {why}")


class _Writer:
    """Writes a definition, line by line, for one node."""

    def __init__(self, node: onnx_ir.Node) -> None:
        self.node = node
        self.lines: list[str] = []

    def has(self, index: int) -> bool:
        """Whether the node has input ``index``."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute ``name`` of the node."""
        given = self.node.attributes.get(name)
        return default if given is None else given.value

    def line(self, text: str) -> None:
        """Write one operator."""
        self.lines.append(text)

    def number(self, name: str, value: float, like: str) -> None:
        """Write a constant of the element type of ``like``."""
        self.line(f"{name}_64 = Constant <value = double {{{float(value)!r}}}> ()")
        self.line(f"{name} = CastLike ({name}_64, {like})")

    def attributes(self, *names: str, **renamed: str) -> str:
        """Those attributes that the node sets, as they are written behind an operator."""
        written = []
        for name, source in [*((name, name) for name in names), *renamed.items()]:
            value = self.attribute(source)
            if isinstance(value, str):
                written.append(f'{name} = "{value}"')
            elif isinstance(value, Sequence):
                written.append(f"{name} = [{', '.join(map(repr, value))}]")
            elif value is not None:
                written.append(f"{name} = {value!r}")
        return f"<{', '.join(written)}>" if written else ""


# ---- activations -------------------------------------------------------------------------------------


def _erf_gelu(w: _Writer, x: str) -> None:
    w.number("root", 0.5**0.5, x)
    w.number("half", 0.5, x)
    w.number("one", 1.0, x)
    w.line(f"scaled = Mul ({x}, root)")
    w.line("erf = Erf (scaled)")
    w.line("more = Add (erf, one)")
    w.line(f"half_x = Mul ({x}, half)")
    w.line("y = Mul (half_x, more)")


def _gelu(w: _Writer) -> None:
    """Y = X (1 + erf(X / sqrt 2)) / 2."""
    _erf_gelu(w, "x")


def _bias_gelu(w: _Writer) -> None:
    """Y = Gelu(A + B)."""
    w.line("sum = Add (x, bias)")
    _erf_gelu(w, "sum")


def _fast_gelu(w: _Writer) -> None:
    """Y = X (1 + tanh(X (B + C X^2))) / 2 of X plus the bias, with B = sqrt(2 / pi) and C = 0.044715 B."""
    w.line("sum = Add (x, bias)" if w.has(1) else "sum = Identity (x)")
    for name, value in (("b", 0.7978845608028654), ("c", 0.035677408136300125), ("half", 0.5), ("one", 1.0)):
        w.number(name, value, "x")
    w.line("square = Mul (sum, sum)")
    w.line("part = Mul (square, c)")
    w.line("slope = Add (part, b)")
    w.line("inner = Mul (sum, slope)")
    w.line("tanh = Tanh (inner)")
    w.line("more = Add (tanh, one)")
    w.line("half_x = Mul (sum, half)")
    w.line("y = Mul (half_x, more)")


def _quick_gelu(w: _Writer) -> None:
    """Y = X sigmoid(alpha X)."""
    w.number("alpha", w.attribute("alpha", 1.702), "x")
    w.line("scaled = Mul (x, alpha)")
    w.line("sigmoid = Sigmoid (scaled)")
    w.line("y = Mul (x, sigmoid)")


_PLAIN = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
_WITH_PARAMETERS = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}


def _activated(w: _Writer, values: Sequence[float]) -> None:
    """Write y = activation of ``sum``; its parameters must be given."""
    name = w.attribute("activation", "")
    if not name:
        w.line("y = Identity (sum)")
    elif name in _PLAIN:
        w.line(f"y = {name} (sum)")
    elif name in _WITH_PARAMETERS and len(values) >= len(_WITH_PARAMETERS[name]):
        pairs = zip(_WITH_PARAMETERS[name], values, strict=False)
        w.line(f"y = {name} <{', '.join(f'{key} = {float(value)!r}' for key, value in pairs)}> (sum)")
    elif name == "Clip" and len(values) >= 2:
        w.number("low", values[0], "sum")
        w.number("high", values[1], "sum")
        w.line("y = Clip (sum, low, high)")
    else:
        raise _refused(w.node, f"its activation {name!r} with {len(values)} parameters is not understood")


# ---- products ----------------------------------------------------------------------------------------


def _matmul(w: _Writer) -> None:
    """Y = alpha A B, with the last two axes of A or of B exchanged where transA or transB says so."""
    if w.attribute("transBatchA", 0) or w.attribute("transBatchB", 0):
        raise _refused(w.node, "it moves the batch axes")
    for name, flag in (("a", "transA"), ("b", "transB")):
        kind = 'Einsum <equation = "...ij->...ji">' if w.attribute(flag, 0) else "Identity"
        w.line(f"{name}_turned = {kind} ({name})")
    w.line("product = MatMul (a_turned, b_turned)")
    w.number("alpha", w.attribute("alpha", 1.0), "a")
    w.line("y = Mul (product, alpha)" if w.attribute("alpha", 1.0) != 1.0 else "y = Identity (product)")


def _gemm(w: _Writer) -> None:
    """Y = activation(alpha A B + beta C)."""
    operands = "a, b, c" if w.has(2) else "a, b"
    w.line(f"sum = Gemm {w.attributes('alpha', 'beta', 'transA', 'transB')} ({operands})")
    given = [w.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    _activated(w, [value for value in given if value is not None])


def _conv(w: _Writer) -> None:
    """Y = activation(Conv(X, W, B) + Z)."""
    options = w.attributes("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    w.line(f"conv = Conv {options} ({'x, w, b' if w.has(2) else 'x, w'})")
    w.line("sum = Add (conv, z)" if w.has(3) else "sum = Identity (conv)")
    _activated(w, w.attribute("activation_params", []))


# ---- normalizations ----------------------------------------------------------------------------------


def _skip_layer_norm(w: _Writer) -> None:
    """Y = LayerNormalization of S = X + skip + bias along the last axis; S is the fourth output."""
    _skip_sum(w)
    epsilon = float(w.attribute("epsilon", 1e-12))
    operands = "sum, gamma, beta" if w.has(3) else "sum, gamma"
    w.line(f"y, mean, inverse = LayerNormalization <axis = -1, epsilon = {epsilon!r}> ({operands})")


def _skip_rms_norm(w: _Writer) -> None:
    """Y = gamma S / sqrt(mean of S^2 + epsilon) along the last axis, with S = X + skip + bias."""
    if len(w.node.outputs) > 1 and (w.node.outputs[1].uses() or w.node.outputs[1].is_graph_output()):
        raise _refused(w.node, "its second output, which no definition says anything of, is used")
    _skip_sum(w)
    _rms(w, "sum", [-1], w.attribute("epsilon", 1e-12))


def _embed_layer_norm(w: _Writer) -> None:
    """Y = LayerNormalization of the sum of word, position and segment embeddings along the last axis."""
    if len(w.node.outputs) > 1 and (w.node.outputs[1].uses() or w.node.outputs[1].is_graph_output()):
        raise _refused(w.node, "its second output, the mask index, is used")
    w.line("words = Gather <axis = 0> (word, ids)")
    if w.has(8):
        w.line("positions = Gather <axis = 0> (position, places)")
    else:
        w.line("length = Shape <start = 1, end = 2> (ids)")
        w.line("zero = Constant <value_ints = [0]> ()")
        w.line("positions = Slice (position, zero, length, zero)")
    w.line("placed = Add (words, positions)")
    if w.has(1):
        w.line("segments = Gather <axis = 0> (segment, kinds)")
    w.line("sum = Add (placed, segments)" if w.has(1) else "sum = Identity (placed)")
    epsilon = float(w.attribute("epsilon", 1e-12))
    w.line(f"y = LayerNormalization <axis = -1, epsilon = {epsilon!r}> (sum, gamma, beta)")


def _skip_sum(w: _Writer) -> None:
    bias = 4 if w.node.op_type == "SkipLayerNormalization" else 3
    w.line("skipped = Add (x, skip)")
    w.line("sum = Add (skipped, bias)" if w.has(bias) else "sum = Identity (skipped)")


def _rms_norm(w: _Writer) -> None:
    """Y = gamma X / sqrt(mean of X^2 + epsilon) along the axes from ``axis`` on."""
    axis, x = int(w.attribute("axis", -1)), w.node.inputs[0]
    if axis >= 0:
        if x is None or x.shape is None:
            raise _refused(w.node, "the rank of its input is unknown, and its axis is counted from the front")
        axis -= len(x.shape)
    _rms(w, "x", range(axis, 0), w.attribute("epsilon", 1e-5))


def _rms(w: _Writer, x: str, axes: Sequence[int], epsilon: float) -> None:
    """Write the normalization, in float32 for the half types."""
    value = w.node.inputs[0]
    wide = value is not None and value.dtype in HALF
    w.line(f"wide = Cast <to = 1> ({x})" if wide else f"wide = Identity ({x})")
    w.number("epsilon", epsilon, "wide")
    w.line(f"axes = Constant <value_ints = [{', '.join(map(str, axes))}]> ()")
    w.line("square = Mul (wide, wide)")
    w.line("mean_square = ReduceMean (square, axes)")
    w.line("shifted = Add (mean_square, epsilon)")
    w.line("length = Sqrt (shifted)")
    w.line("inverse = Reciprocal (length)")
    w.line("unit = Mul (wide, inverse)")
    w.line(f"narrow = CastLike (unit, {x})")
    w.line("y = Mul (narrow, gamma)")


_Definition = tuple[Callable[[_Writer], None], Sequence[str], Sequence[str], Sequence[str]]

_GEMM = ("activation", "activation_alpha", "activation_beta", "activation_gamma", "alpha", "beta")
_CONV = (
    "activation",
    "activation_params",
    "auto_pad",
    "dilations",
    "group",
    "kernel_shape",
    "pads",
    "strides",
)

_DEFINITIONS: dict[tuple[str, str], _Definition] = {
    ("com.microsoft", "Gelu"): (_gelu, ["x"], ["y"], ()),
    ("com.microsoft", "BiasGelu"): (_bias_gelu, ["x", "bias"], ["y"], ()),
    ("com.microsoft", "FastGelu"): (_fast_gelu, ["x", "bias"], ["y"], ()),
    ("com.microsoft", "QuickGelu"): (_quick_gelu, ["x"], ["y"], ("alpha",)),
    ("com.microsoft", "EmbedLayerNormalization"): (
        _embed_layer_norm,
        ["ids", "kinds", "word", "position", "segment", "gamma", "beta", "mask", "places"],
        ["y", "mask_index", "sum"],
        ("epsilon", "mask_index_type"),
    ),
    ("com.microsoft", "FusedMatMul"): (
        _matmul,
        ["a", "b"],
        ["y"],
        ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
    ),
    ("com.microsoft", "FusedGemm"): (_gemm, ["a", "b", "c"], ["y"], (*_GEMM, "transA", "transB")),
    ("com.microsoft", "FusedConv"): (_conv, ["x", "w", "b", "z"], ["y"], _CONV),
    ("com.microsoft", "SkipLayerNormalization"): (
        _skip_layer_norm,
        ["x", "skip", "gamma", "beta", "bias"],
        ["y", "mean", "inverse", "sum"],
        ("epsilon",),
    ),
    ("com.microsoft", "SkipSimplifiedLayerNormalization"): (
        _skip_rms_norm,
        ["x", "skip", "gamma", "bias"],
        ["y", "mean", "inverse", "sum"],
        ("epsilon",),
    ),
    # The optimizer writes it in the standard's domain, which does not have it.
    ("", "SimplifiedLayerNormalization"): (
        _rms_norm,
        ["x", "gamma"],
        ["y", "inverse"],
        ("axis", "epsilon", "stash_type"),
    ),
}
"""The writer, the names of inputs and outputs in the definition, and the attributes that it understands."""
