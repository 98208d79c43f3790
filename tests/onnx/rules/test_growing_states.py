"""Gradients of loops that carry tensors of changing shape: a table of models against central differences."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx.rules.graphs import Model, check_gradient, check_second_order

_CONCAT = """
g (double[1,3] x, int64 n) => (double[k,3] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, double[STATED] v) => (bool o, double[] r) {
    o = Identity(c) s = Sin(v) r = Concat<axis=0>(s, x) }>
}"""
_CACHE = """
g (double[1,3] x, double[3,3] w, double[3,3] u, int64 n) => (double[A,3] y, double[B,1,3] z) {
  go = Constant<value = bool {1}>()
  h, keys, z = Loop(n, go, x, x) <
    body = b (int64 i, bool c, double[1,3] q, double[] k)
        => (bool o, double[1,3] q1, double[] k1, double[1,3] s) {
      o = Identity(c)
      p = MatMul(q, w)
      k1 = Concat<axis=0>(k, p)
      t = Transpose<perm=[1,0]>(k1)
      a = MatMul(q, t)
      m = Softmax<axis=1>(a)
      e = MatMul(m, k1)
      f = MatMul(e, u)
      q1 = Tanh(f)
      s = Mul(q1, q1) }>
  y = Mul(keys, h)
}"""
_HALVES = """
g (double[8] x, double w) => (double[A] y) {
  three = Constant<value = int64 {3}>()
  go = Constant<value = bool {1}>()
  y = Loop(three, go, x) <body = b (int64 i, bool c, double[8] v) => (bool o, double[] r) {
    o = Identity(c) a, d = Split<axis=0, num_outputs=2>(v) m = Mul(a, d) r = Mul(m, w) }>
}"""
_RANK = """
g (double[3] x, double[3] w, int64 n) => (double y) {
  go = Constant<value = bool {1}>()
  zero = Constant<value = int64[1] {0}>()
  r = Loop(n, go, x) <body = b (int64 i, bool c, double[3] v) => (bool o, double[] t) {
    o = Identity(c) m = Mul(v, w) s = Sin(m) t = Unsqueeze(s, zero) }>
  y = ReduceSum<keepdims=0>(r)
}"""
_TOKENS = """
g (double[4,2] x, double[2] w, int64[1] first, int64 n) => (double[2] y) {
  go = Constant<value = bool {1}>()
  three = Constant<value = int64[1] {3}>()
  f = Constant<value = double[2] {0.5, 0.25}>()
  tokens, y = Loop(n, go, first, f) <
    body = b (int64 i, bool c, int64[] p, double[2] v) => (bool o, int64[] q, double[2] u) {
      o = Identity(c)
      zeros = Constant<value = int64[1] {0}>()
      e = Gather<axis=0>(x, p)
      s = ReduceSum<keepdims=0>(e, zeros)
      m = Mul(s, v)
      u = Add(m, w)
      i1 = Unsqueeze(i, zeros)
      j = Mod(i1, three)
      q = Concat<axis=0>(p, j) }>
}"""

_X = {"x": (1, 3)}

MODELS = [
    *(
        Model(f"Grows {n} times, stated {shape}", _CONCAT.replace("STATED", shape), _X, {"n": np.int64(n)})
        for shape in ("1,3", "k,3", "")
        for n in (0, 1, 3)
    ),
    Model("Keys that are kept", _CACHE, {"x": (1, 3), "w": (3, 3), "u": (3, 3)}, {"n": np.int64(3)}),
    Model("Halves", _HALVES, {"x": (8,), "w": ()}, symbolic=False),
    Model("Gets axes", _RANK, {"x": (3,), "w": (3,)}, {"n": np.int64(2)}),
    Model("Integers that grow", _TOKENS, {"x": (4, 2), "w": (2,)}, {"first": [2], "n": np.int64(3)}),
]
_BY_NAME = pytest.mark.parametrize("model", MODELS, ids=[model.note.replace(" ", "_") for model in MODELS])


@_BY_NAME
def test_gradient_agrees_with_central_differences(model: Model) -> None:
    check_gradient(model)


@_BY_NAME
def test_second_order_agrees_with_central_differences_of_the_gradient(model: Model) -> None:
    check_second_order(model)
