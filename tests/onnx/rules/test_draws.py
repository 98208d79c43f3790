"""Random draws in bodies: the gradient belongs to the numbers of the forward run, which are outputs here."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

import netgrad
from netgrad import UnsupportedOperatorError

HEAD = '<ir_version: 10, opset_import: ["": 18]>'
X = np.array([0.5, 0.7, -1.1, 1.3])

LOOP = """
g (double[4] x, int64 n) => (double[4] y, double[k,4] drawn) {
  go = Constant<value = bool {1}>()
  y, drawn = Loop(n, go, x) <body = b (int64 i, bool c, double[4] a) => (bool o, double[4] r, double[4] w) {
    o = Identity(c) w = RandomUniform<dtype = 11, low = 0.5, high = 2.0, shape = [4]>()
    s = Mul(a, a) r = Mul(s, w) }>
}"""

DROPPED = """
g (double[4] x, int64 n, float ratio, bool training) => (double[4] y, double[k,4] kept, double[k,4] states) {
  go = Constant<value = bool {1}>()
  y, kept, states = Loop(n, go, x) <body =
    b (int64 i, bool c, double[4] a) => (bool o, double[4] r, double[4] w, double[4] copy) {
    o = Identity(c) copy = Identity(a) s = Sin(a) w = Dropout<seed = 5>(s, ratio, training) r = Add(w, a) }>
}"""

SCAN = """
g (double[4] x, double[3,4] e) => (double[4] y, double[3,4] drawn, double[4,3] turned) {
  y, drawn, turned = Scan(x, e) <num_scan_inputs = 1, scan_input_directions = [1],
    scan_output_directions = [1, 0], scan_output_axes = [0, 1],
    body = b (double[4] a, double[4] f) => (double[4] r, double[4] w, double[4] t) {
    w = RandomNormalLike(a) p = Mul(a, f) q = Mul(p, w) r = Sin(q) t = Exp(r) }>
}"""

IF = """
g (double[4] x, bool c) => (double[4] y, double[4] drawn) {
  y, drawn = If(c) <
    then_branch = t () => (double[4] a, double[4] u) { u = RandomUniformLike(x) s = Sin(x) a = Mul(s, u) },
    else_branch = e () => (double[4] b, double[4] v) {
      half = Constant<value = float {0.5}>() on = Constant<value = bool {1}>()
      p = Sigmoid(x) v = Bernoulli(p) s = Exp(x) m = Mul(s, v) d = Dropout(x, half, on) b = Add(m, d) }>
}"""


def _run(gradient: ir.Model, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    onnx.checker.check_model(ir.to_proto(gradient), full_check=True)
    return netgrad.run(gradient, feeds)


def _second(text: str, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    first = netgrad.grad(parser.parse_model(HEAD + text), wrt="x", of="y")
    return _run(netgrad.grad(first, wrt="x", of="x_grad"), feeds)


def test_a_loop_and_its_second_derivative() -> None:
    """After two iterations with w0 and w1, y = x^4 w0^2 w1."""
    got = _second(LOOP, {"x": X, "n": np.array(2)})
    w0, w1 = got["drawn"]
    assert not np.array_equal(w0, w1)
    np.testing.assert_allclose(got["y"], X**4 * w0**2 * w1)
    np.testing.assert_allclose(got["x_grad"], 4 * X**3 * w0**2 * w1)
    np.testing.assert_allclose(got["x_grad_1"], 12 * X**2 * w0**2 * w1)


@pytest.mark.parametrize("training", [True, False])
def test_dropout_in_a_loop(training: bool) -> None:
    """s' = s + M sin(s) / (1 - r); an element was kept where the output of Dropout is not 0."""
    gradient = netgrad.grad(parser.parse_model(HEAD + DROPPED), wrt="x", of="y")
    feeds = {"x": X, "n": np.array(3), "ratio": np.float32(0.4), "training": np.array(training)}
    got = _run(gradient, feeds)
    scale = 1 / (1 - np.float32(0.4)) if training else 1.0
    want = np.ones(4)
    for kept, state in zip(got["kept"], got["states"], strict=True):
        want *= 1 + (kept != 0) * np.cos(state) * scale
    np.testing.assert_allclose(got["x_grad"], want, rtol=1e-6)
    assert bool((got["kept"] == 0).any()) is training


def test_a_scan() -> None:
    elements = np.array([[1.0, 2.0, 0.3, -0.4], [0.5, 0.6, 1.2, 0.8], [1.1, 0.7, -0.9, 1.4]])
    gradient = netgrad.grad(parser.parse_model(HEAD + SCAN), wrt=["x", "e"], of="y")
    got = _run(gradient, {"x": X, "e": elements})
    state, seen = X, []
    for element, drawn in zip(elements[::-1], got["drawn"][::-1], strict=True):  # both run backwards
        seen.append((state, element, drawn))
        state = np.sin(state * element * drawn)
    np.testing.assert_allclose(got["y"], state)
    cotangent, want = np.ones(4), []
    for state, element, drawn in reversed(seen):
        inner = cotangent * np.cos(state * element * drawn) * drawn
        want.append(inner * state)
        cotangent = inner * element
    np.testing.assert_allclose(got["x_grad"], cotangent)
    np.testing.assert_allclose(got["e_grad"], want)


@pytest.mark.parametrize("then", [True, False])
def test_an_if_and_its_second_derivative(then: bool) -> None:
    got = _second(IF, {"x": X, "c": np.array(then)})
    if then:
        np.testing.assert_allclose(got["y"], np.sin(X) * got["drawn"])
        np.testing.assert_allclose(got["x_grad"], np.cos(X) * got["drawn"])
        np.testing.assert_allclose(got["x_grad_1"], -np.sin(X) * got["drawn"])
    else:
        kept = got["y"] - np.exp(X) * got["drawn"]  # 2 x where the Dropout kept the element
        np.testing.assert_allclose(got["x_grad"], np.exp(X) * got["drawn"] + kept / X)
        np.testing.assert_allclose(got["x_grad_1"], np.exp(X) * got["drawn"])


def test_what_the_gradient_does_not_read_is_not_handed_out() -> None:
    text = LOOP.replace("s = Mul(a, a) r = Mul(s, w)", "s = Mul(a, x) r = Add(s, w)")
    gradient = netgrad.grad(parser.parse_model(HEAD + text), wrt="x", of="y")
    loop = next(node for node in gradient.graph if node.op_type == "Loop")
    body = loop.attributes["body"].as_graph()
    assert len(loop.outputs) == 3, "y, drawn, and the states"
    assert [node.op_type for node in body].count("Identity") == 2, "the condition and the state"
    assert len(body.outputs) == 4


NESTED = """
g (double[4] x, int64 n) => (double[4] y) {
  go = Constant<value = bool {1}>()
  y = Loop(n, go, x) <body = b (int64 i, bool c, double[4] a) => (bool o, double[4] r) {
    o = Identity(c) two = Constant<value = int64 {2}>()
    r = Loop(two, c, a) <body = bb (int64 j, bool cc, double[4] f) => (bool p, double[4] q) {
      p = Identity(cc) w = RandomUniformLike(f) s = Mul(f, f) q = Add(s, w) }> }>
}"""


def test_draws_of_an_inner_loop_are_refused() -> None:
    """Its states would come of a second run, with other numbers."""
    with pytest.raises(UnsupportedOperatorError, match=r"Loop.*RandomUniformLike '.*' would draw other"):
        netgrad.grad(parser.parse_model(HEAD + NESTED), wrt="x", of="y")
