"""If and Loop of ONNX as If and While of Caffe2: they agree with ONNX Runtime on the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import netgrad
from netgrad import caffe2
from netgrad.caffe2.python import core, workspace
from netgrad.core import UnsupportedOperatorError

Array = np.ndarray[Any, Any]

X = np.array([[0.5, -1, 2], [1, 3, -0.25]], np.float32)
W = np.array([[1, 2], [-3, 0.5], [0.25, 1]], np.float32)
S = np.array([[0.5, -1], [0.25, 0.75]], np.float32)

CHOICE = """g (float[2,3] x, float[3,2] w, bool c) => (float[2,2] y) {
    y = If(c) <
        then_branch = product () => (float[2,2] t) { t = MatMul(x, w) },
        else_branch = part () => (float[2,2] e) {
            from = Constant<value_ints = [0,0]>()
            to = Constant<value_ints = [2,2]>()
            e = Slice(x, from, to)
        }
    >
}"""

POWERS = """g (float[2,2] x, float[2,2] w, int64 m) => (float[2,2] y, float[2,2] z) {
    t = Constant<value = bool {1}>()
    y, z = Loop(m, t, x, x) <
        body = turn (int64 i, bool c, float[2,2] a, float[2,2] b) => (bool d, float[2,2] p, float[2,2] q) {
            d = Identity(c)
            p = MatMul(a, w)
            q = Identity(a)
        }
    >
}"""

UNTIL = """g (float[2,2] x, float most) => (float[2,2] y, int64 n) {
    t = Constant<value = bool {1}>()
    zero = Constant<value = int64 {0}>()
    y, n = Loop(, t, x, zero) <
        body = turn (int64 i, bool before, float[2,2] a, int64 k) => (bool after, float[2,2] p, int64 next) {
            p = Add(a, x)
            largest = ReduceMax<keepdims = 0>(p)
            after = Less(largest, most)
            one = Constant<value = int64 {1}>()
            next = Add(k, one)
        }
    >
}"""

SWAP = """g (float[2,2] x, float[2,2] w, int64 m) => (float[2,2] y, float[2,2] z) {
    y, z = Loop(m, , x, w) <
        body = turn (int64 i, bool c, float[2,2] a, float[2,2] b) => (bool c, float[2,2] b, float[2,2] a) { }
    >
}"""

ROWS = """g (float[2] x, int64 m) => (float[2] y, float[k,2] z, int64[k] n) {
    y, z, n = Loop(m, , x) <
        body = turn (int64 i, bool c, float[2] a) => (bool c, float[2] p, float[2] s, int64 j) {
            j = Add(i, i)
            p = Add(a, x)
            s = Mul(a, x)
        }
    >
}"""

LOOKED_UP = """g (float[4,2] x, int64 m) => (float[2] y) {
    z = Constant<value = float[2] {0.0, 0.0}>()
    y = Loop(m, , z) <
        body = turn (int64 i, bool c, float[2] a) => (bool d, float[2] p) {
            d = Identity(c)
            row = Gather(x, i)
            p = Add(a, row)
        }
    >
}"""

STOPPED = """g (float[2,2] x, int64 m) => (float[2,2] y) {
    t = Constant<value = bool {1}>()
    y = Loop(m, t, x) <
        body = turn (int64 i, bool c, float[2,2] a) => (bool more, float[2,2] p) {
            two = Constant<value = int64 {2}>()
            more = Less(i, two)
            p = Add(a, x)
        }
    >
}"""

NESTED = """g (float[2,2] x, bool c, int64 m) => (float[2,2] y) {
    y = If(c) <
        then_branch = sums () => (float[2,2] t) {
            t = Loop(m, , x) <
                body = turn (int64 i, bool before, float[2,2] a) => (bool after, float[2,2] p) {
                    after = Identity(before)
                    f = Cast<to = 1>(i)
                    p = Add(a, f)
                }
            >
        },
        else_branch = twice () => (float[2,2] e) {
            two = Constant<value = float {2.0}>()
            e = Mul(x, two)
        }
    >
}"""


def _model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}')


def _numbers(*values: int) -> list[Array]:
    return [np.array(value, np.int64) for value in values]


@pytest.mark.parametrize(
    ("text", "inputs"),
    [
        *((CHOICE, {"x": X, "w": W, "c": np.array(c)}) for c in (True, False)),
        *((POWERS, {"x": S, "w": S.T, "m": m}) for m in _numbers(0, 1, 5)),
        *((UNTIL, {"x": np.abs(S), "most": np.array(most, np.float32)}) for most in (0, 4, 9)),
        *((SWAP, {"x": S, "w": S.T, "m": m}) for m in _numbers(0, 1, 2)),
        *((ROWS, {"x": S[0], "m": m}) for m in _numbers(1, 3)),
        *((LOOKED_UP, {"x": np.concatenate([S, S.T]), "m": m}) for m in _numbers(3)),
        *((STOPPED, {"x": S, "m": m}) for m in _numbers(0, 2, 9)),
        *((NESTED, {"x": S, "m": m, "c": np.array(c)}) for c in (True, False) for m in _numbers(3)),
    ],
)
def test_control_flow_agrees_with_onnx_runtime(text: str, inputs: dict[str, Array]) -> None:
    model = _model(text)
    converted = caffe2.from_onnx(model)
    workspace.RunNetOnce(converted.init_net)
    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(converted.predict_net)
    for name, expected in netgrad.run(model, inputs).items():
        found = workspace.FetchBlob(name)
        assert found.dtype == expected.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_no_turns_give_no_rows() -> None:
    """Of the shape that the rows would have; ONNX Runtime forgets it."""
    converted = caffe2.from_onnx(_model(ROWS))
    workspace.FeedBlob("x", S[0])
    workspace.FeedBlob("m", np.array(0))
    workspace.RunNetOnce(converted.init_net)
    workspace.RunNetOnce(converted.predict_net)
    assert workspace.FetchBlob("z").shape == (0, 2)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), S[0])


@pytest.mark.parametrize("condition", [True, False])
def test_a_choice_has_a_gradient(condition: bool) -> None:
    model = _model(CHOICE)
    inputs = {"x": X, "w": W, "c": np.array(condition)}
    expected = netgrad.run(netgrad.grad(model, wrt=["x", "w"]), inputs)
    net = core.Net(caffe2.from_onnx(model).predict_net)
    net.SumElements("y", "loss")
    gradients = net.AddGradientOperators(["loss"])
    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    for name in ("x", "w"):
        found = workspace.FetchBlob(gradients[name])
        np.testing.assert_allclose(found, expected[f"{name}_grad"], rtol=1e-6)


def test_a_net_reads_only_what_it_uses() -> None:
    """And says so: a choice of what its branches read, and no bounds that became arguments."""
    converted = caffe2.from_onnx(_model(CHOICE))
    (op,) = converted.predict_net.op
    assert (op.type, list(op.input)) == ("If", ["c", "x", "w"])
    assert converted.inputs == ["x", "w", "c"]
    assert not converted.parameters


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            """g (float[2] x, int64 m) => (float[2] y, float[k,j] z) {
                y, z = Loop(m, , x) <
                    body = turn (int64 i, bool c, float[2] a) => (bool c, float[2] p, float[j] s) {
                        p = Add(a, x)
                        zero = Constant<value = float {0.0}>()
                        places = Greater(a, zero)
                        s = Compress<axis = 0>(a, places)
                    }
                >
            }""",
            "of which each turn gives one",
        ),
        (
            """g (float[2] x) => (float[2] y) {
                y = Loop( , , x) <
                    body = turn (int64 i, bool c, float[2] a) => (bool c, float[2] p) { p = Add(a, x) }
                >
            }""",
            "never end",
        ),
        (
            """g (float[2] x, bool c) => (float[2] y) {
                y = If(c) <
                    then_branch = a () => (float[2] t) { t = Round(x) },
                    else_branch = b () => (float[2] e) { e = Det(x) }
                >
            }""",
            r"Round.*\n.*Det",
        ),
    ],
)
def test_what_caffe2_has_no_words_for_is_refused(text: str, said: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=said):
        caffe2.from_onnx(_model(text))
