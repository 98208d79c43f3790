"""Makers of convolutions, pooling and what moves pixels."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

_POOLS = [f"{kind}Pool{dims}" for kind in ("Max", "Average") for dims in ("", "1D", "2D", "3D")]

lines({type_: f"{type_}Gradient(I0,O0,G0)->(D0)" for type_ in (*_POOLS, "LpPool")})
lines(
    {
        "PadImage": "PadImageGradient(G0)->(D0)",
        "ChannelShuffle": "ChannelShuffleGradient(G0)->(D0)",
        "SpaceToBatch": "BatchToSpace(G0)->(D0)",
        "BatchToSpace": "SpaceToBatch(G0)->(D0)",
        "Im2Col": "Col2Im(G0,I0)->(D0)",
        "Col2Im": "Im2Col(G0)->(D0)",
        "ResizeNearest3D": "ResizeNearest3DGradient(G0,I0)->(D0)",
        "IntegralImage": "IntegralImageGradient(I0,G0)->(D0)",
        "RoIAlign": "RoIAlignGradient(I0,I1,G0)->(D0)",
        "RoIAlignRotated": "RoIAlignRotatedGradient(I0,I1,G0)->(D0)",
        "NCHW2NHWC": "NHWC2NCHW(G0)->(D0)",
        "NHWC2NCHW": "NCHW2NHWC(G0)->(D0)",
    }
)


def _without_image(op: Operator, writes: str) -> str:
    return writes if op.attributes.get("no_gradient_to_input", 0) else f"{writes},D0"


@maker("Conv", "Conv1D", "Conv2D", "Conv3D", "ConvTranspose", "LC", "LC1D", "LC2D", "LC3D")
def _conv(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if len(op.inputs) > 2:
        return f"{op.type}Gradient(I0,I1,G0)->({_without_image(op, 'D1,D2')})"
    return f"{op.type}Gradient(I0,I1,G0)->({_without_image(op, 'D1')}){{no_bias=1}}"


@maker("DeformConv")
def _deform_conv(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if len(op.inputs) > 3:
        return f"DeformConvGradient(I0,I1,I2,G0)->({_without_image(op, 'D1,D2,D3')})"
    return f"DeformConvGradient(I0,I1,I2,G0)->({_without_image(op, 'D1,D2')}){{no_bias=1}}"


@maker("MaxPoolWithIndex", partial=True, counts=(1,))
def _pool_with_index(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "MaxPoolWithIndexGradient(I0,G0,O1)->(D0)"


@maker("RoIPool", partial=True, counts=(1,))
def _roi_pool(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if len(op.outputs) < 2:
        raise Refusal("RoIPool has a gradient only if it writes its argmaxes, with is_test=0")
    return "RoIPoolGradient(I0,I1,O1,G0)->(D0)"


@maker("ResizeNearest", "UpsampleBilinear")
def _resize(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "G0,I0,I1" if len(op.inputs) > 1 else "G0,I0"
    return f"{op.type}Gradient({reads})->(D0)"
