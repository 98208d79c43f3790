"""Sequences and optionals of known content are taken apart, all others stay."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import parser

from netgrad.onnx.prepare import prepare
from tests.onnx.models import operators, run_proto
from tests.onnx.rules.graphs import HEAD, Model, check_gradient, check_second_order

_X = np.arange(12, dtype=np.float64).reshape(3, 4)


def _prepared(text: str, keep: tuple[str, ...] = (), **feeds: Any) -> onnx_ir.Model:
    """The prepared model, which gives what the model gives, under the same names."""
    proto = parser.parse_model(HEAD + text)
    prepared = prepare(proto, keep=keep).model
    after = onnx_ir.to_proto(prepared)
    onnx.checker.check_model(after, full_check=True)
    assert [value.name for value in after.graph.output] == [value.name for value in proto.graph.output]
    given = {"x": _X, **feeds}
    for one, other in zip(run_proto(proto, given), run_proto(after, given), strict=True):
        np.testing.assert_array_equal(other, one)
    return prepared


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        # torch.split and its like
        (
            "s = SplitToSequence<axis = 1>(x) a = SequenceAt(s, zero) b = SequenceAt(s, last) y = Sub(a, b)",
            {"Split": 1, "Sub": 1},
        ),
        (
            "s = SplitToSequence<axis = -1, keepdims = 0>(x) a = SequenceAt(s, one) y = Neg(a)",
            {"Split": 1, "Squeeze": 1, "Neg": 1},
        ),
        (
            "s = SplitToSequence<axis = 1>(x, three) a = SequenceAt(s, zero) b = SequenceAt(s, one) "
            "c = ReduceSum(a) y = Mul(b, c)",
            {"Split": 1, "ReduceSum": 1, "Mul": 1},
        ),
        (
            "s = SplitToSequence<axis = 0>(x, sizes) a = SequenceAt(s, last) y = Neg(a)",
            {"Split": 1, "Neg": 1},
        ),
        # one part read twice: the first reader's name is the part's
        (
            "s = SplitToSequence<axis = 0>(x) a = SequenceAt(s, one) b = SequenceAt(s, one) y = Mul(a, b)",
            {"Split": 1, "Identity": 1, "Mul": 1},
        ),
        # torch.stack and its like
        (
            "n = Neg(x) s = SequenceConstruct(x, n) y = ConcatFromSequence<axis = 0>(s)",
            {"Neg": 1, "Concat": 1},
        ),
        (
            "n = Neg(x) s = SequenceConstruct(x, n) y = ConcatFromSequence<axis = -1, new_axis = 1>(s)",
            {"Neg": 1, "Unsqueeze": 2, "Concat": 1},
        ),
        # a list that grows and shrinks
        (
            "e = SequenceEmpty<dtype = 11>() n = Neg(x) k = Abs(n) s = SequenceInsert(e, x) "
            "t = SequenceInsert(s, n, zero) u = SequenceInsert(t, k, last) v = SequenceErase(u, zero) "
            "w = Identity(v) y = ConcatFromSequence<axis = 0>(w)",
            {"Neg": 1, "Abs": 1, "Concat": 1},
        ),
        (
            "n = Neg(x) s = SequenceConstruct(x, n, x) t = SequenceErase(s) l = SequenceLength(t) "
            "f = Cast<to = 11>(l) a = SequenceAt(t, last) y = Mul(a, f)",
            {"Neg": 1, "Identity": 1, "Mul": 1},
        ),
        # optionals
        (
            "n = Neg(x) o = Optional(n) e = OptionalGetElement(o) h = OptionalHasElement(o) "
            "y = Where(h, e, x)",
            {"Neg": 1, "Identity": 1, "Where": 1},
        ),
        (
            "s = SequenceConstruct(x, x) o = Optional(s) e = OptionalGetElement(o) "
            "y = ConcatFromSequence<axis = 0>(e)",
            {"Concat": 1},
        ),
        ("k = OptionalGetElement(x) y = Neg(k)", {"Identity": 1, "Neg": 1}),
    ],
)
def test_known_content_is_taken_apart(body: str, wanted: dict[str, int]) -> None:
    prepared = _prepared(
        f"""g (double[3,4] x) => (double[A,B] y)
        <int64 zero = {{0}}, int64 one = {{1}}, int64 last = {{-1}}, int64 three = {{3}},
         int64[2] sizes = {{1, 2}}> {{ {body} }}"""
    )
    assert Counter(operators(prepared)) == wanted


def test_what_is_not_known_stays() -> None:
    prepared = _prepared(
        """g (double[n,4] x, int64 p) => (double[A,B] y, double[C,D] z, int64 l) {
          s = SplitToSequence<axis = 0>(x)
          t = SequenceConstruct(x, x)
          l = SequenceLength(s)
          a = SequenceAt(t, p)
          y = Neg(a)
          z = ConcatFromSequence<axis = 0>(s) }""",
        p=np.array(1),
    )
    assert operators(prepared) == [
        *("SplitToSequence", "SequenceConstruct", "SequenceLength", "SequenceAt", "Neg"),
        "ConcatFromSequence",
    ]


def test_a_position_that_does_not_exist_is_left_to_the_runtime() -> None:
    text = """g (double[3,4] x) => (double[A,B] y) <int64 five = {5}> {
      s = SequenceConstruct(x, x) y = SequenceAt(s, five) }"""
    assert operators(prepare(parser.parse_model(HEAD + text)).model) == ["SequenceConstruct", "SequenceAt"]


def test_names_to_keep_are_not_looked_through() -> None:
    text = """g (double[3,4] x) => (double[A,B] y) <int64 one = {1}> {
      n = Neg(x) s = SequenceConstruct(x, n) a = SequenceAt(s, one) y = Exp(a) }"""
    assert operators(_prepared(text)) == ["Neg", "Identity", "Exp"]
    kept = _prepared(text, keep=("s",))
    assert operators(kept) == ["Neg", "SequenceConstruct", "SequenceAt", "Exp"]


def test_a_length_that_becomes_known_is_folded() -> None:
    """The position is computed from the length, and is known after a first round."""
    text = """g (double[3,4] x) => (double[A,B] y) <int64 one = {1}> {
      n = Neg(x) s = SequenceConstruct(x, n) l = SequenceLength(s) p = Sub(l, one)
      a = SequenceAt(s, p) y = Exp(a) }"""
    assert operators(_prepared(text)) == ["Neg", "Identity", "Exp"]


def test_a_part_is_read_in_a_body() -> None:
    text = """g (double[3,4] x, bool c) => (double[1,4] y) <int64 one = {1}, int64 last = {-1}> {
      s = SplitToSequence<axis = 0>(x)
      y = If(c) <then_branch = t () => (double[1,4] a) { a = SequenceAt(s, one) },
                 else_branch = e () => (double[1,4] b) { k = SequenceAt(s, last) b = Neg(k) }> }"""
    for c in (True, False):
        assert operators(_prepared(text, c=np.array(c))) == ["Split", "If"]


_TABLE = [
    Model(
        "parts",
        """g (double[5,4] x) => (double[5,2] y, double[A,B] z)
        <int64 two = {2}, int64 one = {1}, int64 last = {-1}> {
          s = SplitToSequence<axis = 1>(x, two)
          a = SequenceAt(s, one) b = SequenceAt(s, last) y = Mul(a, b)
          t = SequenceConstruct(a, y) z = ConcatFromSequence<axis = 1, new_axis = 1>(t) }""",
        {"x": (5, 4)},
        symbolic=False,  # else the parts are not known
    ),
    Model(
        "a list",
        """g (double[2,3] x, double[1,3] w) => (double[A,B] y) {
          e = SequenceEmpty<dtype = 11>() s = SequenceInsert(e, x) t = SequenceInsert(s, w) h = Sin(x)
          u = SequenceInsert(t, h) j = ConcatFromSequence<axis = 0>(u) y = Mul(j, j) }""",
        {"x": (2, 3), "w": (1, 3)},
    ),
]


@pytest.mark.parametrize("model", _TABLE, ids=[model.note for model in _TABLE])
def test_gradients_of_what_was_taken_apart(model: Model) -> None:
    check_gradient(model)
    check_second_order(model)
