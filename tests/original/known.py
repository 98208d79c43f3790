"""What of the original's tests netgrad isn't measured by, and which of the others fail, and why."""

from __future__ import annotations

import re

EXCLUDED: dict[str, str] = {
    "ideep/": "operators of MKL-DNN",
    "mkl/": "operators of MKL",
    "trt/": "TensorRT",
    "operator_test/torch_integration_test.py": "operators as functions of PyTorch's tensors",
    "test/inference_lstm_op_test.py": "an operator as a function of PyTorch's tensors",
}
"""Starts of paths of test files that are left out, with the reason."""

_NODES = r"onnx/tests/onnx_backend_test\.py::OnnxBackendNodeModelTest::"
_GRADIENTS = r"core_gradients_test\.py::TestGradientCalculation::"
KNOWN: dict[str, str] = {
    _GRADIENTS
    + "testVersionMismatch": "an output that is overwritten unread gets no gradient, which is right",
    _GRADIENTS + "test_zero_gradient": "an output without a gradient counts as zeros, which is right",
    r"workspace_test\.py::TestWorkspace::testTorchInterop": "tensors of PyTorch are not taken",
    _NODES + "test_split_equal_parts_(1d|default_axis)_cpu": "ONNX's package of today has no such test",
    r"workspace_test\.py::TestWorkspaceIDEEP::.*": "there is no device MKL-DNN",
    r"operator_test/layer_norm_op_test\.py::.*_(jit|pytorch)": "it calls the operator in PyTorch",
    r"operator_test/heatmap_max_keypoint_op_test\.py::.*_pytorch_eq": "it calls the operator in PyTorch",
    r"operator_test/integral_image_ops_test\.py::.*gradient.*": "the original sums from the wrong corner",
    r"sparse_to_dense_mask_test\.py::.*_invalid_inputs": "NumPy refuses the numbers that it feeds today",
    r"test/fakefp16_transform_test\.py::.*": "operators that imitate half precision are not there",
    r"operator_test/index_hash_ops_test\.py::.*::test_index_hash_ops": "its own formula overflows in NumPy 2",
}
"""Patterns of tests, as ``file::class::test``, that pass with the original and fail here, with the reason."""


_OF_2018: dict[str, str] = {
    _GRADIENTS + "testMultiUseInput(AndMultipleVersions(Big)?)?": "sums have carried a tag since 2019",
    r"data_parallel_model_test\.py::.*_synchronization_barrier": "it connects processes, which is refused",
    r"modeling/compute_norm_for_blobs_test\.py::.*": "norms have had more operators since 2019",
    r"hypothesis_test\.py::TestOperators::test_(slice|sparse_to_dense)": "NumPy refuses it today",
    r"layers_test\.py::.*::testDistillBatchLRLossWith.*": "off by one unit in the last place",
    r"operator_test/rand_quantization_op_test\.py::.*": "its own formula overflows in NumPy 2",
    r"operator_test/reshape_ops_test\.py::.*_missing_dim": "empty tensors have been reshaped since 2019",
    r"operator_test/string_ops_test\.py::.*": "hypothesis refuses its alphabet today",
    r"transformations_test\.py::.*_(converterEnforceUnusedOutputs|transformer_SinkMaxPool)": "later dropped",
    r"workspace_test\.py::TestWorkspace::testGetOperatorCost": "there have been three numbers since 2019",
}
"""More of them, of release 1.0.0: where behaviour has changed, netgrad's is the later one."""


def reason_for(test: str, release: str = "1.10.2") -> str | None:
    """Why a test may fail; None where it may not."""
    known = KNOWN if release == "1.10.2" else {**KNOWN, **_OF_2018}
    return next((reason for pattern, reason in known.items() if re.fullmatch(pattern, test)), None)
