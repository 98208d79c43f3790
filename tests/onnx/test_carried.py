"""Shapes of what loops carry and scan."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.onnx.prepare import prepare
from netgrad.onnx.view import dims_of

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
