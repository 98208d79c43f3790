"""Inference of one node: what was inferred before is taken again, whatever the dims are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from netgrad.onnx import infer
from netgrad.onnx.view import TensorInfo

FLOAT, INT64 = ir.DataType.FLOAT, ir.DataType.INT64


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "_known", {})


def _shape(op_type: str, *inputs: TensorInfo, **attributes: Any) -> Any:
    (info,) = infer.infer_node(op_type, "", 21, list(inputs), attributes, 1)
    return info.shape


def test_names_of_dims_are_those_that_were_given() -> None:
    for batch, width in (("n", "k"), ("d1", "d0"), ("x:0", "x:1")):
        found = _shape("MatMul", TensorInfo(FLOAT, (batch, 3)), TensorInfo(FLOAT, (3, width)))
        assert found == (batch, width)
    assert len(infer._known) == 1


def test_dims_that_are_equal_and_dims_that_are_not_are_told_apart() -> None:
    def added(left: str, right: str) -> Any:
        return _shape("Add", TensorInfo(FLOAT, (left,)), TensorInfo(FLOAT, (right,)))

    assert added("n", "n") == ("n",)
    assert added("n", "m") == (None,)
    assert added("m", "m") == ("m",)
    assert added("b", "a") == (None,)


def test_contents_of_shapes_count() -> None:
    def reshaped(*dims: int) -> Any:
        target = TensorInfo(INT64, (len(dims),), np.array(dims))
        return _shape("Reshape", TensorInfo(FLOAT, ("n", 6)), target)

    assert reshaped(0, 2, 3) == ("n", 2, 3)
    assert reshaped(0, 3, 2) == ("n", 3, 2)


def test_attributes_count() -> None:
    x = TensorInfo(FLOAT, ("n", 4))
    assert _shape("Transpose", x, perm=[1, 0]) == (4, "n")
    assert _shape("Transpose", x, perm=[0, 1]) == ("n", 4)
    types = [
        infer.infer_node("Cast", "", 21, [x], {"to": int(dtype)}, 1)[0].dtype for dtype in (INT64, FLOAT)
    ]
    assert types == [INT64, FLOAT]


def test_what_is_known_is_forgotten_before_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(infer, "_MOST_KNOWN", 3)
    for size in range(1, 9):
        assert _shape("Relu", TensorInfo(FLOAT, (size,))) == (size,)
        assert len(infer._known) <= 3
