from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError
from netgrad.runtime.differences import Objective, derivative, random_direction, scale_of
from tests.runtime.models import DOUBLE, FLOAT, model, node, numbers


def measured(function, target=1e-9, rounding=1e-16, largest=2.0**-10):
    return derivative(function, rounding=rounding, target=target, largest=largest)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda t: math.sin(t), 1.0),
        (lambda t: math.exp(3 * t), 3.0),
        (lambda t: 5 * t + 2, 5.0),
        (lambda t: t**4, 0.0),
        (lambda t: math.sqrt(0.01 + t), 5.0),
        (lambda t: 2 * max(t - 1e-5, 0) + 3 * t, 3.0),  # a kink nearby, beyond the smaller steps
        (lambda t: 2 * max(t + 1e-6, 0) + 3 * t, 5.0),
    ],
)
def test_the_error_estimate_holds(function, expected):
    estimate = measured(function)
    assert abs(estimate.value - expected) <= estimate.error
    assert estimate.error < 1e-7
    assert not estimate.kink


@pytest.mark.parametrize("slopes", [(0.0, 2.0), (-1.0, 3.0)])
def test_a_kink_at_the_point_is_seen_and_its_slopes_are_known(slopes):
    left, right = slopes
    estimate = measured(lambda t: right * t if t > 0 else left * t)
    assert estimate.kink
    assert (estimate.left, estimate.right) == pytest.approx(slopes)
    assert estimate.error >= (right - left) / 2


def test_noise_is_part_of_the_error():
    rng = np.random.default_rng(0)
    estimate = measured(lambda t: math.sin(t) + 1e-6 * rng.uniform(-1, 1), rounding=1e-6, largest=2.0**-5)
    assert abs(estimate.value - 1) <= estimate.error
    assert 1e-5 < estimate.error < 1e-2


def test_a_function_that_is_not_finite_has_no_estimate():
    assert measured(lambda t: math.nan).error == math.inf


@pytest.mark.parametrize("function", [np.sign, lambda t: np.sign(t) + t, lambda t: float(t >= 0)])
def test_a_jump_at_the_point_has_no_derivative(function):
    assert measured(function).error == math.inf


def test_an_output_that_changes_its_length_has_no_derivative_there():
    proto = model(
        [node("Range", "start limit delta", "y")],
        {name: (DOUBLE, []) for name in ("start", "limit", "delta")},
        {"y": DOUBLE},
    )
    for limit, finite in ((5.0, False), (5.5, True)):
        point = {"start": 1.0, "limit": limit, "delta": 2.0}
        objective = Objective(proto, point, {"y": np.ones(2 if limit == 5.0 else 3)}, ["start"])
        error = objective.element("start", ()).error
        assert error < 1e-6 if finite else error > 1


def test_float32_in_the_middle_counts_as_rounding():
    """The scale of DequantizeLinear is float32 in a float64 model, too, and close points hide its steps."""
    proto = model(
        [node("DequantizeLinear", "q s", "y")],
        {"s": (FLOAT, []), "q": (onnx.TensorProto.UINT8, [2])},
        {"y": FLOAT},
    )
    point = {"s": 0.3, "q": np.array([100, 200], np.uint8)}
    objective = Objective(proto, point, {"y": np.ones(2)}, ["s"])
    assert objective.precision == "float64"
    assert objective.rounding >= np.finfo(np.float32).eps * 90
    estimate = objective.element("s", ())
    assert abs(estimate.value - 300) <= estimate.error < 3e-3 * 300


def relu_net(dtype=FLOAT):
    return model(
        [node("MatMul", "x W1", "h"), node("Relu", "h", "r"), node("MatMul", "r W2", "y")],
        {"x": (dtype, ["N", 5])},
        {"y": dtype},
        {"W1": numbers(5, 7), "W2": numbers(7, 3, seed=1)}
        if dtype == FLOAT
        else {"W1": numbers(5, 7, dtype=np.float64), "W2": numbers(7, 3, seed=1, dtype=np.float64)},
    )


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
def test_a_float32_model_is_measured_in_float64(dtype):
    x, cotangent = numbers(4, 5, seed=2), numbers(4, 3, seed=3)
    weights = [numbers(5, 7, dtype=np.float64), numbers(7, 3, seed=1, dtype=np.float64)]
    objective = Objective(relu_net(dtype), {"x": x}, {"y": cotangent}, ["x", "W1", "W2"])
    by_hidden = Objective(relu_net(dtype), {"x": x}, {"y": cotangent}, ["r"])
    assert (objective.precision, objective.engine) == ("float64", "ONNX Runtime")
    w1, w2 = (objective.point[name] for name in ("W1", "W2"))
    np.testing.assert_allclose(w1, weights[0], rtol=1e-6)
    wide_x, wide_c = x.astype(np.float64), cotangent.astype(np.float64)
    hidden = wide_x @ w1
    by_w2 = np.maximum(hidden, 0).T @ wide_c
    by_r = wide_c @ w2.T
    by_w1 = wide_x.T @ (by_r * (hidden > 0))
    for name, expected in (("W1", by_w1), ("W2", by_w2), ("r", by_r)):
        measure = by_hidden if name == "r" else objective
        estimate = measure.element(name, (2, 1), target=1e-8)
        assert estimate.error < 1e-7
        assert estimate.value == pytest.approx(expected[2, 1], abs=1e-7)
        direction = random_direction(expected, np.random.default_rng(1))
        assert measure.along({name: direction}).value == pytest.approx(
            float((expected * direction).sum()), abs=1e-6
        )


