"""Makers of the operators that Detectron, the detector of Caffe2's time, brings in a library of its own."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "GroupSpatialSoftmax": "GroupSpatialSoftmaxGradient(O0,G0)->(D0)",
        "SampleAs": "SampleAsGradient(I0,I1,G0)->(D0)",
        "SelectSmoothL1Loss": "SelectSmoothL1LossGradient(I0,I1,I2,I3,G0)->(D0)",
        "SigmoidCrossEntropyLoss": "SigmoidCrossEntropyLossGradient(I0,I1,G0)->(D0)",
        "SigmoidFocalLoss": "SigmoidFocalLossGradient(I0,I1,I2,G0)->(D0)",
        "SmoothL1Loss": "SmoothL1LossGradient(I0,I1,I2,I3,G0)->(D0)",
        "SpatialNarrowAs": "SpatialNarrowAsGradient(I0,I1,G0)->(D0)",
        "UpsampleNearest": "UpsampleNearestGradient(I0,G0)->(D0)",
    }
)


@maker("SoftmaxFocalLoss", partial=True, counts=(1,))
def _softmax_focal_loss(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "SoftmaxFocalLossGradient(I0,I1,I2,O1,G0)->(D0)"


@maker("RoIPoolF", partial=True, counts=(1,))
def _roi_pool(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "RoIPoolFGradient(I0,I1,O1,G0)->(D0)"
