"""Makers of a few operators that every net has; the other families have modules of their own."""

from __future__ import annotations

from netgrad.caffe2.makers.registry import lines, no_gradient

lines(
    {
        "FC": "FCGradient(I0,I1,G0)->(D1,D2,D0)",
        "Relu": "ReluGradient(O0,G0)->(D0)",
        "Sum": "D*=G0",
    }
)
no_gradient("ConstantFill", "GivenTensorFill", "StopGradient")
