"""Makers of copies, and of operators that let a gradient through or make one."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, GradientSlice, Operator

lines(
    {
        "Alias": "D0=G0",
        "Copy": "CopyOnDeviceLike(G0,I0)->(D0)",
        "FloatToHalf": "HalfToFloat(G0)->(D0)",
        "HalfToFloat": "FloatToHalf(G0)->(D0)",
        "NanCheck": "NanCheck(G0)->(D0)",
    }
)


@maker("ZeroGradient", partial=True)
def _zero_gradient(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "ConstantFill(I0)->(D0){value=0.0}"


@maker("EnsureDense", sparse=True, value_keeping=True)
def _ensure_dense(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "SparseToDense(GI0,GV0,I0)->(D0)" if isinstance(grads[0], GradientSlice) else "D0=G0"


@maker("CopyGPUToCPU", "CopyCPUToGPU", sparse=True, value_keeping=True)
def _copy_between_devices(op: Operator, grads: Sequence[Gradient | None]) -> str:
    back = "CopyCPUToGPU" if op.type == "CopyGPUToCPU" else "CopyGPUToCPU"
    if isinstance(grads[0], GradientSlice):
        return f"{back}(GI0)->(X0); {back}(GV0)->(V0); S0=(X0,V0)"
    return f"{back}(G0)->(D0)"
