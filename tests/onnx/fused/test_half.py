"""Fused operators in float16, against float64, and in bfloat16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from netgrad.transforms.grad import differentiate
from tests.onnx.fused import (
    test_attention,
    test_fused,
    test_group_query_attention,
    test_quantized,
    test_rotary,
)
from tests.onnx.fused.table import Row, forward, fused_model
from tests.onnx.rules.table import Arrays, runner

FAMILIES = (test_attention, test_fused, test_group_query_attention, test_quantized, test_rotary)
TYPES = {
    *("Attention", "MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding", "MatMulNBits"),
    *("BiasSoftmax", "GroupNorm", "SkipGroupNorm", "NhwcConv", "SkipLayerNormalization", "BiasSplitGelu"),
}
ROWS = [row for family in FAMILIES for row in family.ROWS if row.type in TYPES][::5]


def _gradients(row: Row, results: Arrays, dtype: type) -> Arrays:
    model = fused_model(row, dtype, results=results)
    gradient = differentiate(model, wrt=row.names, of=row.of, cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    rng = np.random.default_rng(1)
    feeds = {k: v.astype(dtype) if v.dtype.kind == "f" else v for k, v in row.point.items()}
    for name in row.of:
        feeds[gradient.seeds[name]] = rng.normal(size=results[name].shape).round(2).astype(dtype)
    found = runner(proto)(feeds)
    return {name: found[gradient.outputs[name]] for name in row.names}


def test_each_family_is_there() -> None:
    assert {row.type for row in ROWS} > {"Attention", "MultiHeadAttention", "GroupQueryAttention"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_gradient_in_half_precision(row: Row) -> None:
    results = forward(row)
    exact, half = (_gradients(row, results, dtype) for dtype in (np.float64, np.float16))
    for name, array in exact.items():
        assert half[name].dtype == np.float16
        error = np.abs(half[name].astype(np.float64) - array).max()
        assert error <= 4e-3 * np.abs(array).max(), f"{row.type}, gradient of {name}"


@pytest.mark.parametrize(
    "row", [row for row in test_fused.ROWS if "MatMul" in row.type], ids=lambda row: row.id
)
def test_a_bfloat16_product_is_a_valid_model(row: Row) -> None:
    """Einsum, which turns the factors, does not take bfloat16."""
    model = fused_model(row, ml_dtypes.bfloat16, results=forward(row))
    gradient = differentiate(model, wrt=row.names, of=row.of, cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    types = {value.name: value.type.tensor_type.elem_type for value in proto.graph.output}
    assert {types[gradient.outputs[name]] for name in row.names} == {onnx.TensorProto.BFLOAT16}
