"""Fused normalizations."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from netgrad.onnx.fused.activations import silu
from netgrad.onnx.fused.definition import Writer, fused
from netgrad.onnx.half import HALF


def _added(w: Writer, bias: int) -> str:
    """Write sum = X + skip + bias; the bias is input ``bias``, if there is one."""
    skipped = w.op("Add", "x", "skip")
    return w.op(*(("Add", skipped, "bias") if w.has(bias) else ("Identity", skipped)), to="sum")


@fused(
    "SkipLayerNormalization",
    inputs="x skip gamma beta bias",
    outputs="y mean inverse sum",
    attributes="epsilon",
)
def skip_layer_norm(w: Writer) -> None:
    """Y = LayerNormalization of S = X + skip + bias along the last axis; S is the fourth output."""
    operands = [_added(w, 4), "gamma", *(["beta"] if w.has(3) else [])]
    epsilon = float(w.attribute("epsilon", 1e-12))
    w.ops("LayerNormalization", *operands, to=("y", "mean", "inverse"), axis=-1, epsilon=epsilon)


@fused(
    "SkipSimplifiedLayerNormalization",
    inputs="x skip gamma bias",
    outputs="y mean inverse sum",
    attributes="epsilon",
)
def skip_rms_norm(w: Writer) -> None:
    """Y = gamma S / sqrt(mean of S^2 + epsilon) along the last axis, with S = X + skip + bias."""
    w.refuse_outputs(mean=1, inv_std_var=2)
    rms_norm(w, _added(w, 3), "gamma", [-1], w.attribute("epsilon", 1e-12), to="y")


@fused(
    "EmbedLayerNormalization",
    inputs="ids kinds word position segment gamma beta mask places",
    outputs="y mask_index sum",
    attributes="epsilon mask_index_type",
)
def embed_layer_norm(w: Writer) -> None:
    """Y = LayerNormalization of the sum of word, position and segment embeddings along the last axis.

    ``mask_index`` tells how many elements of the mask are 1 in each row.
    """
    if w.used(1) and w.has(7):
        ones = w.cast(
            w.op("Equal", "mask", w.cast(w.ints(1), onnx_ir.DataType.INT32)), onnx_ir.DataType.INT32
        )
        w.op("ReduceSum", ones, w.ints(1), keepdims=0, to="mask_index")
    elif w.used(1):
        w.line(f"mask_index = ConstantOfShape <value = int32[1] {{0}}> ({w.size('ids', 0)})")
    words = w.op("Gather", "word", "ids", axis=0)
    if w.has(8):
        positions = w.op("Gather", "position", "places", axis=0)
    else:
        zero = w.ints(0)
        positions = w.op("Slice", "position", zero, w.size("ids", 1), zero)
    placed = w.op("Add", words, positions)
    segments = [w.op("Gather", "segment", "kinds", axis=0)] if w.has(1) else []
    w.op("Add" if segments else "Identity", placed, *segments, to="sum")
    epsilon = float(w.attribute("epsilon", 1e-12))
    w.op("LayerNormalization", "sum", "gamma", "beta", to="y", axis=-1, epsilon=epsilon)


@fused(
    # The optimizer writes it in the standard's domain, which does not have it.
    "SimplifiedLayerNormalization",
    domain="",
    inputs="x gamma",
    outputs="y inverse",
    attributes="axis epsilon stash_type",
)
def simplified_layer_norm(w: Writer) -> None:
    """Y = gamma X / sqrt(mean of X^2 + epsilon) along the axes from ``axis`` on."""
    axis = int(w.attribute("axis", -1))
    axes = range(axis if axis < 0 else axis - w.rank(0), 0)
    _, inverse = rms_norm(w, "x", "gamma", axes, w.attribute("epsilon", 1e-5), to="y")
    w.op("Identity", inverse, to="inverse")


def rms_norm(
    w: Writer, x: str, gamma: str, axes: Sequence[int], epsilon: float, to: str | None = None
) -> tuple[str, str]:
    """Write gamma X / sqrt(mean of X^2 + epsilon), in float32 for the half types.

    Returns:
        The result, called ``to`` if that is given, and the inverse of the root.
    """
    wide = _wide(w, x)
    square = w.op("ReduceMean", w.op("Mul", wide, wide), w.ints(*axes))
    inverse = w.op("Reciprocal", w.op("Sqrt", w.op("Add", square, w.number(epsilon, wide))))
    narrow = w.op("CastLike", w.op("Mul", wide, inverse), x)
    return w.op("Mul", narrow, gamma, to=to), inverse


def _wide(w: Writer, x: str) -> str:
    """``x`` in float32, if the first input is of a half type."""
    return w.cast(x, onnx_ir.DataType.FLOAT) if w.dtype(0) in HALF else x


_GROUP_NORM = "activation channels_last epsilon groups"


@fused("GroupNorm", inputs="x gamma beta", attributes=_GROUP_NORM)
def group_norm(w: Writer) -> None:
    """Y = activation(gamma (X - mean) / sqrt(variance + epsilon) + beta) by groups of channels.

    X and Y are [n, h, w, c] where channels_last is 1, which it is by default, else [n, c, h, w].
    """
    _group_norm(w, "x")


@fused("SkipGroupNorm", inputs="x gamma beta skip bias", outputs="y sum", attributes=_GROUP_NORM)
def skip_group_norm(w: Writer) -> None:
    """GroupNorm of S = X + skip + bias, the second output; skip[n, h, w, c], [n, 1, 1, c] or [n, c]."""
    last = w.attribute("channels_last", 1)
    skip = "skip"
    if w.rank(3) == 2:
        skip = w.op("Unsqueeze", skip, w.ints(1, 2) if last else w.ints(2, 3))
    total = w.op("Add", "x", skip)
    if w.has(4):
        total = w.op("Add", total, "bias" if last else w.op("Unsqueeze", "bias", w.ints(1, 2)))
    _group_norm(w, w.op("Identity", total, to="sum"))


def _group_norm(w: Writer, x: str) -> None:
    kind = w.attribute("activation")
    if kind not in (0, 1):
        raise w.refused(f"its activation {kind!r} is not understood")
    last = w.attribute("channels_last", 1)
    wide = _wide(w, x)
    image = w.op("Transpose", wide, perm=[0, 3, 1, 2]) if last else wide
    groups = w.op("Reshape", image, w.ints(0, int(w.attribute("groups")), -1))
    axis = w.ints(-1)
    centred = w.op("Sub", groups, w.op("ReduceMean", groups, axis))
    variance = w.op("ReduceMean", w.op("Mul", centred, centred), axis)
    length = w.op("Sqrt", w.op("Add", variance, w.number(w.attribute("epsilon", 1e-5), wide)))
    unit = w.op("Reshape", w.op("Div", centred, length), w.op("Shape", image))
    gamma, beta = (w.op("Unsqueeze", w.op("CastLike", p, wide), w.ints(1, 2)) for p in ("gamma", "beta"))
    normal = w.op("Add", w.op("Mul", unit, gamma), beta)
    if kind == 1:
        silu(w, normal, "active")
        normal = "active"
    w.op("CastLike", w.op("Transpose", normal, perm=[0, 2, 3, 1]) if last else normal, x, to="y")
