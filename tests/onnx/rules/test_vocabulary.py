"""Folding an addition into the operator that computes a term."""

from __future__ import annotations

import pytest

from netgrad.core.operator import Operator
from netgrad.onnx.rules.vocabulary import OnnxVocabulary

WORDS = OnnxVocabulary({}, 18)


@pytest.mark.parametrize("attributes", [{}, {"alpha": 0.5, "transA": 1}, {"beta": 1.0}])
def test_a_gemm_with_a_free_c_takes_the_partial_gradient(attributes: dict[str, float]) -> None:
    folded = WORDS.fold(Operator("Gemm", ("a", "b"), ("y",), attributes), 0, "partial")
    assert folded is not None
    assert folded.inputs == ("a", "b", "partial")
    assert folded.outputs == ("y",)
    assert dict(folded.attributes) == attributes


@pytest.mark.parametrize(
    "op",
    [
        Operator("Gemm", ("a", "b", "c"), ("y",)),
        Operator("Gemm", ("a", "b"), ("y",), {"beta": 2.0}),
        Operator("Gemm", ("a", "b"), ("y",), domain="my.domain"),
        Operator("MatMul", ("a", "b"), ("y",)),
    ],
    ids=["C is taken", "beta would scale it", "another Gemm", "no accumulator"],
)
def test_others_do_not(op: Operator) -> None:
    assert WORDS.fold(op, 0, "partial") is None
