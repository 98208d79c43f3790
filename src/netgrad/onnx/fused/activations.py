"""Fused activations, and the activation that a fused product or window ends with."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.onnx.fused.definition import Writer, fused

_PLAIN = ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")
_WITH_PARAMETERS = {
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}


def activated(w: Writer, total: str, values: Sequence[float]) -> None:
    """Write y = activation of ``total``, as the node's attribute says; its parameters must be given."""
    name = w.attribute("activation", "")
    if not name:
        w.op("Identity", total, to="y")
    elif name in _PLAIN:
        w.op(name, total, to="y")
    elif name in _WITH_PARAMETERS and len(values) >= len(_WITH_PARAMETERS[name]):
        w.op(name, total, to="y", **dict(zip(_WITH_PARAMETERS[name], map(float, values), strict=False)))
    elif name == "Clip" and len(values) >= 2:
        w.op("Clip", total, w.number(values[0], total), w.number(values[1], total), to="y")
    else:
        raise w.refused(f"its activation {name!r} with {len(values)} parameters is not understood")


def erf_gelu(w: Writer, x: str, to: str) -> None:
    """Write X (1 + erf(X / sqrt 2)) / 2."""
    erf = w.op("Erf", w.op("Mul", x, w.number(0.5**0.5, x)))
    w.op("Mul", w.op("Mul", x, w.number(0.5, x)), w.op("Add", erf, w.number(1.0, x)), to=to)


def tanh_gelu(w: Writer, x: str, to: str) -> None:
    """Write X (1 + tanh(X (B + C X^2))) / 2, with B = sqrt(2 / pi) and C = 0.044715 B."""
    curve = w.op("Mul", w.op("Mul", x, x), w.number(0.035677408136300125, x))
    inner = w.op("Mul", x, w.op("Add", curve, w.number(0.7978845608028654, x)))
    more = w.op("Add", w.op("Tanh", inner), w.number(1.0, x))
    w.op("Mul", w.op("Mul", x, w.number(0.5, x)), more, to=to)


def silu(w: Writer, x: str, to: str) -> None:
    """Write X sigmoid(X)."""
    w.op("Mul", x, w.op("Sigmoid", x), to=to)


@fused("Gelu", inputs="x")
def gelu(w: Writer) -> None:
    """Y = X (1 + erf(X / sqrt 2)) / 2."""
    erf_gelu(w, "x", "y")


@fused("BiasGelu", inputs="x bias")
def bias_gelu(w: Writer) -> None:
    """Y = Gelu(A + B)."""
    erf_gelu(w, w.op("Add", "x", "bias"), "y")


@fused("FastGelu", inputs="x bias")
def fast_gelu(w: Writer) -> None:
    """Y = Gelu of X plus the bias, with tanh in place of erf."""
    tanh_gelu(w, w.op("Add", "x", "bias") if w.has(1) else "x", "y")


@fused("QuickGelu", inputs="x", attributes="alpha")
def quick_gelu(w: Writer) -> None:
    """Y = X sigmoid(alpha X)."""
    scaled = w.op("Mul", "x", w.number(w.attribute("alpha", 1.702), "x"))
    w.op("Mul", "x", w.op("Sigmoid", scaled), to="y")


@fused("BiasAdd", inputs="x bias skip")
def bias_add(w: Writer) -> None:
    """Y = X + bias + skip."""
    w.op("Add", w.op("Add", "x", "bias"), "skip", to="y")


@fused("BiasSplitGelu", inputs="x bias")
def bias_split_gelu(w: Writer) -> None:
    """Y = left Gelu(right), with the left and the right half of X + bias along the last axis."""
    w.ops("Split", w.op("Add", "x", "bias"), to=("left", "right"), axis=-1, num_outputs=2)
    erf_gelu(w, "right", "gelu")
    w.op("Mul", "left", "gelu", to="y")


@fused("BiasDropout", inputs="x bias residual ratio training_mode", outputs="y mask", attributes="seed")
def bias_dropout(w: Writer) -> None:
    """Y = Dropout(X + bias) + residual."""
    options = ["ratio" if w.has(3) else "", "training_mode" if w.has(4) else ""]
    while options and not options[-1]:
        options.pop()
    kept = ("dropped", "mask") if len(w.node.outputs) > 1 else ("dropped",)
    w.ops("Dropout", w.op("Add", "x", "bias"), *options, to=kept, seed=w.attribute("seed"))
    w.op(*(("Add", "dropped", "residual") if w.has(2) else ("Identity", "dropped")), to="y")
