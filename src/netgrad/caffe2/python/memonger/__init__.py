"""Nets that need fewer blobs. ONNX Runtime shares the memory of what it runs in any case."""

from netgrad.caffe2.python.memonger.assignments import (
    AssignmentAlgorithm,
    LiveRange,
    compute_assignments,
    compute_assignments_dp,
    compute_assignments_greedy,
    compute_blob_assignments,
    compute_ranges,
    get_memory_usage,
    get_updated_ranges,
    is_compatible,
    verify_assignments,
)
from netgrad.caffe2.python.memonger.interference import (
    Optimization,
    apply_assignments,
    optimize_inference_fast,
    optimize_interference,
)
from netgrad.caffe2.python.memonger.ordering import (
    compute_interference_graph,
    topological_sort_traversal,
    topological_sort_traversal_longest_path,
)
from netgrad.caffe2.python.memonger.sharing import (
    optimize_inference_for_dag,
    release_blobs_when_used,
    share_grad_blobs,
    verify_graph_equality,
    verify_inplace_blobs,
)
from netgrad.caffe2.python.memonger.statistics import (
    Statistics,
    blob_nbytes,
    collect_blob_sizes,
    compute_statistics,
    estimate_memory_usage,
)

__all__ = [
    "AssignmentAlgorithm",
    "LiveRange",
    "Optimization",
    "Statistics",
    "apply_assignments",
    "blob_nbytes",
    "collect_blob_sizes",
    "compute_assignments",
    "compute_assignments_dp",
    "compute_assignments_greedy",
    "compute_blob_assignments",
    "compute_interference_graph",
    "compute_ranges",
    "compute_statistics",
    "estimate_memory_usage",
    "get_memory_usage",
    "get_updated_ranges",
    "is_compatible",
    "optimize_inference_fast",
    "optimize_inference_for_dag",
    "optimize_interference",
    "release_blobs_when_used",
    "share_grad_blobs",
    "topological_sort_traversal",
    "topological_sort_traversal_longest_path",
    "verify_assignments",
    "verify_graph_equality",
    "verify_inplace_blobs",
]
