"""Gradients through the graphs inside If, Loop and Scan: a table of models against central differences."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import grad
from tests.onnx.rules.graphs import HEAD, Model, check_gradient, check_second_order
from tests.onnx.rules.table import gradient_model, run_gradient

_IF = """
g (double[2,3] x, double[3,2] w, bool c) => (double[2,2] y) {
  h = Tanh(x)
  s = If(c) <then_branch = t () => (double[2,2] a) { m = MatMul(h, w) a = Sin(m) },
             else_branch = e () => (double[2,2] b) { q = Mul(h, h) n = MatMul(q, w) b = Exp(n) }>
  y = Mul(s, s)
}"""
_IF_ONE_SIDED = """
g (double[2,3] x, double[3] w, bool c) => (double[2,3] y, double[2,3] z) {
  h = Sin(x)
  y, z = If(c) <then_branch = t () => (double[2,3] a, double[2,3] d) { a = Mul(h, w) d = Exp(h) },
                else_branch = e () => (double[2,3] b, double[2,3] f) { b = Cos(h) f = Identity(b) }>
}"""
_IF_NESTED = """
g (double[2,3] x, double[2,3] w, bool c, bool d) => (double[2,3] y) {
  y = If(c) <
    then_branch = t () => (double[2,3] a) {
      h = Mul(x, w)
      r = If(d) <then_branch = tt () => (double[2,3] aa) { k = Sin(h) aa = Mul(k, w) },
                 else_branch = te () => (double[2,3] ab) { ab = Mul(h, h) }>
      a = Mul(r, x) },
    else_branch = e () => (double[2,3] b) { b = Exp(w) }>
}"""
_IF_WEIGHTS = """
g (double[2,3] x, bool c) => (double[2,2] y)
<double[3,2] v = {0.5, -0.25, 1.5, 0.75, -1.0, 0.3}> {
  y = If(c) <
    then_branch = t () => (double[2,2] a) <double[3,2] u = {0.1, 0.2, -0.3, 0.4, 0.5, -0.6}> {
      two = Constant<value = double[2,2] {2.0, 1.0, 0.5, -1.0}>()
      m = MatMul(x, u) n = MatMul(m, two) a = Sin(n) },
    else_branch = e () => (double[2,2] b) { k = MatMul(x, v) b = Tanh(k) }>
}"""
_IF_COMPOSITE = """
g (double[2,3] x, double[3] w, bool c) => (double[2,3] y) {
  y = If(c) <then_branch = t () => (double[2,3] a) { h = Mul(x, w) a = HardSwish(h) },
             else_branch = e () => (double[2,3] b) { b = PRelu(x, w) }>
}"""
_IF_POOL = """
g (double[1,2,4,6] x, bool c) => (double[1,2,p,q] y) {
  y = If(c) <then_branch = t () => (double[1,2,2,3] a) { a = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) },
             else_branch = e () => (double[1,2,4,6] b) { b = Mul(x, x) }>
}"""
_LOOP = """
g (double[2,3] x, double[3,3] w, int64 n) => (double[2,3] y) {
  go = Constant<value = bool {1}>()
  h = Tanh(x)
  s = Loop(n, go, h) <body = b (int64 i, bool c, double[2,3] v) => (bool o, double[2,3] r) {
    o = Identity(c) m = MatMul(v, w) r = Sin(m) }>
  y = Mul(s, s)
}"""
_LOOP_NO_SHAPES = """
g (double[2,3] x, double[3,3] w, int64 n) => (double[2,3] y, double[k,2,3] z) {
  s, z = Loop(n, , x) <body = b (int64 i, bool c, double[] v) => (bool o, double[] r, double[] q) {
    o = Identity(c) m = MatMul(v, w) r = Sin(m) q = Mul(r, v) }>
  y = Mul(s, s)
}"""
_LOOP_CONDITION = """
g (double[3] x, double[3] w) => (double[3] y, double[k,3] z) {
  go = Constant<value = bool {1}>()
  limit = Constant<value = double {6.0}>()
  y, z = Loop(, go, x) <body = b (int64 i, bool c, double[3] v) => (bool o, double[3] r, double[3] q) {
    e = Exp(w) f = Add(v, e) r = Add(f, e) q = Mul(r, v)
    a = ReduceMax<keepdims=0>(r) o = Less(a, limit) }>
}"""
_LOOP_BOTH = """
g (double[6] u, double w, int64 n) => (double[k] z) {
  go = Constant<value = bool {1}>()
  three = Constant<value = int64 {2}>()
  z = Loop(n, go) <body = b (int64 i, bool c) => (bool o, double q) {
    e = Gather(u, i) s = Mul(e, e) q = Mul(s, w) o = Less(i, three) }>
}"""
_LOOP_STATES = """
g (double[2,2] x, double[2] s, double[2] unused, int64 n) => (double[2,2] y, double[2] z, int64 count) {
  go = Constant<value = bool {1}>()
  zero = Constant<value = int64 {1}>()
  y, z, count, k = Loop(n, go, x, s, zero, unused) <
    body = b (int64 i, bool c, double[2,2] v, double[2] t, int64 j, double[2] p)
           => (bool o, double[2,2] v2, double[2] t2, int64 j2, double[2] p2) {
      o = Identity(c) f = CastLike(j, t) v2 = Mul(v, t) u = Sin(t) t2 = Mul(u, f)
      j2 = Add(j, i) p2 = Floor(p) }>
}"""
_LOOP_SWAP = """
g (double[3] a, double[3] b, int64 n) => (double[3] y, double[3] z, double[k,3] q) {
  go = Constant<value = bool {1}>()
  y, z, q = Loop(n, go, a, b) <body = l (int64 i, bool c, double[3] u, double[3] v)
      => (bool o, double[3] r, double[3] s, double[3] t) {
    o = Identity(c) r = Identity(v) s = Mul(u, v) t = Identity(u) }>
}"""
_LOOP_NESTED = """
g (double[2,3] x, double[2,3] w, int64 n) => (double[2,3] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, double[2,3] v) => (bool o, double[2,3] r) {
    o = Identity(c) j = Add(i, i)
    s = Loop(j, c, v) <body = bb (int64 ii, bool cc, double[2,3] vv) => (bool oo, double[2,3] rr) {
      oo = Identity(cc) mm = Mul(vv, w) rr = Sin(mm) }>
    r = Mul(s, v) }>
}"""
_IF_LOOP_IF = """
g (double[3] x, double[3] w, bool d) => (double[3] y) {
  n = Constant<value = int64 {4}>()
  two = Constant<value = int64 {2}>()
  y = If(d) <
    then_branch = t () => (double[3] a) {
      s = Loop(n, d, x) <body = b (int64 i, bool c, double[3] v) => (bool o, double[3] r) {
        o = Identity(c) early = Less(i, two)
        r = If(early) <then_branch = tt () => (double[3] aa) { m = Mul(v, w) aa = Sin(m) },
                       else_branch = te () => (double[3] ab) { ab = Identity(v) }> }>
      a = Mul(s, s) },
    else_branch = e () => (double[3] f) { f = Mul(x, w) }>
}"""
_SCAN = """
g (double[2,3] x, double[3,3] w, double[4,2,3] u) => (double[2,3] y, double[4,2,3] z) {
  y, z = Scan(x, u) <num_scan_inputs=1,
    body = b (double[2,3] v, double[2,3] e) => (double[2,3] r, double[2,3] s) {
      m = MatMul(v, w) p = Add(m, e) r = Sin(p) s = Mul(v, p) }>
}"""
_SCAN_PLACES = """
g (double[2,3] x, double[3,3] w, double[2,4,3] u, double[4,2,3] q)
  => (double[2,3] y, double[2,4,3] z, double[4,2,3] k) {
  y, z, k = Scan(x, u, q) <num_scan_inputs=2, scan_input_axes=[1,0], scan_input_directions=[0,1],
    scan_output_axes=[-2,0], scan_output_directions=[1,0],
    body = b (double[2,3] v, double[2,3] e, double[2,3] f) => (double[2,3] r, double[2,3] s, double[2,3] t) {
      m = MatMul(v, w) p = Add(m, e) r = Sin(p) s = Mul(v, p) t = Mul(p, f) }>
}"""
_SCAN_STATES = """
g (double[2] a, double[3] b, double[5,3] u) => (double[2] y, double[3] z) {
  y, z = Scan(a, b, u) <num_scan_inputs=1,
    body = l (double[2] p, double[3] q, double[3] e) => (double[2] p2, double[3] q2) {
      s = ReduceSum<keepdims=0>(e) p2 = Mul(p, s) t = Mul(q, e) q2 = Tanh(t) }>
}"""
_SCAN_NO_STATE = """
g (double[4,2] u, double[2] w) => (double[4,2] z) {
  z = Scan(u) <num_scan_inputs=1, body = l (double[2] e) => (double[2] s) { m = Mul(e, w) s = Sin(m) }>
}"""
_SCAN_IF = """
g (double[3] x, double[4,3] u, double[3] w, bool c) => (double[3] y) {
  y = Scan(x, u) <num_scan_inputs=1, body = l (double[3] v, double[3] e) => (double[3] r) {
    t = ReduceSum<keepdims=0>(e) zero = Constant<value = double {0.0}>() up = Greater(t, zero)
    r = If(up) <then_branch = tb () => (double[3] a) { m = Mul(v, w) a = Sin(m) },
                else_branch = eb () => (double[3] b) { b = Mul(v, e) }> }>
}"""

_LOOP_ROWS = """
g (double[3] x, int64[1] n, bool[1] go) => (double[3] y) {
  y = Loop(n, go, x) <body = b (int64[1] i, bool[1] c, double[3] v) => (bool[1] o, double[3] r) {
    o = Identity(c) f = CastLike(i, v) q = Mul(v, x) r = Add(q, f) }>
}"""
_LOOP_NEVER = """
g (double[3] x, bool go) => (double[3] y) {
  three = Constant<value = int64 {3}>()
  y = Loop(, go, x) <body = b (int64 i, bool c, double[3] v) => (bool o, double[3] r) {
    o = Less(i, three) r = Mul(v, v) }>
}"""
_LOOP_POOL = """
g (double[1,1,4,5] x, double[1,1,4,5] w, int64 n) => (double[1,1,4,5] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, double[1,1,4,5] v) => (bool o, double[1,1,4,5] r) {
    o = Identity(c) p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(v) r = Mul(p, w) }>
}"""

MODELS = [
    *(
        Model(f"If {branch} {c}", text, shapes, {"c": c}, symbolic)
        for c in (True, False)
        for branch, text, shapes, symbolic in [
            ("of captured values", _IF, {"x": (2, 3), "w": (3, 2)}, True),
            ("that leaves a value out in one branch", _IF_ONE_SIDED, {"x": (2, 3), "w": (3,)}, True),
            ("with a composite", _IF_COMPOSITE, {"x": (2, 3), "w": (3,)}, True),
            ("with outputs of two shapes", _IF_POOL, {"x": (1, 2, 4, 6)}, True),
        ]
    ),
    *(
        Model(f"If with weights inside {c}", _IF_WEIGHTS, {"x": (2, 3)}, {"c": c}, weights=("u", "v"))
        for c in (True, False)
    ),
    *(
        Model(f"If in If {c} {d}", _IF_NESTED, {"x": (2, 3), "w": (2, 3)}, {"c": c, "d": d})
        for c, d in [(True, True), (True, False), (False, True)]
    ),
    *(Model(f"Loop {n} times", _LOOP, {"x": (2, 3), "w": (3, 3)}, {"n": np.int64(n)}) for n in (0, 1, 4)),
    Model("Loop without shapes", _LOOP_NO_SHAPES, {"x": (2, 3), "w": (3, 3)}, {"n": np.int64(3)}),
    Model("Loop that its condition ends", _LOOP_CONDITION, {"x": (3,), "w": (3,)}),
    Model("Loop that its condition ends first", _LOOP_BOTH, {"u": (6,), "w": ()}, {"n": np.int64(6)}),
    Model("Loop that its trip count ends first", _LOOP_BOTH, {"u": (6,), "w": ()}, {"n": np.int64(2)}),
    Model(
        "Loop with several carried values",
        _LOOP_STATES,
        {"x": (2, 2), "s": (2,), "unused": (2,)},
        {"n": np.int64(3)},
    ),
    Model("Loop that passes values on", _LOOP_SWAP, {"a": (3,), "b": (3,)}, {"n": np.int64(3)}),
    Model(
        "Loop with counter and condition of one element in a row, and a value both carried and captured",
        _LOOP_ROWS,
        {"x": (3,)},
        {"n": np.array([3]), "go": np.array([True])},
    ),
    Model("Loop whose condition starts false", _LOOP_NEVER, {"x": (3,)}, {"go": False}),
    Model("Loop whose condition starts true", _LOOP_NEVER, {"x": (3,)}, {"go": True}),
    Model(
        "Loop of an operator whose rule reads an output that is left out",
        _LOOP_POOL,
        {"x": (1, 1, 4, 5), "w": (1, 1, 4, 5)},
        {"n": np.int64(2)},
    ),
    Model("Loop in Loop", _LOOP_NESTED, {"x": (2, 3), "w": (2, 3)}, {"n": np.int64(3)}),
    *(Model(f"If in Loop in If {d}", _IF_LOOP_IF, {"x": (3,), "w": (3,)}, {"d": d}) for d in (True, False)),
    Model("Scan", _SCAN, {"x": (2, 3), "w": (3, 3), "u": (4, 2, 3)}),
    Model(
        "Scan along other axes and directions",
        _SCAN_PLACES,
        {"x": (2, 3), "w": (3, 3), "u": (2, 4, 3), "q": (4, 2, 3)},
    ),
    Model("Scan with two states", _SCAN_STATES, {"a": (2,), "b": (3,), "u": (5, 3)}),
    Model("Scan without state", _SCAN_NO_STATE, {"u": (4, 2), "w": (2,)}),
    Model("If in Scan", _SCAN_IF, {"x": (3,), "u": (4, 3), "w": (3,)}, {"c": True}),
]
_BY_NAME = pytest.mark.parametrize("model", MODELS, ids=[model.note.replace(" ", "_") for model in MODELS])


@_BY_NAME
def test_gradient_agrees_with_central_differences(model: Model) -> None:
    check_gradient(model)


@_BY_NAME
def test_second_order_agrees_with_central_differences_of_the_gradient(model: Model) -> None:
    check_second_order(model)


def test_the_loop_hands_out_what_the_gradient_reads_and_runs_once() -> None:
    model = next(model for model in MODELS if model.note == "Loop with several carried values")
    result = grad(model.build(), wrt=["x"], of="y")
    forward, backward = (node for node in result.graph if node.op_type == "Loop")
    # The gradient by x reads t of every iteration, and for that j; it reads no other state.
    assert len(forward.outputs) == 4 + 1
    assert len(forward.attributes["body"].as_graph().outputs) == 1 + 4 + 1
    assert forward.outputs[4] in [
        value for graph in [backward.attributes["body"].as_graph()] for node in graph for value in node.inputs
    ]


def test_the_idle_branch_is_not_evaluated() -> None:
    """An index that exists in one branch only would fail in the other."""
    text = """
    g (double[k] x, bool c) => (double y) {
      far = Constant<value = int64 {3}>()
      near = Constant<value = int64 {0}>()
      y = If(c) <then_branch = t () => (double a) { p = Gather(x, far) a = Mul(p, p) },
                 else_branch = e () => (double b) { q = Gather(x, near) b = Exp(q) }>
    }"""
    gradient = gradient_model(parser.parse_model(HEAD + text), ["x"], ["y"])
    point = {"x": np.array([0.5, 2.0]), "c": np.array(False)}
    got = run_gradient(gradient, point, {"y": np.array(1.0)}, "float64")["x"]
    np.testing.assert_allclose(got, [np.exp(0.5), 0.0], rtol=1e-12)


def test_half_precision_sums_do_not_stall() -> None:
    """3,000 contributions of 1, which float16 could add up to 2,048 only."""
    text = """
    g (float16[2] w, float16[2] x, int64 n, float16[3000,2] u) => (float16[2] y, float16[2] z) {
      go = Constant<value = bool {1}>()
      y = Loop(n, go, x) <body = b (int64 i, bool c, float16[2] v) => (bool o, float16[2] r) {
        o = Identity(c) r = Add(v, w) }>
      z = Scan(x, u) <num_scan_inputs=1, body = s (float16[2] v, float16[2] e) => (float16[2] r) {
        r = Add(v, w) }>
    }"""
    model = parser.parse_model(HEAD + text)
    half = {name: np.zeros(shape, np.float16) for name, shape in [("w", 2), ("x", 2), ("u", (3000, 2))]}
    point = {**half, "n": np.array(3000)}
    for of in ("y", "z"):
        gradient = gradient_model(model, ["w"], [of])
        got = run_gradient(gradient, point, {of: np.ones(2)}, "float16")["w"]
        assert got.dtype == np.float16
        np.testing.assert_array_equal(got, [3000, 3000])


def test_an_operator_inside_without_a_rule_is_named() -> None:
    text = """
    g (double[3,3] x, bool c) => (double y) {
      y = If(c) <then_branch = t () => (double a) { a = my.domain.Foo(x) },
                 else_branch = e () => (double b) { b = ReduceSum<keepdims=0>(x) }>
    }"""
    head = HEAD.replace("18]", '18, "my.domain": 1]')
    with pytest.raises(UnsupportedOperatorError, match=r"my\.domain::Foo.*x"):
        grad(parser.parse_model(head + text), wrt=["x"], of="y")


def test_names_are_unique_over_all_graphs() -> None:
    model = next(model for model in MODELS if model.note == "If in Loop in If True")
    result = grad(grad(model.build(), wrt=["x"], of="y"), wrt=["w"], of="x_grad")
    nodes = [node for graph in result.graphs() for node in graph]
    names = [value.name for node in nodes for value in node.outputs if value.name]
    assert len(set(names)) == len(names)
    assert len({node.name for node in nodes}) == len(nodes)
    assert {"x_grad", "w_grad"} <= {output.name for output in result.graph.outputs}
