"""Operators that take a half type only at a later opset, written in float32."""

from __future__ import annotations

import onnx_ir as ir
import pytest

from netgrad.onnx.builder import Builder
from netgrad.onnx.half import HALF, can_fill, detour, working_type
from netgrad.onnx.view import TensorInfo

BFLOAT16, FLOAT16, FLOAT, INT64 = (ir.DataType[name] for name in ("BFLOAT16", "FLOAT16", "FLOAT", "INT64"))


@pytest.mark.parametrize("dtype", list(ir.DataType))
def test_half_types_work_in_float32(dtype: ir.DataType) -> None:
    assert working_type(dtype) == (FLOAT if dtype in (FLOAT16, BFLOAT16) else dtype)
    assert (dtype in HALF) == (dtype in (FLOAT16, BFLOAT16))


@pytest.mark.parametrize(("opset", "written"), [(18, ["Cast", "Round", "Cast"]), (22, ["Round"])])
def test_an_operator_is_written_in_float32_where_its_opset_asks_for_it(
    opset: int, written: list[str]
) -> None:
    b = Builder(opset, "g")
    y = b.op("Round", b.value("x", TensorInfo(BFLOAT16, ("n", 3))))
    assert [op.type for op in b.operators] == written
    assert (y.dtype, y.shape) == (BFLOAT16, ("n", 3))


@pytest.mark.parametrize("dtype", [FLOAT16, FLOAT])
def test_types_that_it_takes_are_left_alone(dtype: ir.DataType) -> None:
    b = Builder(18, "g")
    b.op("Round", b.value("x", TensorInfo(dtype, (3,))))
    assert [op.type for op in b.operators] == ["Round"]


def test_only_operands_of_the_refused_kind_are_converted() -> None:
    """TopK: values are converted there and back, places are int64 and stay."""
    b = Builder(18, "g")
    values, places = b.ops("TopK", b.value("x", TensorInfo(BFLOAT16, (3, 4))), b.ints([2]), outputs=2)
    assert [op.type for op in b.operators] == ["Constant", "Cast", "TopK", "Cast"]
    assert (values.dtype, places.dtype) == (BFLOAT16, INT64)


def test_an_operand_that_is_left_out_is_no_operand() -> None:
    assert detour("Clip", "", 18, (BFLOAT16, None, BFLOAT16), 1) is None
    assert detour("Resize", "", 18, (FLOAT16, None, FLOAT), 1) is None


def test_an_operator_of_another_domain_is_left_alone() -> None:
    assert detour("Round", "my.domain", 1, (BFLOAT16,), 1) is None


@pytest.mark.parametrize(("opset", "written"), [(18, ["ConstantOfShape", "Cast"]), (20, ["ConstantOfShape"])])
def test_tensors_of_one_number(opset: int, written: list[str]) -> None:
    b = Builder(opset, "g")
    full = b.fill(b.ints([2, 3]), 1.5, BFLOAT16)
    assert [op.type for op in b.operators][1:] == written
    assert full.dtype == BFLOAT16
    assert can_fill(BFLOAT16, opset) == (opset >= 20)
    assert can_fill(FLOAT16, opset)
