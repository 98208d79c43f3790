from __future__ import annotations

import math

import numpy as np
import pytest

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError
from netgrad.runtime.reference import ReferenceSession
from netgrad.runtime.session import Session
from tests.runtime.models import DOUBLE, FLOAT, model, node, numbers


def test_erf_and_gelu_are_computed_in_float64():
    x = np.array([-1.3, 0.0, 0.4])
    erf = [math.erf(v) for v in x]
    assert (
        ReferenceSession(model([node("Erf", "x", "y")], {"x": (DOUBLE, [3])}, {"y": DOUBLE}))
        .run({"x": x})["y"]
        .tolist()
        == erf
    )
    gelu = model([node("Gelu", "x", "y")], {"x": (DOUBLE, [3])}, {"y": DOUBLE}, opset=20)
    expected = [v / 2 * (1 + math.erf(v / math.sqrt(2))) for v in x]
    np.testing.assert_allclose(ReferenceSession(gelu).run({"x": x})["y"], expected, rtol=1e-14)


@pytest.mark.parametrize(
    ("op", "shape"),
    [
        (node("Gelu", "x", "y", approximate="tanh"), (2, 3)),
        (node("LogSoftmax", "x", "y"), (2, 3)),
        (node("LogSoftmax", "x", "y", axis=0), (2, 3)),
        (node("LogSoftmax", "x", "y"), (0, 3)),
        (node("LRN", "x", "y", size=3, alpha=0.5), (2, 5, 3, 2)),
        (node("LRN", "x", "y", size=5, alpha=0.5, beta=0.6, bias=2.0), (1, 6, 3, 2)),
        (node("Erf", "x", "y"), ()),
        (node("MaxPool", "x", "y", kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 2]), (2, 3, 5, 7)),
        (node("MaxPool", "x", "y", kernel_shape=[2, 2], strides=[3, 2], ceil_mode=1), (2, 3, 5, 7)),
        (node("MaxPool", "x", "y", kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER"), (2, 3, 8)),
        (node("MaxPool", "x", "y", kernel_shape=[2, 3, 2], auto_pad="SAME_LOWER"), (1, 2, 4, 5, 3)),
        (node("AveragePool", "x", "y", kernel_shape=[2, 3], pads=[1, 0, 0, 2]), (2, 3, 5, 7)),
        (
            node("AveragePool", "x", "y", kernel_shape=[2, 3], pads=[1, 1, 0, 2], count_include_pad=1),
            (2, 3, 5, 7),
        ),
        (node("AveragePool", "x", "y", kernel_shape=[2, 2], strides=[3, 2], ceil_mode=1), (2, 3, 5, 7)),
        (
            node(
                "AveragePool",
                "x",
                "y",
                kernel_shape=[3, 3],
                strides=[2, 2],
                pads=[1, 1, 1, 1],
                ceil_mode=1,
                count_include_pad=1,
            ),
            (1, 2, 6, 6),
        ),
        (node("AveragePool", "x", "y", kernel_shape=[2, 2], dilations=[2, 1]), (2, 3, 5, 7)),
    ],
)
def test_replaced_operators_agree_with_onnx_runtime(op, shape):
    proto = model([op], {"x": (FLOAT, shape)}, {"y": FLOAT}, opset=20)
    feeds = {"x": numbers(*shape)}
    ours, theirs = ReferenceSession(proto).run(feeds)["y"], Session(proto).run(feeds)["y"]
    assert ours.shape == theirs.shape
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", [0, 1])
def test_max_pool_gives_the_places_of_the_maxima(order):
    op = node(
        "MaxPool", "x", "y i", kernel_shape=[2, 3], strides=[1, 2], pads=[1, 1, 0, 0], storage_order=order
    )
    proto = model([op], {"x": (FLOAT, [2, 3, 4, 5])}, {"y": FLOAT, "i": 7})
    feeds = {"x": numbers(2, 3, 4, 5)}
    ours, theirs = ReferenceSession(proto).run(feeds), Session(proto).run(feeds)
    np.testing.assert_array_equal(ours["y"], theirs["y"])
    np.testing.assert_array_equal(ours["i"], theirs["i"])


@pytest.mark.parametrize(
    ("shape", "kernel", "attributes"),
    [
        ((2, 3, 7), (4, 3, 3), {}),
        ((2, 3, 7, 5), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1]}),
        ((2, 4, 7, 5), (6, 2, 3, 2), {"group": 2, "dilations": [2, 1]}),
        ((1, 4, 7, 5), (8, 1, 3, 2), {"group": 4, "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        ((1, 4, 7, 5), (3, 4, 2, 2), {"auto_pad": "SAME_LOWER"}),
        ((1, 4, 7, 5), (3, 4, 2, 2), {"auto_pad": "VALID"}),
        ((1, 2, 4, 5, 3), (3, 2, 2, 3, 2), {"pads": [0, 1, 0, 1, 0, 1]}),
    ],
)
@pytest.mark.parametrize("bias", [False, True])
def test_conv_agrees_with_onnx_runtime(shape, kernel, attributes, bias):
    arrays = {"x": numbers(*shape), "w": numbers(*kernel, seed=1)} | (
        {"b": numbers(kernel[0], seed=2)} if bias else {}
    )
    op = node("Conv", " ".join(arrays), "y", **attributes)
    proto = model([op], {name: (FLOAT, array.shape) for name, array in arrays.items()}, {"y": FLOAT})
    ours, theirs = ReferenceSession(proto).run(arrays)["y"], Session(proto).run(arrays)["y"]
    assert ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_lrn_with_an_even_size_reaches_further_up():
    """The standard: from max(0, c - floor((size - 1) / 2)) to min(C - 1, c + ceil((size - 1) / 2))."""
    proto = model(
        [node("LRN", "x", "y", size=4, alpha=4.0, beta=1.0, bias=1.0)],
        {"x": (DOUBLE, [1, 5, 1, 1])},
        {"y": DOUBLE},
    )
    x = np.arange(1.0, 6.0)
    sums = np.array([1 + 4 + 9, 1 + 4 + 9 + 16, 4 + 9 + 16 + 25, 9 + 16 + 25, 16 + 25])
    result = ReferenceSession(proto).run({"x": x.reshape(1, 5, 1, 1)})["y"]
    np.testing.assert_allclose(result.reshape(-1), x / (1 + sums), rtol=1e-14)


def test_log_softmax_stays_finite():
    proto = model([node("LogSoftmax", "x", "y")], {"x": (DOUBLE, [2])}, {"y": DOUBLE})
    assert ReferenceSession(proto).run({"x": np.array([0.0, 2000.0])})["y"].tolist() == [-2000, 0]


def test_failures_are_errors_of_ours():
    unknown = model([node("Unheard", "x", "y", domain="my.own")], {"x": (FLOAT, [2])}, {"y": FLOAT})
    with pytest.raises(RuntimeFailureError, match="reference evaluator cannot load"):
        ReferenceSession(unknown)
    fine = ReferenceSession(
        model([node("MatMul", "x w", "y")], {"x": (FLOAT, None), "w": (FLOAT, None)}, {"y": FLOAT})
    )
    with pytest.raises(RuntimeFailureError, match="reference evaluator failed"):
        fine.run({"x": numbers(2, 3), "w": numbers(2, 3)})
    with pytest.raises(InvalidArgumentError, match=r"input 'w' .* is missing"):
        fine.run({"x": numbers(2, 3)})
    with pytest.raises(InvalidArgumentError, match="no output 'Y'; did you mean 'y'"):
        fine.run({"x": numbers(2, 3), "w": numbers(3, 2)}, ["Y"])


def test_what_an_optional_holds_comes_out_as_it_went_in():
    proto = model(
        [node("Optional", "x", "held"), node("OptionalGetElement", "held", "y")],
        {"x": (FLOAT, [3])},
        {"y": FLOAT},
    )
    np.testing.assert_array_equal(ReferenceSession(proto).run({"x": numbers(3)})["y"], numbers(3))
