"""Makers of reductions over axes."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        f"Reduce{kind}": f"Reduce{kind}Gradient(G0,I0,O0)->(D0)"
        for kind in ("Sum", "Mean", "Max", "Min", "L1", "L2")
    }
)
lines(
    {
        "SumElements": "SumElementsGradient(I0,G0)->(D0)",
        "RowwiseMax": "RowwiseMaxGradient(I0,O0,G0)->(D0)",
        "ColwiseMax": "ColwiseMaxGradient(I0,O0,G0)->(D0)",
    }
)


@maker("ReduceFrontSum", "ReduceFrontMean", "ReduceBackSum", "ReduceBackMean")
def _sum_of_one_end(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "G0,I0,I1" if len(op.inputs) > 1 else "G0,I0"
    return f"{op.type}Gradient({reads})->(D0)"


@maker("ReduceFrontMax", "ReduceBackMax")
def _maximum_of_one_end(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "G0,I0,O0,I1" if len(op.inputs) > 1 else "G0,I0,O0"
    return f"{op.type}Gradient({reads})->(D0)"


@maker("ReduceFrontWeightedSum")
def _weighted_sum_of_front(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("grad_on_weights", 0):
        raise Refusal("ReduceFrontWeightedSum has no gradient by its weights (grad_on_weights=1)")
    return 'Shape(I0)->("_"O0"_dims"); ReduceFrontWeightedSumGradient(I1,G0,"_"O0"_dims")->(D0)'
