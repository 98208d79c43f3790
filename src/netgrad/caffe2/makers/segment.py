"""Makers of sums over segments and lengths, dense and of looked-up rows."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

for _order in ("Sorted", "Unsorted"):
    for _kind in ("Sum", "Mean"):
        _type = f"{_order}Segment{_kind}"
        lines(
            {
                _type: f"{_type}Gradient(G0,I1)->(D0)",
                f"Sparse{_type}": f"{_type}Gradient(G0,I2)->(V0); S0=(I1,V0)",
            }
        )

lines(
    {
        f"SortedSegmentRange{kind}": f"SortedSegmentRange{kind}Gradient(I0,O0,G0,I1)->(D0)"
        for kind in ("Sum", "Mean", "Max", "LogSumExp", "LogMeanExp")
    }
)
lines(
    {
        "LengthsSum": "LengthsIndicesInGradientSumGradient(G0,I1,I0)->(D0)",
        "LengthsMean": "LengthsIndicesInGradientMeanGradient(G0,I1,I0)->(D0)",
        "LengthsMax": "LengthsMaxWithMainInputAndForwardOutputGradient(O0,G0,I1,I0)->(D0)",
        "SparseLengthsSum": "SparseLengthsIndicesInGradientSumGradient(G0,I2,I1)->(V0); S0=(I1,V0)",
        "SparseLengthsMean": "SparseLengthsIndicesInGradientMeanGradient(G0,I2,I1)->(V0); S0=(I1,V0)",
        "LengthsPad": "LengthsPadGradient(G0,I1)->(D0)",
        "LengthsTile": "LengthsSum(G0,I1)->(D0)",
        "SquareRootDivide": "SquareRootDivide(G0,I1)->(D0)",
    }
)


def _weights_are_constant(op: Operator) -> None:
    if op.attributes.get("grad_on_weights", 0):
        raise Refusal(f"{op.type} has no gradient by its weights (grad_on_weights=1)")


@maker("SortedSegmentWeightedSum", "UnsortedSegmentWeightedSum")
def _weighted_segments(op: Operator, grads: Sequence[Gradient | None]) -> str:
    _weights_are_constant(op)
    return f"{op.type}Gradient(I1,G0,I2)->(D0)"


@maker("SparseSortedSegmentWeightedSum", "SparseUnsortedSegmentWeightedSum")
def _weighted_segments_of_rows(op: Operator, grads: Sequence[Gradient | None]) -> str:
    _weights_are_constant(op)
    return f"{op.type.removeprefix('Sparse')}Gradient(I1,G0,I3)->(V0); S0=(I2,V0)"


@maker("TTSparseLengthsSum", partial=True, counts=(3,))
def _tensor_train(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if len(op.outputs) < 4:
        raise Refusal(f"{op.type} has a gradient only if it writes all its four outputs")
    return f"{op.type}Gradient(I0,I1,I2,I4,O1,O2,O3,G0)->(D0,D1,D2)"


@maker("LengthsWeightedSum")
def _weighted_lengths(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("grad_on_weights", 0):
        return "LengthsWeightedSumWithMainInputGradient(I1,G0,I2,I0)->(D0,D1)"
    return "LengthsWeightedSumGradient(I1,G0,I2)->(D0)"


@maker("SparseLengthsWeightedSum")
def _weighted_lengths_of_rows(op: Operator, grads: Sequence[Gradient | None]) -> str:
    name = "SparseLengthsIndicesInGradientWeightedSum"
    if op.attributes.get("grad_on_weights", 0):
        return f"{name}WithMainInputGradient(I1,G0,I3,I0,I2)->(V0,D1); S0=(I2,V0)"
    return f"{name}Gradient(I1,G0,I3,I2)->(V0); S0=(I2,V0)"
