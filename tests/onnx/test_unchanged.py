"""Values that loops carry unchanged are read at their source."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.onnx.prepare import prepare
from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import on_onnxruntime

_HEAD = '<ir_version: 10, opset_import: ["": 18]> '

_LOOP = """g (float[2] x, float[2] w, int64 n, bool go) => (float[2] y, float[2] last) {{
    s, last = Loop(n, go, x, w) <body = b (int64 i, bool c, float[2] s1, float[2] w1)
        => (bool o, float[2] s2, float[2] w2) {{ o = Identity(c) {body} }}>
    y = Mul(s, last)
}}"""

_NESTED = """g (float[2] x, float[2] w, int64 n, bool go) => (float[2] y, float[2] last) {
    s, last = Loop(n, go, x, w) <body = b (int64 i, bool c, float[2] s1, float[2] w1)
        => (bool o, float[2] s2, float[2] w2) {
        o = Identity(c)
        s2, w2 = Loop(n, c, s1, w1) <body = bb (int64 j, bool d, float[2] s3, float[2] w3)
            => (bool p, float[2] s4, float[2] w4) { p = Identity(d) s4 = Mul(s3, w3) w4 = Identity(w3) }> }>
    y = Mul(s, last)
}"""

_SCAN = """g (float[2] x, float[2] w, int64 n, bool go) => (float[2] y, float[2] last) {
    r = Unsqueeze(x, z)
    s, last = Scan<num_scan_inputs = 1, body = b (float[2] s1, float[2] w1, float[2] e)
        => (float[2] s2, float[2] w2) { t = Mul(s1, w1) s2 = Add(t, e) w2 = Identity(w1) }> (x, w, r)
    y = Mul(s, last)
}"""


def _model(text: str) -> onnx.ModelProto:
    model = parser.parse_model(_HEAD + text)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "z"))
    return model


def _run(model: onnx.ModelProto, trips: int) -> dict[str, np.ndarray]:
    run = on_onnxruntime(model)
    assert run is not None
    x, w = np.array([1.5, -2.0], np.float32), np.array([0.5, 3.0], np.float32)
    point = {"x": x, "w": w, "n": np.array(trips), "go": np.array(True)}
    return run({value.name: point[value.name] for value in model.graph.input})


def _readers(model: ir.Model, name: str) -> list[str]:
    return [
        node.op_type
        for graph in model.graphs()
        for node in graph
        for value in node.inputs
        if value is not None and value.name == name
    ]


@pytest.mark.parametrize("trips", [0, 3])
@pytest.mark.parametrize(
    "text",
    [
        _LOOP.format(body="s2 = Mul(s1, w1) w2 = Identity(w1)"),
        _LOOP.format(body="s2 = Mul(s1, w1) t = Identity(w1) w2 = Identity(t)"),
        _NESTED,
        _SCAN,
    ],
    ids=["a copy", "a copy of a copy", "nested", "Scan"],
)
def test_an_unchanged_value_is_read_at_its_source(text: str, trips: int) -> None:
    model = _model(text)
    prepared = prepare(model)
    count = 2 if text is _NESTED else 1
    assert f"read {count} values that loops carry unchanged from outside of them" in prepared.actions
    assert _readers(prepared.model, "w1") == []
    assert _readers(prepared.model, "last") == []
    assert "Mul" in _readers(prepared.model, "w")
    after = _run(ir.to_proto(prepared.model), trips)
    for name, array in _run(model, trips).items():
        np.testing.assert_array_equal(after[name], array)


@pytest.mark.parametrize(
    "body",
    [
        "s2 = Identity(w1) w2 = Identity(s1)",
        "s2 = Mul(s1, w1) w2 = Neg(w1)",
        "s2 = Identity(s1) w2 = Identity(s1)",
    ],
    ids=["they change places", "changed", "replaced"],
)
def test_what_a_body_changes_is_carried_on(body: str) -> None:
    model = _model(_LOOP.format(body=body))
    assert _readers(prepare(model).model, "w1") == _readers(ir.from_proto(model), "w1")


def test_the_readers_of_a_value_to_keep_stay() -> None:
    model = _model(_LOOP.format(body="s2 = Mul(s1, w1) w2 = Identity(w1)"))
    prepared = prepare(model, keep=["last"]).model
    assert _readers(prepared, "last") == ["Mul"]
    assert _readers(prepared, "w1") == []


def test_the_gradient_of_a_carried_float16_weight_does_not_stall() -> None:
    """4096 iterations give its gradient a one each; summed in float16 that ends at 2048."""
    text = """g (float16[2] w, float16[2] x, int64 n, bool go) => (float16[2] y) {
        kept, parts = Loop(n, go, w) <body = b (int64 i, bool c, float16[2] w1)
            => (bool o, float16[2] w2, float16[2] part) {
                o = Identity(c) w2 = Identity(w1) part = Mul(w1, x) }>
        y = ReduceSum<keepdims = 0>(parts, z)
    }"""
    gradient = differentiate(_model(text), wrt=["w"], of=["y"])
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    run = on_onnxruntime(proto)
    assert run is not None
    point = {
        "w": np.full(2, 0.01, np.float16),
        "x": np.ones(2, np.float16),
        "n": np.array(4096),
        "go": np.array(True),
    }
    got = run({value.name: point[value.name] for value in proto.graph.input})
    np.testing.assert_array_equal(got["w_grad"], [4096, 4096])


def test_lists_that_loops_pass_on_are_copied() -> None:
    """The list before the loop is read behind it, where ONNX Runtime would find it empty."""
    text = """g (float[3,2] x, float[2] w, int64 n, bool go) => (float[3,2] y, int64 count) {
        s = SplitToSequence<axis = 0>(x)
        t = SequenceConstruct(w)
        a, b = Loop(n, go, s, t) <body = b (int64 i, bool c, seq(float[A,2]) p, seq(float[2]) q)
            => (bool o, seq(float[A,2]) r, seq(float[2]) q) { o = Identity(c) r = SequenceErase(p) }>
        count = SequenceLength(b)
        k = Sub(count, count)
        h = Add(n, k)
        y = Loop(h, go, x) <body = d (int64 j, bool e, float[3,2] u) => (bool f, float[3,2] v) {
            f = Identity(e) z = SequenceAt(t, k) v = Mul(u, z) }>
    }"""
    prepared = prepare(parser.parse_model(_HEAD + text), keep=["b"])
    assert "copied 1 sequences that loops pass on" in prepared.actions
    run = on_onnxruntime(ir.to_proto(prepared.model))
    assert run is not None
    x, w = np.ones((3, 2), np.float32), np.float32([2, 3])
    got = run({"x": x, "w": w, "n": np.array(2), "go": np.array(True)})
    np.testing.assert_array_equal(got["y"], x * w**2)
    assert got["count"] == 1