def convolution(*more):
    return model(
        [node("Conv", "x K", "h", pads=[1, 1, 1, 1]), *more],
        {"x": (FLOAT, ["N", 2, 5, 6])},
        {"y": FLOAT},
        {"K": numbers(4, 2, 3, 3)},
    )


@pytest.mark.parametrize(
    ("last", "engine"),
    [
        (node("LpPool", "h", "y", kernel_shape=[2, 3]), "ONNX reference evaluator"),
        (node("LogSoftmax", "h", "y", axis=1), "ONNX Runtime, with convolutions as products"),
        (node("LRN", "h", "y", size=3, alpha=0.5), "ONNX Runtime, with convolutions as products"),
        (node("AveragePool", "h", "y", kernel_shape=[2, 3]), "ONNX Runtime, with convolutions as products"),
    ],
)
def test_where_onnx_runtime_has_no_float64_kernels_there_is_a_way_round(last, engine):
    proto = convolution(last)
    cotangent = numbers(*((2, 4, 4, 4) if last.op_type.endswith("Pool") else (2, 4, 5, 6)), seed=1)
    objective = Objective(proto, {"x": numbers(2, 2, 5, 6, seed=2)}, {"y": cotangent}, ["K"])
    assert (objective.precision, objective.engine) == ("float64", engine)
    assert objective.rounding < 1e-12
    assert objective.element("K", (1, 1, 2, 0), target=1e-8).error < 1e-6


def test_where_the_evaluator_deviates_the_model_is_measured_as_it_is():
    body = model(
        [node("Sin", "state", "next"), node("Identity", "go", "go_on")],
        {"trip": (7, []), "go": (9, []), "state": (FLOAT, [1, 1, 3])},
        {"go_on": 9, "next": FLOAT},
    ).graph
    # the evaluator runs a loop without a condition zero times; LpPool keeps ONNX Runtime from float64
    loop = node("Loop", "n c x", "h", body=body)
    loop.input[1] = ""
    absolute = node("LpPool", "h", "y", kernel_shape=[1])
    proto = model([loop, absolute], {"x": (FLOAT, [1, 1, 3])}, {"y": FLOAT}, {"n": np.array(2)})
    x = np.array([[[0.3, -0.5, 0.9]]], np.float32)
    objective = Objective(proto, {"x": x}, {"y": np.ones((1, 1, 3))}, ["x"])
    assert (objective.precision, objective.engine) == ("the model's own", "ONNX Runtime")
    estimate = objective.element("x", (0, 0, 1))
    expected = -math.cos(math.sin(-0.5)) * math.cos(-0.5)
    assert abs(estimate.value - expected) <= estimate.error < 1e-2


def test_random_models_are_refused():
    proto = model(
        [node("RandomNormalLike", "x", "r"), node("Mul", "x r", "y")], {"x": (FLOAT, [3])}, {"y": FLOAT}
    )
    with pytest.raises(RuntimeFailureError, match="other values each time"):
        Objective(proto, {"x": numbers(3)}, {"y": numbers(3)}, ["x"])


def test_unknown_names_are_refused():
    with pytest.raises(InvalidArgumentError, match="no value 'w1'; did you mean 'W1'"):
        Objective(relu_net(), {"x": numbers(4, 5)}, {"y": numbers(4, 3)}, ["w1"])


def test_directions_are_as_large_as_the_elements():
    assert scale_of(np.zeros((2, 3))) == 1.0
    assert scale_of(np.full((2, 3), -5.0)) == 5.0
    assert scale_of(np.zeros((0, 3))) == 1.0
    direction = random_direction(np.full((100, 30), 5.0), np.random.default_rng(0))
    assert 4 < float(np.sqrt(np.mean(direction**2))) < 6
