"""Gradients of loops that carry optionals: a table of models against central differences."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.rules.graphs import Model, check_gradient, check_second_order

_PRESENT = """
g (double[2] x, double[2] w, int64 n) => (double[2] y) {
  o = Optional(x)
  c = Constant<value = bool {1}>()
  r = Loop(n, c, o) <body = b (int64 i, bool g0, optional(double[2]) s) => (bool g1, optional(double[2]) t) {
    g1 = Identity(g0)
    e = OptionalGetElement(s)
    v = Mul(e, w)
    u = Sin(v)
    t = Optional(u) }>
  q = OptionalGetElement(r)
  y = Mul(q, q)
}"""
_ABSENT = """
g (double[2] x, double[2] w, int64 n) => (double[2] y) {
  o = Optional<type: type_proto = double[2]>()
  c = Constant<value = bool {1}>()
  r = Loop(n, c, o) <body = b (int64 i, bool g0, optional(double[2]) s) => (bool g1, optional(double[2]) t) {
    g1 = Identity(g0)
    h = OptionalHasElement(s)
    v = If(h) <
      then_branch = a () => (double[2] v1) { e = OptionalGetElement(s) v1 = Mul(e, w) },
      else_branch = d () => (double[2] v2) { v2 = Sin(x) }>
    t = Optional(v) }>
  q = OptionalGetElement(r)
  y = Mul(q, q)
}"""
_ALTERNATING = """
g (double[2] x, double[2] w, int64 n) => (double[2] y) {
  o = Optional(x)
  c = Constant<value = bool {1}>()
  z = Constant<value = double[2] {0.1, 0.2}>()
  r, last = Loop(n, c, o, z) <
    body = b (int64 i, bool g0, optional(double[2]) s, double[2] a)
        => (bool g1, optional(double[2]) t, double[2] a1) {
      g1 = Identity(g0)
      h = OptionalHasElement(s)
      a1, t = If(h) <
        then_branch = th () => (double[2] v1, optional(double[2]) t1) {
          e = OptionalGetElement(s) f = Mul(e, w) v1 = Add(a, f)
          t1 = Optional<type: type_proto = double[2]>() },
        else_branch = el () => (double[2] v2, optional(double[2]) t2) {
          k = Exp(a) v2 = Mul(k, w) t2 = Optional(k) }> }>
  y = Sin(last)
}"""
_SEQUENCE = """
g (double[2] x, double[2] w, int64 n) => (double[A] y) {
  o = Optional<type: type_proto = seq(double[2])>()
  c = Constant<value = bool {1}>()
  z = Constant<value = int64 {0}>()
  r = Loop(n, c, o) <
    body = b (int64 i, bool g0, optional(seq(double[2])) s) => (bool g1, optional(seq(double[2])) t) {
      g1 = Identity(g0)
      h = OptionalHasElement(s)
      v = If(h) <
        then_branch = a () => (seq(double[2]) v1) {
          e = OptionalGetElement(s) f = SequenceAt(e, z) m = Mul(f, w) k = Sin(m)
          v1 = SequenceInsert(e, k, z) },
        else_branch = d () => (seq(double[2]) v2) { l = Exp(x) v2 = SequenceConstruct(l) }>
      t = Optional(v) }>
  q = OptionalGetElement(r)
  p = ConcatFromSequence<axis = 0>(q)
  y = Mul(p, p)
}"""
_BECOMES_SEQUENCE = """
g (double[2] x, double[2] w, int64 n) => (double[A] y) {
  c = Constant<value = bool {1}>()
  z = Constant<value = int64 {-1}>()
  l = SequenceConstruct(x)
  o = Optional(l)
  r = Loop(n, c, o) <
    body = b (int64 i, bool g0, optional(seq(double[2])) s) => (bool g1, seq(double[2]) t) {
      g1 = Identity(g0)
      e = OptionalGetElement(s)
      f = SequenceAt(e, z)
      k = Mul(f, w)
      t = SequenceInsert(e, k) }>
  p = ConcatFromSequence<axis = 0>(r)
  y = Mul(p, p)
}"""
_NUMBERS = """
g (double[2] x, double[2] w, int64 n) => (double[2] y) {
  o = Optional<type: type_proto = int64>()
  c = Constant<value = bool {1}>()
  r, y = Loop(n, c, o, x) <
    body = b (int64 i, bool g0, optional(int64) s, double[2] v) => (bool g1, optional(int64) t, double[2] u) {
      g1 = Identity(g0)
      h = OptionalHasElement(s)
      m = If(h) <
        then_branch = a () => (double m1) { e = OptionalGetElement(s) m1 = Cast<to = 11>(e) },
        else_branch = d () => (double m2) { m2 = Constant<value = double {0.5}>() }>
      k = Mul(v, w)
      f = Mul(k, m)
      u = Sin(f)
      j = Constant<value = int64 {2}>()
      q = Add(i, j)
      t = Optional(q) }>
}"""
_NESTED = """
g (double[2] x, double[2] w, int64 n) => (double[2] y) {
  o = Optional(x)
  c = Constant<value = bool {1}>()
  r = Loop(n, c, o) <body = b (int64 i, bool g0, optional(double[2]) s) => (bool g1, optional(double[2]) t) {
    g1 = Identity(g0)
    t = Loop(n, g0, s) <
      body = bb (int64 j, bool d0, optional(double[2]) ss) => (bool d1, optional(double[2]) tt) {
        d1 = Identity(d0)
        e = OptionalGetElement(ss)
        v = Mul(e, w)
        u = Sin(v)
        tt = Optional(u) }> }>
  y = OptionalGetElement(r)
}"""

_XW = {"x": (2,), "w": (2,)}

MODELS = [
    *(Model(f"An optional that holds something {n}", _PRESENT, _XW, {"n": np.int64(n)}) for n in (0, 1, 3)),
    *(Model(f"An optional that is empty at first {n}", _ABSENT, _XW, {"n": np.int64(n)}) for n in (1, 3)),
    *(
        Model(f"An optional that is empty at times {n}", _ALTERNATING, _XW, {"n": np.int64(n)})
        for n in (2, 3)
    ),
    *(Model(f"An optional list {n}", _SEQUENCE, _XW, {"n": np.int64(n)}) for n in (1, 3)),
    *(Model(f"A list in the end {n}", _BECOMES_SEQUENCE, _XW, {"n": np.int64(n)}) for n in (0, 1, 3)),
    Model("An optional integer", _NUMBERS, _XW, {"n": np.int64(3)}),
    Model("An optional in Loop in Loop", _NESTED, _XW, {"n": np.int64(2)}),
]
_BY_NAME = pytest.mark.parametrize("model", MODELS, ids=[model.note.replace(" ", "_") for model in MODELS])


@_BY_NAME
def test_gradient_agrees_with_central_differences(model: Model) -> None:
    check_gradient(model)


@_BY_NAME
def test_second_order_agrees_with_central_differences_of_the_gradient(model: Model) -> None:
    check_second_order(model)
