"""Zero times infinity: selections in front of singular operators, and masks behind them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

from netgrad.transforms.grad import grad
from tests.onnx.rules.table import on_onnxruntime

NAN = float("nan")


def _model(
    body: str, *, inputs: str = "double[N] x", initializers: str = "double zero = {0.0}"
) -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["": 18]> g ({inputs}) => (double[M] y) <{initializers}>'
    return onnx.shape_inference.infer_shapes(parser.parse_model(f"{head} {{ {body} }}"))


def _gradient(model: onnx.ModelProto | ir.Model, *wrt: str, **feeds: np.ndarray) -> list[np.ndarray]:
    proto = ir.to_proto(grad(model, wrt=list(wrt), of="y"))
    run = on_onnxruntime(proto)
    assert run is not None, "every operator has a float64 kernel"
    outputs = run(feeds)
    return [outputs[f"{name}_grad"] for name in wrt]


def _types(model: onnx.ModelProto, **options: object) -> list[str]:
    return [node.op_type for node in grad(model, **options).graph]


@pytest.mark.parametrize(
    ("function", "derivative"),
    [
        ("t = Log(x)", lambda x: 1 / x),
        ("t = Sqrt(x)", lambda x: 0.5 / np.sqrt(x)),
        ("t = Reciprocal(x)", lambda x: -1 / x**2),
        ("t = Div(x, x)", lambda x: 0 * x),
        ("r = Sqrt(x) t = Div(x, r)", lambda x: 0.5 / np.sqrt(x)),
        ("l = Log(x) t = Mul(x, l)", lambda x: np.log(x) + 1),
        ("l = Log(x) m = Neg(l) t = Unsqueeze(m, axis) s = Squeeze(t, axis) ", lambda x: -1 / x),
    ],
)
def test_what_where_leaves_out_has_no_influence(function: str, derivative: object) -> None:
    last = "s" if " s = " in function else "t"
    model = _model(
        f"c = Greater(x, zero) {function} y = Where(c, {last}, zero)",
        initializers="double zero = {0.0}, int64[1] axis = {0}",
    )
    x = np.array([-2.0, 0.0, 0.5, 3.0])
    (dx,) = _gradient(model, "x", x=x)
    with np.errstate(all="ignore"):
        want = np.where(x > 0, derivative(x), 0.0)  # type: ignore[operator]
    np.testing.assert_allclose(dx, want, rtol=1e-12)


@pytest.mark.parametrize("outer", ["y = Where(c, e, x)", "y = Min(e, ten)", "y = Clip(e, , ten)"])
def test_an_overflow_that_is_not_selected_has_no_influence(outer: str) -> None:
    model = _model(f"c = Less(x, ten) e = Exp(x) {outer}", initializers="double ten = {10.0}")
    (dx,) = _gradient(model, "x", x=np.array([1.0, 1000.0]))
    np.testing.assert_allclose(dx, [np.e, 1.0 if "Where" in outer else 0.0], rtol=1e-12)


def test_a_nan_with_influence_stays() -> None:
    model = _model("c = Greater(x, zero) t = Sqrt(x) y = Where(c, x, t)")
    (dx,) = _gradient(model, "x", x=np.array([-1.0, 2.0]))
    np.testing.assert_array_equal(dx, [NAN, 1.0])


def test_the_guard_keeps_the_second_derivative_at_a_cotangent_of_zero() -> None:
    """y = w ln x where x > 0: d2y/dx dw = 1/x, at w = 0 as anywhere."""
    model = _model(
        "c = Greater(x, zero) l = Log(x) t = Where(c, l, zero) y = Mul(t, w)",
        inputs="double[N] x, double[N] w",
    )
    first = grad(model, wrt=["x"], of="y")
    second = ir.to_proto(grad(first, wrt=["w"], of="x_grad"))
    run = on_onnxruntime(second)
    assert run is not None
    got = run({"x": np.array([-1.0, 0.0, 0.25, 4.0]), "w": np.zeros(4)})["w_grad"]
    np.testing.assert_allclose(got, [0.0, 0.0, 4.0, 0.25], rtol=1e-12)


@pytest.mark.parametrize("mask", ["m = Relu(x)", "m = Max(x, zero)", "m = Clip(x, zero)"])
@pytest.mark.parametrize("pole", ["y = Log(m)", "r = Reciprocal(m) y = Neg(r)", "y = Div(one, m)"])
def test_a_mask_blocks_an_infinite_cotangent(mask: str, pole: str) -> None:
    model = _model(f"{mask} {pole}", initializers="double zero = {0.0}, double one = {1.0}")
    (dx,) = _gradient(model, "x", x=np.array([-3.0, 2.0]))
    assert dx[0] == 0
    assert np.isfinite(dx[1])
    assert dx[1] != 0


def test_the_length_of_a_zero_vector_has_gradient_zero() -> None:
    model = _model("q = Mul(x, x) s = ReduceSum(q) y = Sqrt(s)")
    (dx,) = _gradient(model, "x", x=np.zeros(3))
    np.testing.assert_array_equal(dx, np.zeros(3))


def test_ordinary_nets_pay_nothing() -> None:
    """A Relu before a MatMul multiplies by a mask, and a division behind a MatMul is not guarded."""
    model = _model(
        "a = MatMul(x, w) r = Relu(a) q = Div(r, two) b = MatMul(q, w) "
        "c = Greater(b, two) y = Where(c, b, two)",
        inputs="double[2, 2] x",
        initializers="double[2, 2] w = {1.0, 2.0, 3.0, 4.0}, double two = {2.0}",
    )
    types = _types(model, wrt=["x"], of="y")
    assert "IsNaN" not in types
    assert types.count("Where") == 1


@pytest.mark.parametrize(
    "body",
    [
        "n = Neg(x) e = Exp(n) d = Add(e, one) y = Reciprocal(d)",
        "n = Neg(x) e = Exp(n) d = Add(one, e) y = Div(one, d)",
        "n = Neg(x) e = Exp(n) d = Add(one, e) r = Unsqueeze(d, axis) s = Squeeze(r, axis) y = Div(one, s)",
    ],
)
def test_an_overflow_in_a_denominator_has_no_influence(body: str) -> None:
    """A sigmoid that is written out, and its second derivative."""
    model = _model(body, initializers="double one = {1.0}, int64[1] axis = {0}")
    x = np.array([-2000.0, -800.0, 0.0, 2.0, 900.0])
    s = np.array([0.0, 0.0, 0.5, 1 / (1 + np.exp(-2.0)), 1.0])
    (dx,) = _gradient(model, "x", x=x)
    np.testing.assert_allclose(dx, s * (1 - s), rtol=1e-12)
    second = ir.to_proto(grad(grad(model, wrt=["x"], of="y"), wrt=["x"], of="x_grad"))
    run = on_onnxruntime(second)
    assert run is not None
    np.testing.assert_allclose(run({"x": x})["x_grad_1"], s * (1 - s) * (1 - 2 * s), rtol=1e-9, atol=1e-12)


def test_swish_written_out_saturates() -> None:
    model = _model("n = Neg(x) e = Exp(n) d = Add(e, one) y = Div(x, d)", initializers="double one = {1.0}")
    (dx,) = _gradient(model, "x", x=np.array([-2000.0, 0.0, 900.0]))
    np.testing.assert_allclose(dx, [0.0, 0.5, 1.0], rtol=1e-12)
