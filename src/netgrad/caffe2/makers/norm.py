"""Makers of normalization and of Dropout."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "Normalize": "NormalizeGradient(I0,G0)->(D0)",
        "LpNorm": "LpNormGradient(I0,G0)->(D0)",
        "Moments": "MomentsGradient(G0,G1,I0,O0)->(D0)",
        "BatchMoments": "BatchMomentsGradient(G0,G1,I0)->(D0)",
    }
)


@maker("SpatialBN", partial=True)
def _spatial_bn(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("is_test", 0):
        return "SpatialBNGradient(I0,I1,G0,I3,I4)->(D0,D1,D2)"
    if op.attributes.get("num_batches", 1) > 1:
        raise Refusal(
            "SpatialBN over several batches has no gradient: its sums would be read before they are written"
        )
    return "SpatialBNGradient(I0,I1,G0,O3,O4)->(D0,D1,D2)"


@maker("InstanceNorm", partial=True)
def _instance_norm(op: Operator, grads: Sequence[Gradient | None]) -> str:
    saved = "".join(f",O{at}" for at in range(1, len(op.outputs)))
    return f"InstanceNormGradient(I0,I1,I2,G0{saved})->(D0,D1,D2)"


@maker("LRN", partial=True)
def _local_response(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "LRNGradient(I0,O0,G0)->(D0)"


@maker("GroupNorm", partial=True)
def _group_norm(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "GroupNormGradient(G0,I0,I1,I2,O1,O2)->(D0,D1,D2)"


@maker("LayerNorm", partial=True)
def _layer_norm(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("elementwise_affine", 0):
        return "LayerNormGradient(G0,O0,O1,O2,I0,I1)->(D0,D1,D2)"
    return "LayerNormGradient(G0,O0,O1,O2,I0)->(D0)"


@maker("RMSNorm", partial=True)
def _rms_norm(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "RMSNormGradient(G0,I0,I1,O1)->(D0,D1,D2)"


@maker("AffineChannel")
def _affine_channel(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("is_learnable", 0):
        return "AffineChannelGradient(G0,I0,I1)->(D0,D1,D2)"
    return "AffineChannelGradient(G0,I1)->(D0)"


@maker("Dropout", partial=True, counts=(1,))
def _dropout(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "DropoutGrad(G0)->(D0)" if op.attributes.get("is_test", 0) else "DropoutGrad(G0,O1)->(D0)"
