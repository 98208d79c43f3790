"""Gradients through sequences and optionals: a table of models against central differences."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.core.errors import NetgradWarning, UnsupportedOperatorError
from netgrad.runtime.session import run
from netgrad.transforms.grad import grad
from tests.onnx.rules.graphs import HEAD, Model, check_gradient, check_second_order
from tests.onnx.rules.table import (
    TOLERANCE,
    central_differences,
    disagreement,
    gradient_model,
    run_gradient,
    runner,
)

_CONSTRUCT = """
g (double[3,2] x, double[1,2] w, int64 p) => (double[A,2] y, double[B,2] z) {
  h = Mul(x, x)
  s = SequenceConstruct(h, w, h)
  y = ConcatFromSequence<axis = 0>(s)
  e = SequenceAt(s, p)
  z = Sin(e)
}"""
_SPLIT = """
g (double[3,4] x) => (double[3,4] y) {
  s = SplitToSequence<axis = 1>(x)
  j = ConcatFromSequence<axis = -1>(s)
  y = Mul(j, x)
}"""
_SPLIT_DROPPED = """
g (double[3,4] x) => (double[A,B] y) {
  s = SplitToSequence<axis = -1, keepdims = 0>(x)
  j = ConcatFromSequence<axis = 0, new_axis = 1>(s)
  y = Mul(j, j)
}"""
_SPLIT_SIZES = """
g (double[5,2] x, int64[3] n, int64 p) => (double[5,2] y, double[B,2] z) {
  s = SplitToSequence(x, n)
  j = ConcatFromSequence<axis = 0>(s)
  y = Mul(j, x)
  e = SequenceAt(s, p)
  z = Exp(e)
}"""
_SPLIT_CHUNKS = """
g (double[5,2] x, int64 n, int64 p) => (double[B,2] y) {
  s = SplitToSequence(x, n)
  a = SequenceAt(s, p)
  m = Constant<value = int64 {-1}>()
  b = SequenceAt(s, m)
  y = Mul(a, b)
}"""
_EMPTY_SPLIT = """
g (double[3,2] x, double[3,0] w) => (double[A,2] y, double[3,0] z) {
  s = SplitToSequence<axis = 1>(w)
  v = SplitToSequence<axis = 0, keepdims = 0>(x)
  l = SequenceLength(s)
  f = Cast<to = 11>(l)
  k = Add(x, f)
  i = SequenceInsert(s, k)
  j = ConcatFromSequence<axis = 1>(i)
  u = ConcatFromSequence<axis = 0, new_axis = 1>(v)
  y = Mul(j, u)
  z = Identity(w)
}"""
_INSERT = """
g (double[3,2] x, double[1,2] w, int64 p) => (double[4,2] y) {
  s = SplitToSequence<axis = 0>(x)
  i = SequenceInsert(s, w, p)
  j = ConcatFromSequence<axis = 0>(i)
  y = Mul(j, j)
}"""
_INSERT_AT_END = """
g (double[3,2] x, double[2,2] w) => (double[A,2] y) {
  e = SequenceEmpty<dtype = 11>()
  s = SequenceInsert(e, x)
  i = SequenceInsert(s, w)
  j = ConcatFromSequence<axis = 0>(i)
  y = Mul(j, j)
}"""
_ERASE = """
g (double[3,2] x, int64 p) => (double[2,2] y) {
  s = SplitToSequence<axis = 0>(x)
  e = SequenceErase(s, p)
  j = ConcatFromSequence<axis = 0>(e)
  y = Mul(j, j)
}"""
_ERASE_LAST = """
g (double[3,2] x) => (double[A,2] y, double[B,2] z) {
  h = Sin(x)
  s = SplitToSequence<axis = 0>(h)
  e = SequenceErase(s)
  y = ConcatFromSequence<axis = 0>(e)
  z = ConcatFromSequence<axis = 0>(s)
}"""
_APPENDING = """
g (double[2] x, double[2] w, int64 n) => (double[M,2] y) {
  go = Constant<value = bool {1}>()
  s = SequenceConstruct(w)
  h, l = Loop(n, go, x, s) <body = b (int64 i, bool c, double[2] v, seq(double[2]) a)
      => (bool o, double[2] r, seq(double[2]) d) {
    o = Identity(c) m = Mul(v, w) r = Sin(m) d = SequenceInsert(a, r) }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_APPENDING_ONLY = """
g (double[2] x, double[2] w) => (double[M,2] y) {
  go = Constant<value = bool {1}>()
  s = SequenceEmpty<dtype = 11>()
  l = Loop(, go, s) <body = b (int64 i, bool c, seq(double[2]) a) => (bool o, seq(double[2]) d) {
    three = Constant<value = int64 {3}>()
    o = Less(i, three) f = Cast<to = 11>(i) k = Mul(w, f) m = Mul(x, k) r = Sin(m) d = SequenceInsert(a, r) }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_READING_ITSELF = """
g (double[2] x, double[2] w, int64 n) => (double[M,2] y) {
  go = Constant<value = bool {1}>()
  s = SequenceConstruct(x)
  l = Loop(n, go, s) <body = b (int64 i, bool c, seq(double[2]) a) => (bool o, seq(double[2]) d) {
    o = Identity(c) last = Constant<value = int64 {-1}>()
    v = SequenceAt(a, last) m = Mul(v, w) r = Sin(m) d = SequenceInsert(a, r) }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_CONSUMING = """
g (double[N,2] x, double[2] w, int64 n) => (double[2] y, double[M,2] z) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  y, l = Loop(n, go, w, s) <body = b (int64 i, bool c, double[2] v, seq(double[2]) a)
      => (bool o, double[2] r, seq(double[2]) d) {
    o = Identity(c) first = Constant<value = int64 {0}>()
    e = SequenceAt(a, first) m = Mul(v, e) r = Sin(m) d = SequenceErase(a, first) }>
  z = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_READING_OUTSIDE = """
g (double[N,2] x, double[2] w) => (double[2] y, double[k,2] q) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  n = SequenceLength(s)
  y, q = Loop(n, go, w) <body = b (int64 i, bool c, double[2] v) => (bool o, double[2] r, double[2] t) {
    o = Identity(c) first = Constant<value = int64 {0}>()
    e = SequenceAt(s, i) f = SequenceAt(s, first) m = Mul(v, e) r = Sin(m) t = Mul(f, r) }>
}"""
_PASSING_ON = """
g (double[N,2] x, double[2] w, int64 n) => (double[2] y) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  y, l = Loop(n, go, w, s) <body = b (int64 i, bool c, double[2] v, seq(double[2]) a)
      => (bool o, double[2] r, seq(double[2]) a) {
    o = Identity(c) e = SequenceAt(a, i) m = Mul(e, v) r = Sin(m) }>
}"""
_SWAPPING = """
g (double[N,2] x, double[2] w, int64 n) => (double[A,2] y, double[B,2] z) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  t = SequenceConstruct(w)
  l, m = Loop(n, go, s, t) <body = b (int64 i, bool c, seq(double[2]) a, seq(double[2]) d)
      => (bool o, seq(double[2]) d, seq(double[2]) e) {
    o = Identity(c) first = Constant<value = int64 {0}>()
    f = SequenceAt(a, first) h = SequenceAt(d, first) k = Mul(f, h) e = SequenceInsert(a, k) }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
  z = ConcatFromSequence<axis = 0, new_axis = 1>(m)
}"""
_CHOOSING = """
g (double[2] x, double[2] w, int64 n) => (double[M,2] y) {
  go = Constant<value = bool {1}>()
  s = SequenceConstruct(w, x)
  l = Loop(n, go, s) <body = b (int64 i, bool c, seq(double[2]) a) => (bool o, seq(double[2]) d) {
    o = Identity(c) one = Constant<value = int64 {1}>() first = Constant<value = int64 {0}>()
    v = SequenceAt(a, one) m = Mul(v, w) r = Sin(m)
    even = Equal(i, one)
    d = If(even) <then_branch = t () => (seq(double[2]) p) { p = SequenceErase(a, first) },
                  else_branch = e () => (seq(double[2]) q) { q = SequenceInsert(a, r, first) }> }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_NESTED = """
g (double[2] x, double[2] w, int64 n) => (double[A,B] y) {
  go = Constant<value = bool {1}>()
  s = SequenceEmpty<dtype = 11>()
  l = Loop(n, go, s) <body = b (int64 i, bool c, seq(double[C,2]) a) => (bool o, seq(double[C,2]) d) {
    o = Identity(c) one = Constant<value = int64 {1}>() f = CastLike(i, x) u = Add(x, f) j = Add(i, one)
    t = SequenceConstruct(x)
    h, k = Loop(j, c, u, t) <body = e (int64 ii, bool cc, double[2] v, seq(double[2]) aa)
        => (bool oo, double[2] r, seq(double[2]) dd) {
      oo = Identity(cc) m = Mul(v, w) r = Sin(m) dd = SequenceInsert(aa, r) }>
    rows = ConcatFromSequence<axis = 0, new_axis = 1>(k)
    d = SequenceInsert(a, rows) }>
  y = ConcatFromSequence<axis = 0>(l)
}"""
_MAP_IN_LOOP = """
g (double[N,2] x, double[2] w, int64 n) => (double[A,2] y) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  l = Loop(n, go, s) <body = b (int64 i, bool c, seq(double[2]) a) => (bool o, seq(double[2]) d) {
    o = Identity(c)
    d = SequenceMap(a) <body = e (double[2] v) => (double[2] r) { m = Mul(v, w) r = Sin(m) }> }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_LOOP_IN_MAP = """
g (double[N,2] x, double[2] w, int64 n) => (double[A,2] y) {
  go = Constant<value = bool {1}>()
  s = SplitToSequence<axis = 0, keepdims = 0>(x)
  l = SequenceMap(s) <body = e (double[2] v) => (double[2] r) {
    r = Loop(n, go, v) <body = b (int64 i, bool c, double[2] a) => (bool o, double[2] d) {
      o = Identity(c) m = Mul(a, w) d = Sin(m) }> }>
  y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
}"""
_BRANCHES = """
g (double[3,2] x, double[2,2] w, bool c) => (double[A,2] y) {
  h = Sin(x)
  s = If(c) <then_branch = t () => (seq(double[P,2]) a) { a = SplitToSequence<axis = 0>(h) },
             else_branch = e () => (seq(double[P,2]) b) { b = SequenceConstruct(w, x) }>
  j = ConcatFromSequence<axis = 0>(s)
  y = Mul(j, j)
}"""
_BRANCHES_READING = """
g (double[3,2] x, double[1,2] w, bool c, int64 p) => (double[1,2] y) {
  s = SplitToSequence<axis = 0>(x)
  y = If(c) <then_branch = t () => (double[1,2] a) { u = SequenceAt(s, p) a = Mul(u, w) },
             else_branch = e () => (double[1,2] b) { b = Exp(w) }>
}"""
_OPTIONAL = """
g (double[3,2] x) => (double[3,2] y) {
  h = Sin(x)
  o = Optional(h)
  e = OptionalGetElement(o)
  f = OptionalGetElement(o)
  k = OptionalGetElement(x)
  m = Mul(e, f)
  y = Mul(m, k)
}"""
_OPTIONAL_SEQUENCE = """
g (double[3,2] x, int64 p) => (double[3,2] y) {
  s = SplitToSequence<axis = 0>(x)
  o = Optional(s)
  q = OptionalGetElement(o)
  r = OptionalGetElement(o)
  e = ConcatFromSequence<axis = 0>(q)
  k = SequenceAt(r, p)
  y = Mul(e, k)
}"""
_OPTIONAL_BRANCHES = """
g (double[3,2] x, bool c) => (double[3,2] y) {
  h = Sin(x)
  o = If(c) <
    then_branch = t () => (optional(double[3,2]) a) { a = Optional(h) },
    else_branch = e () => (optional(double[3,2]) b) { b = Optional<type: type_proto = double[3,2]>() }>
  d = OptionalHasElement(o)
  y = If(d) <
    then_branch = t2 () => (double[3,2] u) {
      m = OptionalGetElement(o) n = OptionalGetElement(o) u = Mul(m, n) },
    else_branch = e2 () => (double[3,2] v) { v = Mul(x, x) }>
}"""
_MAP = """
g (double[3,2] x) => (double[A,2] y) {
  s = SplitToSequence<axis = 0>(x)
  m = SequenceMap(s) <body = b (double[P,2] e) => (double[P,2] f) { t = Sin(e) f = Mul(t, e) }>
  y = ConcatFromSequence<axis = 0>(m)
}"""
_MAP_ALL = """
g (double[3,2] x, double[2] w, double[2] c) => (double[A,2] y, double[B,2] z) {
  s = SplitToSequence<axis = 0>(x)
  h = Mul(x, x)
  t = SplitToSequence<axis = 0>(h)
  m, q = SequenceMap(s, t, w) <
    body = b (double[P,2] e, double[P,2] f, double[2] v) => (double[P,2] r, double[P,2] u) {
      p = Mul(e, f) r = Mul(p, v) k = Mul(e, c) l = Sin(k) u = Mul(l, v) }>
  y = ConcatFromSequence<axis = 0>(m)
  z = ConcatFromSequence<axis = 0>(q)
}"""
_MAP_PASSING = """
g (double[3,2] x, double[2] w) => (double[A,2] y) {
  s = SplitToSequence<axis = 0>(x)
  m, q, k = SequenceMap(s, w) <
    body = b (double[P,2] e, double[2] v) => (double[P,2] r, double[2] u, double[P,2] t) {
      r = Identity(e) u = Exp(v) t = Identity(r) }>
  j = ConcatFromSequence<axis = 0>(m)
  i = ConcatFromSequence<axis = 0>(k)
  y = Mul(i, j)
}"""
_MAP_READING = """
g (double[3,2] x, int64 p) => (double[A,2] y) {
  s = SplitToSequence<axis = 0>(x)
  m = SequenceMap(s) <body = b (double[P,2] e) => (double[P,2] r) { a = SequenceAt(s, p) r = Mul(a, e) }>
  y = ConcatFromSequence<axis = 0>(m)
}"""
_MAP_EMPTY = """
g (double[3,2] x, double[2] w) => (double[4,2] y) {
  e = SequenceEmpty<dtype = 11>()
  m = SequenceMap(e) <body = b (double[2] a) => (double[2] r) { r = Mul(a, w) }>
  i = SequenceInsert(m, w)
  j = ConcatFromSequence<axis = 0, new_axis = 1>(i)
  k = Concat<axis = 0>(x, j)
  y = Mul(k, k)
}"""

_X, _N = {"x": (3, 2)}, {"n": np.int64(3)}
_XW = {"x": (2,), "w": (2,)}

MODELS = [
    *(Model(f"Construct at {p}", _CONSTRUCT, {**_X, "w": (1, 2)}, {"p": np.int64(p)}) for p in (1, -1)),
    Model("Split", _SPLIT, {"x": (3, 4)}),
    Model("Split with dropped axis", _SPLIT_DROPPED, {"x": (3, 4)}),
    *(
        Model(f"Split into sizes at {p}", _SPLIT_SIZES, {"x": (5, 2)}, {"n": [1, 3, 1], "p": np.int64(p)})
        for p in (0, -2)
    ),
    Model("Split into chunks", _SPLIT_CHUNKS, {"x": (5, 2)}, {"n": np.int64(2), "p": np.int64(1)}),
    Model("Split of nothing", _EMPTY_SPLIT, {"x": (3, 2), "w": (3, 0)}),
    *(Model(f"Insert at {p}", _INSERT, {**_X, "w": (1, 2)}, {"p": np.int64(p)}) for p in (-3, -1, 0, 2, 3)),
    Model("Insert at the end", _INSERT_AT_END, {**_X, "w": (2, 2)}),
    *(Model(f"Erase at {p}", _ERASE, _X, {"p": np.int64(p)}) for p in (-3, -1, 0, 2)),
    Model("Erase the last", _ERASE_LAST, _X),
    *(Model(f"Loop appends {n}", _APPENDING, _XW, {"n": np.int64(n)}) for n in (0, 1, 4)),
    Model("Loop appends and does nothing else", _APPENDING_ONLY, _XW),
    *(Model(f"Loop reads what it carries {n}", _READING_ITSELF, _XW, {"n": np.int64(n)}) for n in (0, 3)),
    Model("Loop consumes", _CONSUMING, {**_X, "w": (2,)}, {"n": np.int64(2)}),
    Model("Loop reads outside", _READING_OUTSIDE, {**_X, "w": (2,)}),
    Model("Loop passes a list on", _PASSING_ON, {**_X, "w": (2,)}, _N),
    Model("Loop swaps lists", _SWAPPING, {**_X, "w": (2,)}, {"n": np.int64(2)}),
    Model("Loop with a list that If changes", _CHOOSING, _XW, _N),
    Model("Lists in Loop in Loop", _NESTED, _XW, {"n": np.int64(2)}),
    Model("Map in Loop", _MAP_IN_LOOP, {**_X, "w": (2,)}, {"n": np.int64(2)}),
    Model("Loop in Map", _LOOP_IN_MAP, {**_X, "w": (2,)}, {"n": np.int64(2)}),
    *(Model(f"If gives a sequence {c}", _BRANCHES, {**_X, "w": (2, 2)}, {"c": c}) for c in (True, False)),
    *(
        Model(f"If reads {c}", _BRANCHES_READING, {**_X, "w": (1, 2)}, {"c": c, "p": np.int64(1)})
        for c in (True, False)
    ),
    Model("Optional", _OPTIONAL, _X),
    Model("Optional sequence", _OPTIONAL_SEQUENCE, _X, {"p": np.int64(1)}),
    *(Model(f"If gives an optional {c}", _OPTIONAL_BRANCHES, _X, {"c": c}) for c in (True, False)),
    Model("Map", _MAP, _X),
    Model("Map of everything", _MAP_ALL, {**_X, "w": (2,), "c": (2,)}),
    Model("Map that passes on", _MAP_PASSING, {**_X, "w": (2,)}),
    Model("Map that reads outside", _MAP_READING, _X, {"p": np.int64(0)}),
    Model("Map of nothing", _MAP_EMPTY, {**_X, "w": (2,)}),
]
_BY_NAME = pytest.mark.parametrize("model", MODELS, ids=[model.note.replace(" ", "_") for model in MODELS])


@_BY_NAME
def test_gradient_agrees_with_central_differences(model: Model) -> None:
    check_gradient(model)


@_BY_NAME
def test_second_order_agrees_with_central_differences_of_the_gradient(model: Model) -> None:
    check_second_order(model)


_LISTS = """
g (seq(double[N,2]) s, double[2] w, int64 p) => (seq(double[M,2]) t, double[A,2] y) {
  m = SequenceMap(s) <body = b (double[P,2] e) => (double[P,2] r) { k = Mul(e, e) r = Mul(k, w) }>
  a = SequenceAt(s, p)
  t = SequenceInsert(m, a)
  y = ConcatFromSequence<axis = 0>(m)
}"""


def _lists(*rows: int) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(rows))
    return [np.asarray(np.round(rng.normal(size=(k, 2)), 2)) for k in rows]


def _same(got: list[np.ndarray], want: list[np.ndarray]) -> None:
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert one.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_sequences_are_differentiated_by_and_differentiated() -> None:
    """T = [w s_i^2, s_p], Y = the former; by hand: dS_i = 2 w s_i (dT_i + dY_i), and dT_last for s_p."""
    model, s, w, p = parser.parse_model(HEAD + _LISTS), _lists(1, 2, 3), np.array([0.5, -2.0]), np.array(1)
    result = grad(model, wrt=["s", "w"], of=["t", "y"], cotangent="input")
    assert [str(value.type) for value in result.graph.inputs[3:]] == ["Sequence(Tensor(DOUBLE))", "DOUBLE"]
    dt, dy = _lists(1, 2, 3, 2), _lists(6)[0]
    got = run(result, {"s": s, "w": w, "p": p, "t_grad": dt, "y_grad": dy})
    cotangents = [a + b for a, b in zip(dt[:3], np.split(dy, [1, 3]), strict=True)]
    want = [2 * w * x * c for x, c in zip(s, cotangents, strict=True)]
    want[1] = want[1] + dt[3]
    _same(got["s_grad"], want)
    _same([got["w_grad"]], [sum((x * x * c).sum(axis=0) for x, c in zip(s, cotangents, strict=True))])


def test_cotangents_of_ones_and_names_without_influence() -> None:
    model, s, w, p = parser.parse_model(HEAD + _LISTS), _lists(1, 2), np.array([0.5, -2.0]), np.array(0)
    got = run(grad(model, wrt=["s", "m"], of="t"), {"s": s, "w": w, "p": p})
    _same(got["s_grad"], [2 * w * s[0] + 1, 2 * w * s[1]])
    _same(got["m_grad"], [np.ones((1, 2)), np.ones((2, 2))])
    with pytest.warns(NetgradWarning, match="'t' does not influence"):
        got = run(grad(model, wrt="t", of="y"), {"s": s, "w": w, "p": p})
    _same(got["t_grad"], [np.zeros((1, 2)), np.zeros((2, 2)), np.zeros((1, 2))])


def test_the_gradient_of_a_sequence_gradient() -> None:
    """dS_i = 2 w s_i; the sum of its squares by w is 8 w s_i^2, and by s_i is 8 w^2 s_i."""
    model, s, w = parser.parse_model(HEAD + _LISTS), _lists(1, 2), np.array([0.5, -2.0])
    first = grad(model, wrt="s", of="y")
    feeds = {"s": s, "w": w, "p": np.array(0)}
    cotangent = [2 * 2 * w * x for x in s]
    got = run(
        grad(first, wrt=["s", "w"], of="s_grad", cotangent="input"), {**feeds, "s_grad_grad": cotangent}
    )
    _same(got["s_grad_1"], [8 * w**2 * x for x in s])
    _same([got["w_grad"]], [sum((8 * w * x * x).sum(axis=0) for x in s)])


def test_a_scan_that_reads_a_sequence_is_refused() -> None:
    text = """
    g (double[3,2] x, double[4,2] u, int64 p) => (double[4,1,2] y) {
      s = SplitToSequence<axis = 0>(x)
      y = Scan(u) <num_scan_inputs = 1, body = b (double[2] e) => (double[1,2] r) {
        a = SequenceAt(s, p) r = Mul(a, e) }>
    }"""
    with pytest.raises(UnsupportedOperatorError, match=r"Scan.*reads 's', a sequence, whose gradient"):
        grad(parser.parse_model(HEAD + text), wrt="x", of="y")


_READS = """
g (double[N,2] x, int64 p, int64 q) => (double[1,2] y, double[A,2] z) {
  h = Sin(x)
  s = SplitToSequence<axis = 0>(h)
  a = SequenceAt(s, p)
  b = SequenceAt(s, q)
  c = SequenceAt(s, p)
  d = Mul(a, b)
  y = Mul(d, c)
  j = ConcatFromSequence<axis = 0>(s)
  z = Exp(j)
}"""


def _loops(model: ir.Model, operator: str) -> int:
    """Number of loops that have such an operator inside."""
    loops = [node for graph in model.graphs() for node in graph if node.op_type == "Loop"]
    return sum(any(n.op_type == operator for n in node.attributes["body"].as_graph()) for node in loops)


@pytest.mark.parametrize("accumulation", ["sum", "running", "fused", "auto"])
@pytest.mark.parametrize("whole", [True, False], ids=["and_the_whole", "only"])
def test_reads_of_single_tensors_are_added_to_these(accumulation: str, whole: bool) -> None:
    """Nothing is added tensor by tensor: a Loop only makes zeros to add to, where nothing else reads all."""
    model = parser.parse_model(HEAD + _READS)
    point = {"x": np.array([[0.5, -1.0], [2.0, 0.25], [1.5, -0.75]]), "p": np.array(-1), "q": np.array(1)}
    run_forward = runner(model)
    outputs = run_forward(point)
    of = ["y", "z"] if whole else ["y"]
    cotangents = {name: np.cos(np.arange(outputs[name].size)).reshape(outputs[name].shape) for name in of}
    want = central_differences(run_forward, point, cotangents, ["x"])
    gradient = gradient_model(model, ["x"], of, accumulation=accumulation)
    got = run_gradient(gradient, point, cotangents, "float64")
    assert not disagreement(want["x"], got["x"], TOLERANCE["float64"])
    assert _loops(gradient.model, "Add") == 0
    assert _loops(gradient.model, "ConstantOfShape") == (not whole)


def test_a_gradient_that_is_asked_for_itself_is_not_added_to() -> None:
    """The gradient by t, zeros but for one tensor, is also a term of that by s."""
    text = """
    g (seq(double[N,2]) s, int64 p) => (double[A,2] y) {
      t = Identity(s) a = SequenceAt(t, p) b = SequenceAt(s, p) c = Mul(a, b) y = Exp(c) }"""
    x, other = _lists(2, 3)
    got = run(
        grad(parser.parse_model(HEAD + text), wrt=["s", "t"], of="y"), {"s": [other, x], "p": np.array(1)}
    )
    _same(got["t_grad"], [np.zeros((3, 2)), np.exp(x * x) * x])
    _same(got["s_grad"], [np.zeros((3, 2)), np.exp(x * x) * 2 * x])


def test_a_list_that_only_grows_is_not_saved() -> None:
    model = next(model for model in MODELS if model.note == "Loop reads what it carries 3")
    forward, backward = (
        node for node in grad(model.build(), wrt="x", of="y").graph if node.op_type == "Loop"
    )
    # no history, and the forward loop does not run again: its only output is the list
    assert len(forward.outputs) == 2
    assert forward.outputs[1].type == ir.TensorType(ir.DataType.INT64)  # the iterations are counted
    assert forward.outputs[0] in backward.inputs


def test_half_precision_sums_over_iterations_do_not_stall() -> None:
    """3,000 contributions of 1 to one tensor of a list, which float16 could add up to 2,048 only."""
    text = """
    g (seq(float16[2]) s, float16[2] x, int64 n) => (float16[2] y) {
      go = Constant<value = bool {1}>()
      y = Loop(n, go, x) <body = b (int64 i, bool c, float16[2] v) => (bool o, float16[2] r) {
        o = Identity(c) one = Constant<value = int64 {1}>() e = SequenceAt(s, one) r = Add(v, e) }>
    }"""
    gradient = grad(parser.parse_model(HEAD + text), wrt="s", of="y")
    lists = [np.zeros(2, np.float16)] * 3
    got = run(gradient, {"s": lists, "x": lists[0], "n": np.array(3000)})["s_grad"]
    assert [tensor.dtype for tensor in got] == [np.float16] * 3
    np.testing.assert_array_equal(got, [[0, 0], [3000, 3000], [0, 0]])
    assert _loops(gradient, "Add") == 2  # the loop and its backward one, which has no loop inside for sums
