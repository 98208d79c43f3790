"""Regularizers: terms of the loss, and limits of parameters after their update."""

from netgrad.caffe2.python.regularizer.base import RegularizationBy, Regularizer
from netgrad.caffe2.python.regularizer.bounds import BoundedGradientProjection, LogBarrier
from netgrad.caffe2.python.regularizer.of_rows import (
    ConstantNorm,
    MaxNorm,
    SparseL1Norm,
    SparseL2Norm,
    SparseLpNorm,
)
from netgrad.caffe2.python.regularizer.on_loss import (
    ElasticNet,
    ElasticNetL1NormTrimmed,
    FCInputLpNorm,
    GroupL1Norm,
    L0ApproxNorm,
    L1Norm,
    L1NormTrimmed,
    L2Norm,
    LpNorm,
)

__all__ = [
    "BoundedGradientProjection",
    "ConstantNorm",
    "ElasticNet",
    "ElasticNetL1NormTrimmed",
    "FCInputLpNorm",
    "GroupL1Norm",
    "L0ApproxNorm",
    "L1Norm",
    "L1NormTrimmed",
    "L2Norm",
    "LogBarrier",
    "LpNorm",
    "MaxNorm",
    "RegularizationBy",
    "Regularizer",
    "SparseL1Norm",
    "SparseL2Norm",
    "SparseLpNorm",
]
