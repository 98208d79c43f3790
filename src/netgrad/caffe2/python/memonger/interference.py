"""Nets for inference in which blobs share memory, by the ranges in which they live."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.core.remap import remap_operands
from netgrad.caffe2.python.memonger.assignments import (
    AssignmentAlgorithm,
    Assignments,
    compute_assignments,
    compute_blob_assignments,
    compute_ranges,
)
from netgrad.caffe2.python.memonger.ordering import (
    OperatorGraph,
    compute_interference_graph,
    topological_sort_traversal,
)
from netgrad.caffe2.python.memonger.sharing import inner_names, reused


class Optimization(NamedTuple):
    """A net with fewer blobs.

    Attributes:
        net: The net.
        assignments: Blobs that share memory, with the ranges in which they live.
        blob_assignments: Blob to its name in the net, if that is another one than before or others have it.
    """

    net: NetDef
    assignments: Assignments
    blob_assignments: dict[str, str]


def apply_assignments(net: NetDef, blob_assignments: Mapping[str, str]) -> None:
    """Rename the operands of a net's operators."""
    for op in net.op:
        remap_operands(op, dict(blob_assignments))


def optimize_interference(
    net: NetDef,
    static_blobs: Collection[Any],
    ordering_function: Callable[[OperatorGraph], list[int]] = topological_sort_traversal,
    blob_sizes: Mapping[str, int] | None = None,
    algo: AssignmentAlgorithm = AssignmentAlgorithm.GREEDY,
) -> Optimization:
    """A net whose operators are put in an order, and whose blobs then share memory.

    Blobs that the nets inside operators know by name keep theirs.

    Args:
        net: The net, which stays as it is.
        static_blobs: Blobs that keep their memory for themselves: parameters, inputs, outputs.
        ordering_function: The order, such as `topological_sort_traversal_longest_path`.
        blob_sizes: The bytes of every blob, if they matter; see `collect_blob_sizes`.
        algo: How blobs are assigned.
    """
    result = NetDef()
    result.CopyFrom(net)
    order = ordering_function(compute_interference_graph(net.op))
    del result.op[:]
    result.op.extend(net.op[index] for index in order)
    ranges = compute_ranges(result.op, blob_sizes)
    static = {str(blob) for blob in static_blobs} | inner_names(net)
    assignments = compute_assignments(ranges, static, algo)
    blob_assignments = compute_blob_assignments(assignments)
    apply_assignments(result, blob_assignments)
    return Optimization(result, assignments, blob_assignments)


def optimize_inference_fast(net: NetDef, static_blobs: Collection[Any]) -> NetDef:
    """A net with fewer names, its operators in the order that they have: blobs are written where others were.

    What is shared is called ``__m<number>_shared``. A blob that no operator reads keeps its name: it may be a
    result.

    Args:
        net: The net, which stays as it is.
        static_blobs: Blobs that keep their names: parameters, inputs, outputs.
    """
    static = {str(blob) for blob in static_blobs}
    read = {blob for op in net.op for blob in op.input}
    return reused(net, lambda blob: blob in read and blob not in static)
