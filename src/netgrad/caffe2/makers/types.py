"""The operator types that there are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from functools import lru_cache

from netgrad.caffe2.makers.registry import ENTRIES
from netgrad.caffe2.makers.unregistered import UNREGISTERED

_CALL = re.compile(r"(\w+)\(")

# Gradient operators whose names stand in no line as they are, because a maker puts them together.
_COMPOSED = tuple(
    f"{type_}Gradient"
    for type_ in [
        "BatchGather",
        "Conv",
        "Conv1D",
        "Conv2D",
        "Conv3D",
        "ConvTranspose",
        "LC",
        "LC1D",
        "LC2D",
        "LC3D",
        "DeformConv",
        "ResizeNearest",
        "UpsampleBilinear",
        "SpatialBN",
        "InstanceNorm",
        "HSoftmax",
        "RMSNorm",
        "TTSparseLengthsSum",
        "LayerNorm",
        "AffineChannel",
        "SoftmaxWithLoss",
        "SpatialSoftmaxWithLoss",
        "PairWiseLoss",
        "LambdaRankNdcg",
        "ReduceFrontSum",
        "ReduceFrontMean",
        "ReduceBackSum",
        "ReduceBackMean",
        "ReduceFrontMax",
        "ReduceBackMax",
        "SortedSegmentWeightedSum",
        "UnsortedSegmentWeightedSum",
        "LengthsWeightedSum",
        "LengthsWeightedSumWithMainInput",
        "SparseLengthsIndicesInGradientWeightedSum",
        "SparseLengthsIndicesInGradientWeightedSumWithMainInput",
        "WeightedSum",
        "Slice",
        "Tile",
        "RoIPool",
        "RoIPoolF",
        "SoftmaxFocalLoss",
        "FunHash",
        "SparseFunHash",
        "TopK",
        "FlexibleTopK",
        "LengthsTopK",
        "BooleanMask",
        "SparseToDenseMask",
        "LSTMUnit",
        "GRUUnit",
        "Recurrent",
        "RecurrentNetwork",
        "Python",
        "PythonDLPack",
        "Softsign",
        "MergeSingleScalarFeatureTensors",
        "MergeSingleListFeatureTensors",
        "MergeSingleMapFeatureTensors",
        "MergeMultiScalarFeatureTensors",
        "MergeMultiListFeatureTensors",
        "MergeMultiMapFeatureTensors",
        "DotProductWithPadding",
        "GroupNorm",
        "LRN",
        "LengthsMean",
        "LengthsSum",
        "MaxPoolWithIndex",
        "ReduceFrontWeightedSum",
        "SparseLengthsMean",
        "SparseLengthsSum",
    ]
)


@lru_cache(maxsize=1)
def registered_types() -> frozenset[str]:
    """All operator types: those with a maker, those without, and the gradient operators that makers write."""
    lines = [entry.maker for entry in ENTRIES.values() if isinstance(entry.maker, str)]
    written = {type_ for line in lines for type_ in _CALL.findall(line)}
    return frozenset({*ENTRIES, *UNREGISTERED, *written, *_COMPOSED, "DropoutGrad"})


def is_operator(type_: str) -> bool:
    """Whether there is an operator of that type."""
    return type_ in registered_types()


def near_types(type_: str) -> str:
    """A hint that names types of a similar name, or nothing."""
    near: Sequence[str] = get_close_matches(type_, registered_types())
    return f"; there is {', '.join(near)}" if near else ""
