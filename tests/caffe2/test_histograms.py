"""Histograms, quantiles and percentiles, against NumPy's and by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _run(type_: str, inputs: list[Any], outputs: int, **arguments: Any) -> list[Any]:
    for at, array in enumerate(inputs):
        workspace.FeedBlob(f"x{at}", array)
    names = [f"y{at}" for at in range(outputs)]
    read = [f"x{at}" for at in range(len(inputs))]
    workspace.RunOperatorOnce(core.CreateOperator(type_, read, names, **arguments))
    return [workspace.FetchBlob(name) for name in names]


def test_elements_outside_of_all_bins_do_not_count() -> None:
    x = np.array([[-1, 0, 0.5], [1, 2, np.nan]], np.float32)
    (counts,) = _run("Histogram", [x, np.array([1.5], np.float32)], 1, bin_edges=[0.0, 1.0, 2.0])
    np.testing.assert_array_equal(counts, [2, 2])


@pytest.mark.parametrize(
    ("edges", "message"),
    [([1.0], "Number of bin edges must be"), ([1.0, 1.0], "strictly increasing sequence of values")],
)
def test_bins_have_edges(edges: list[float], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        _run("Histogram", [np.zeros(1, np.float32)], 1, bin_edges=edges)


def test_bins_of_a_kind() -> None:
    with pytest.raises(RuntimeError, match="float32, float64"):
        _run("Histogram", [np.zeros(1, np.float32), np.zeros(1)], 1, bin_edges=[0.0, 1.0])


def test_own_bins_at_equal_distances() -> None:
    x = np.random.default_rng(1).normal(size=50)
    edges, counts = _run("SelfBinningHistogram", [x[:20], x[20:]], 2, num_bins=4)
    top = x.max() + (x.max() - x.min()) * 1e-4
    np.testing.assert_allclose(edges, np.linspace(x.min(), top, 5), rtol=1e-6)
    np.testing.assert_array_equal(counts, [*np.histogram(x, edges)[0], 0])


def test_own_bins_in_equal_proportions() -> None:
    x = np.array([-3.0, 0.5, 1.5, 4.5, 16.0])
    edges, counts = _run(
        "SelfBinningHistogram",
        [x],
        2,
        num_bins=4,
        bin_spacing="logarithmic",
        logspacing_start=1.0,
        abs=0,
    )
    np.testing.assert_allclose(edges[1:] / edges[:-1], 2, rtol=1e-3)
    np.testing.assert_array_equal(counts, [3, 0, 1, 1, 0])
    _, counts = _run("SelfBinningHistogram", [x], 2, num_bins=3, abs=1)
    np.testing.assert_array_equal(counts, [4, 0, 1, 0])


def test_own_bins_of_equal_elements_and_of_none() -> None:
    edges, counts = _run("SelfBinningHistogram", [np.ones(3)], 2, num_bins=2)
    np.testing.assert_array_equal(edges, [1, 1, 1])
    np.testing.assert_array_equal(counts, [3, 0, 0])
    _, counts = _run("SelfBinningHistogram", [np.zeros(0)], 2, num_bins=2)
    np.testing.assert_array_equal(counts, [0, 0, 0])
    for arguments, message in (
        ({"num_bins": 0}, "Number of bins must be"),
        ({"num_bins": 1, "bin_spacing": "square"}, "one of 'linear' or 'logarithmic'"),
        ({"num_bins": 1, "logspacing_start": 0.0}, "must be greater than 0"),
    ):
        with pytest.raises(RuntimeError, match=message):
            _run("SelfBinningHistogram", [np.ones(3)], 2, **arguments)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("sizes", [0, 1])
def test_a_quantile_is_one_to_its_tolerance(share: float, sizes: int) -> None:
    x = np.random.default_rng(2).normal(size=200)
    (found,) = _run("Quantile", [x[:90], x[90:]], 1, quantile=share, abs=sizes, tol=1e-5)
    values = np.sort(np.abs(x) if sizes else x)
    wanted = int(np.ceil(200 * float(np.float32(share))))  # what the argument holds
    assert found.shape == (1,)
    assert (values <= found[0]).sum() >= wanted
    assert (values <= found[0] - 1e-4 * abs(found[0])).sum() <= wanted


def test_quantiles_that_are_none() -> None:
    for arguments, message in (({}, "must lie between"), ({"quantile": 0.5, "tol": 0.0}, "must be positive")):
        with pytest.raises(RuntimeError, match=message):
            _run("Quantile", [np.ones(3)], 1, **arguments)
    with pytest.raises(RuntimeError, match="have no elements"):
        _run("Quantile", [np.ones(0)], 1, quantile=0.5)


def test_percentiles_lie_on_lines_between_known_ones() -> None:
    values = np.array([[2, 0], [1, 5], [9, 3]], np.float32)
    pairs = np.array([[1, 0.2], [3, 0.6], [2, 0.5], [4, 0.7]], np.float32)
    (found,) = _run("Percentile", [values, pairs, np.array([2, 2], np.int32)], 1)
    np.testing.assert_allclose(found, [[0.4, 0], [0.2, 1], [1, 0.6]], rtol=1e-6)
    with pytest.raises(RuntimeError, match="1 distributions for values of shape"):
        _run("Percentile", [values, pairs, np.array([4], np.int32)], 1)
    with pytest.raises(RuntimeError, match="don't make up the 4 pairs"):
        _run("Percentile", [values, pairs, np.array([2, 1], np.int32)], 1)


def test_percentiles_of_distributions_that_jump() -> None:
    values = np.array([[1.5], [1], [9], [0], [3], [2.5]], np.float32)
    known = {
        "percentile_raw": [1.0, 2.0, 3.0],
        "percentile_mapping": [0.1, 0.5, 0.9],
        "percentile_lower": [0.1, 0.4, 0.9],
        "percentile_upper": [0.2, 0.5, 1.0],
    }
    (found,) = _run("BisectPercentile", [values], 1, lengths=[3], **known)
    np.testing.assert_allclose(found[:, 0], [0.3, 0.1, 1, 0, 0.9, 0.7], rtol=1e-6)
    with pytest.raises(RuntimeError, match="have 3, 3, 3, 2 elements"):
        _run("BisectPercentile", [values], 1, lengths=[3], **{**known, "percentile_upper": [0.2, 0.5]})


def test_the_shape_of_percentiles_is_inferred() -> None:
    net = core.Net("percentiles")
    net.Percentile(["v", "p", "l"], ["y"])
    shapes, types = workspace.InferShapesAndTypes([net], {"v": [3, 2], "p": [4, 2], "l": [2]})
    assert shapes["y"] == [3, 2]
    assert types["y"] == core.DataType.FLOAT
