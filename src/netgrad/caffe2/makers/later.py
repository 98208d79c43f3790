"""Operators without a gradient that came later; see `netgrad.caffe2.makers.without_gradient`."""

from __future__ import annotations

from netgrad.caffe2.makers.registry import no_gradient, should_not_do_gradient

# lists, bytes, draws
no_gradient(
    "BatchBucketize",
    "BisectPercentile",
    "DenseVectorToIdList",
    "Float16UniformFill",
    "FloatToFused8BitRowwiseQuantizedHalfScaleBias",
    "FloatToFusedRandRowwiseQuantized",
    "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat",
    "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat",
    "Fused8BitRowwiseQuantizedToHalfFloat",
    "FusedRandRowwiseQuantizedToFloat",
    "GivenTensorByteStringToUInt8Fill",
    "GivenTensorInt16Fill",
    "HalfFloatToFused8BitRowwiseQuantized",
    "HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias",
    "LearningRateAdaption",
    "SparseDropoutWithReplacement",
    "SparseLengthsSumSparseLookup",
    "SparseItemwiseDropoutWithReplacement",
    "StumpFuncIndex",
    "SwapBestPath",
    "ViterbiPath",
)

# comparisons, metrics, optimizers, decoders
should_not_do_gradient(
    "Adadelta",
    "AsyncNetBarrier",
    "Bucketize",
    "CTCBeamSearchDecoder",
    "CTCGreedyDecoder",
    "CollectRpnProposals",
    "DecayAdagrad",
    "DistributeFpnProposals",
    "EnsureClipped",
    "FP16MomentumSGDUpdate",
    "FP32MomentumSGDUpdate",
    "Fail",
    "Float16SparseNormalize",
    "GFtrl",
    "HeatmapMaxKeypoint",
    "Histogram",
    "IsNanOrInf",
    "LengthsSplit",
    "NE",
    "NumpyTile",
    "Quantile",
    "RowWiseCounter",
    "SelfBinningHistogram",
    "SmartDecaySparseAdam",
    "SparseAdadelta",
    "SparseStorm",
    "SparseWngrad",
    "Storm",
    "StringEquals",
    "ThrowException",
    "WeightScale",
    "Wngrad",
)
