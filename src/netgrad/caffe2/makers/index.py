"""Makers of lookups, scatters and packing by computed positions."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "BatchPermutation": "BatchPermutationGradient(I1,G0)->(D0)",
        "BatchSparseToDense": "BatchDenseToSparse(I0,I1,G0)->(D2)",
        "BatchDenseToSparse": "BatchSparseToDense(I0,I1,G0,I2)->(D2)",
        "CopyRowsToTensor": "CopyRowsToTensorGradient(G0,I1)->(D0,D2)",
        "SparseToDense": "Gather(G0,I0)->(D1)",
        "UnpackSegments": "PackSegments(I0,G0)->(D1)",
        "PackRNNSequence": "UnpackRNNSequence(G0,I1)->(D0)",
        "UnpackRNNSequence": "PackRNNSequence(G0,I1)->(D0)",
    }
)


@maker("BooleanMask", partial=True, counts=(1,))
def _boolean_mask(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "BooleanMaskGradient(I1,G0)->(D0)"


@maker("TopK", partial=True, counts=(1, 2))
def _top_k(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "TopKGradient(G0,O1,I0)->(D0)"


@maker("FlexibleTopK", partial=True, counts=(1,))
def _flexible_top_k(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "FlexibleTopKGradient(I0,I1,G0,O1)->(D0)"


@maker("LengthsTopK", partial=True, counts=(1,))
def _lengths_top_k(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "LengthsTopKGradient(I1,O1,G0)->(D0)"


@maker("Gather")
def _gather(op: Operator, grads: Sequence[Gradient | None]) -> str:
    """Rows have a sparse gradient; what lies along another axis has a dense one."""
    axis = op.attributes.get("axis", 0)
    if axis != 0:
        return f"BatchGatherGradient(I0,I1,G0)->(D0){{axis={axis}}}"
    return "SparseToDense(I1,G0,I0)->(D0)" if op.attributes.get("dense_gradient", 0) else "S0=(I1,G0)"


@maker("BatchGather")
def _batch_gather(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.attributes.get("axis", 1) != 1:  # the operator has no such argument, but its gradient has
        raise Refusal("BatchGather gathers along axis 1: use Gather for another one")
    return "BatchGatherGradient(I0,I1,G0)->(D0)"


@maker("PackSegments", partial=True, counts=(1,))
def _pack_segments(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "UnpackSegments(I0,G0)->(D1)"


@maker("SparseToDenseMask", partial=True, counts=(1,))
def _sparse_to_dense_mask(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "I0,G0,I3" if len(op.inputs) > 3 else "I0,G0"
    return f"SparseToDenseMaskGradient({reads})->(D1)"


@maker("GatherByKey")
def _gather_by_key(op: Operator, grads: Sequence[Gradient | None]) -> str:
    shards = ",".join(f'"_"D{at}"_keys",D{at}' for at in range(1, len(op.inputs)))
    return f"Partition(I0,G0)->({shards}){{pack_first_input=1}}"


def _every(step: int, *offsets: int, count: int) -> list[int]:
    return [base + offset for base in range(0, count, step) for offset in offsets]


_MERGES = {  # inputs per feature or tensor, those that the gradient reads, the one that gets it, its output
    "MergeSingleScalarFeatureTensors": (2, (1,), 0, 2),
    "MergeSingleListFeatureTensors": (3, (0, 2), 1, 3),
    "MergeSingleMapFeatureTensors": (4, (0, 3), 2, 4),
    "MergeMultiScalarFeatureTensors": (3, (0,), 2, 2),
    "MergeMultiListFeatureTensors": (4, (0, 2), 3, 3),
    "MergeMultiMapFeatureTensors": (5, (0, 2), 4, 4),
}


@maker(*_MERGES, partial=True)
def _merge(op: Operator, grads: Sequence[Gradient | None]) -> str:
    step, read, written, output = _MERGES[op.type]
    reads = ",".join(f"I{at}" for at in _every(step, *read, count=len(op.inputs)))
    writes = ",".join(f"D{at}" for at in _every(step, written, count=len(op.inputs)))
    return f"{op.type}Gradient({reads},G{output})->({writes})"
