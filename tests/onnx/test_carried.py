"""Shapes of what loops carry and scan."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.onnx.prepare import prepare
from netgrad.onnx.view import dims_of
from netgrad.runtime.session import run
from netgrad.transforms.grad import grad

_HEAD = '<ir_version: 10, opset_import: ["": 18]> '


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int | str | None, ...] | None]:
    graphs = prepare(model).model.graphs()
    return {
        value.name or "": dims_of(value.shape)
        for graph in graphs
        for value in [*graph.inputs, *(output for node in graph for output in node.outputs)]
    }


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("r = Sin(v)", ("a", 3)),
        ("w = Transpose<perm=[1, 0]>(v) r = Sin(w)", (None, None)),
        ("r = Concat<axis=0>(v, x)", (None, 3)),
        ("r = ReduceSum<keepdims=0>(v)", None),
    ],
)
def test_a_carried_value_has_what_the_body_leaves_of_its_shape(
    body: str, kept: tuple[int | str | None, ...] | None
) -> None:
    text = f"""
    g (float[a,3] x, int64 n, bool go) => (float[] y) {{
      s = Loop(n, go, x) <body = b (int64 i, bool c, float[] v) => (bool o, float[] r) {{
        o = Identity(c) {body} }}>
      y = Identity(s)
    }}"""
    shapes = _shapes(parser.parse_model(_HEAD + text))
    assert shapes["v"] == kept
    assert shapes["s"] == kept


def test_sizes_that_a_loop_body_states_are_not_trusted() -> None:
    """The sizes of another batch, as an exporter left them: the weight's gradient is a sum over the rows."""
    text = """
    g (double[a,2] x, double[1,2] w, int64 n, bool go) => (double[a,2] y) {
      y = Loop(n, go, x) <body = b (int64 i, bool c, double[1,2] v) => (bool o, double[1,2] r) {
        o = Identity(c) u = Mul(v, w) r = Mul(u, w) }>
    }"""
    model = parser.parse_model(_HEAD + text)
    assert _shapes(model)["v"] == ("a", 2)
    x, w = np.arange(6.0).reshape(3, 2) + 1, np.array([[0.5, 2.0]])
    found = run(grad(model, wrt="w"), {"x": x, "w": w, "n": np.int64(2), "go": np.bool_(True)})
    np.testing.assert_allclose(found["w_grad"], 4 * x.sum(0, keepdims=True) * w**3)


def test_one_shape_for_all_tensors_of_a_list_is_not_trusted() -> None:
    text = """
    g (seq(float[2]) x, float[3] w, int64 n, bool go) => (seq(float[]) y) {
      y = Loop(n, go, x) <body = b (int64 i, bool c, seq(float[2]) v) => (bool o, seq(float[2]) r) {
        o = Identity(c) r = SequenceInsert(v, w) }>
    }"""
    shapes = _shapes(parser.parse_model(_HEAD + text))
    assert shapes["v"] in (None, (None,))
    assert shapes["r"] in (None, (None,))


def test_loops_in_loops_are_verified_together() -> None:
    text = """
    g (float[2,3] x, float[2,3] w, int64 n, bool go) => (float[] y) {
      s, t = Loop(n, go, x, w) <body = b (int64 i, bool c, float[] v, float[] u)
          => (bool o, float[] r, float[] q) {
        o = Identity(c)
        r = Loop(n, c, v) <body = bb (int64 j, bool d, float[] vv) => (bool oo, float[] rr) {
          oo = Identity(d) rr = Mul(vv, w) }>
        q = Loop(n, c, u) <body = bc (int64 k, bool e, float[] uu) => (bool op, float[] qq) {
          op = Identity(e) qq = Concat<axis=1>(uu, uu) }> }>
      y = Identity(s)
    }"""
    shapes = _shapes(parser.parse_model(_HEAD + text))
    assert [shapes[name] for name in ("v", "vv", "rr", "r", "s")] == [(2, 3)] * 5
    assert [shapes[name] for name in ("u", "uu", "q", "t")] == [(2, None)] * 4


def test_the_inputs_of_a_scan_body_are_slices() -> None:
    text = """
    g (float16[a,2] x, float16[2,b,5] u) => (float16[] y, float16[] z) {
      y, z = Scan(x, u) <num_scan_inputs = 1, scan_input_axes = [-2],
        body = s (float16[] v, float16[] e) => (float16[] r, float16[] q) {
          f = Cast<to = 1>(e) r = Sin(v) q = Neg(e) }>
    }"""
    model = parser.parse_model(_HEAD + text)
    for value in model.graph.node[0].attribute[-1].g.input:
        value.ClearField("type")
    shapes = _shapes(model)
    assert shapes["v"] == ("a", 2)
    assert shapes["e"] == (2, 5)
    body = prepare(model).model.graph[0].attributes["body"].as_graph()
    assert [value.dtype for value in body.inputs] == [ir.DataType.FLOAT16] * 2


def test_the_body_of_a_batched_scan_is_fed_elements_of_the_batch() -> None:
    """Scan of opset 8: as many elements as the body states, not the slices that a later Scan would feed."""
    text = """
    <ir_version: 3, opset_import: ["": 8]>
    g (float[1,2] x, float[1,3,2] u) => (float[1,2] y, float[1,3,2] z) {
      y, z = Scan <num_scan_inputs = 1, body = b (float[2] s, float[2] e) => (float[2] r, float[2] o) {
        r = Add(s, e) o = Identity(r) }> ("", x, u)
    }"""
    shapes = _shapes(parser.parse_model(text))
    assert (shapes["s"], shapes["e"], shapes["r"]) == ((2,), (2,), (2,))
    assert shapes["z"] == (1, 3, 2)
