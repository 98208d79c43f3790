"""What is added to nets that were built: measures of blobs, and clipped gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.compute_histogram_for_blobs import ComputeHistogramForBlobs
from netgrad.caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs
from netgrad.caffe2.python.modeling.compute_statistics_for_blobs import ComputeStatisticsForBlobs
from netgrad.caffe2.python.modeling.get_entry_from_blobs import GetEntryFromBlobs
from netgrad.caffe2.python.modeling.net_modifier import NetModifier

Array = np.ndarray[Any, Any]


def _measured(modifier: NetModifier, result: str, runs: int = 1) -> tuple[ModelHelper, Array, Array]:
    """The model, the weight of its first layer, and what was computed of it."""
    model = ModelHelper("measured")
    brew.fc(model, "data", "fc1", dim_in=4, dim_out=3)
    brew.fc(model, "fc1", "fc2", dim_in=3, dim_out=2)
    modifier(model.net, modify_output_record=True)
    workspace.FeedBlob("data", np.ones((5, 4), np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, runs)
    return model, workspace.FetchBlob("fc1_w"), workspace.FetchBlob(result)


BLOBS = ["fc1_w", "fc2_w"]


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("p", [1, 2])
def test_norms(p: int, average: bool, capsys: pytest.CaptureFixture[str]) -> None:
    name = f"fc1_w{'_averaged' if average else ''}_l{p}_norm"
    modifier = ComputeNormForBlobs(BLOBS, 10, p=p, compute_averaged_norm=average)
    model, weight, norm = _measured(modifier, name)
    expected = np.sum(np.abs(weight) ** p) / (weight.size if average else 1)
    np.testing.assert_allclose(norm, [expected], rtol=1e-5)
    assert [op.type for op in model.net.Proto().op[2:6]] == ["Cast", "LpNorm", "StopGradient", "Print"]
    assert len(model.net.Proto().op) == 10
    fields = model.net.output_record().field_blobs()
    assert fields == [name, name.replace("fc1", "fc2")]
    assert "_norm" in capsys.readouterr().out


def test_the_norm_of_a_row() -> None:
    _, weight, norm = _measured(ComputeNormForBlobs(["fc1_w"], -1, row_index=1), "fc1_w_row_1_l2_norm")
    np.testing.assert_allclose(norm, [np.sum(weight[1] ** 2)], rtol=1e-5)
    with pytest.raises(Exception, match="-1 is not a valid row index"):
        ComputeNormForBlobs(["fc1_w"], 1, row_index=-1)


def test_statistics() -> None:
    modifier = ComputeStatisticsForBlobs(BLOBS, 10)
    model, weight, summary = _measured(modifier, "fc1_w_summary")
    np.testing.assert_allclose(
        summary, [weight.min(), weight.max(), weight.mean(), weight.std(ddof=1)], rtol=1e-5, atol=1e-6
    )
    assert len(model.net.Proto().op) == 8
    assert model.net.output_record().field_names() == ["fc1_w_summary", "fc2_w_summary"]


@pytest.mark.parametrize("accumulate", [False, True])
def test_histograms(accumulate: bool) -> None:
    modifier = ComputeHistogramForBlobs(BLOBS, 10, 6, -0.4, 0.5, accumulate=accumulate)
    name = f"fc1_w{modifier.field_name_suffix()}"
    model, weight, shares = _measured(modifier, name, runs=2)
    counts = np.histogram(weight, bins=np.concatenate([[-9], np.linspace(-0.4, 0.5, 7), [9]]))[0]
    np.testing.assert_allclose(shares, counts / weight.size, rtol=1e-6)
    np.testing.assert_array_equal(workspace.FetchBlob("fc1_w_curr_hist"), counts)
    np.testing.assert_array_equal(workspace.FetchBlob("fc1_w_acc_hist"), 2 * counts)
    assert len(model.net.Proto().op) == 12
    with pytest.raises(AssertionError, match="num_buckets"):
        ComputeHistogramForBlobs(BLOBS, 10, 0)


@pytest.mark.parametrize(("column", "ending"), [(3, "2_3"), (-1, "2_all")])
def test_entries(column: int, ending: str) -> None:
    modifier = GetEntryFromBlobs(["fc1_w"], 1, i1=2, i2=column)
    _, weight, entry = _measured(modifier, f"fc1_w_{ending}")
    np.testing.assert_array_equal(entry, weight[2:3, :] if column < 0 else weight[2:3, 3:4])
    with pytest.raises(ValueError, match="out of range"):
        GetEntryFromBlobs(["fc1_w"], 1, i1=-1)


def test_blobs_have_to_be_there() -> None:
    with pytest.raises(AssertionError, match="blob no_blob is not defined in net"):
        ComputeStatisticsForBlobs(["no_blob"], 1)(core.Net("empty"))


@pytest.mark.parametrize(
    ("x", "arguments", "text"),
    [
        (np.ones(2, np.float32), {"lower_bound": 1.0}, "a bucket and a range"),
        (np.ones(2, np.int32), {}, "int32"),
        (np.array([np.nan], np.float32), {}, "NaN"),
    ],
)
def test_what_no_histogram_is_made_of(x: Array, arguments: dict[str, Any], text: str) -> None:
    workspace.FeedBlob("x", x)
    operator = core.CreateOperator("AccumulateHistogram", ["x"], ["counts", "all"], **arguments)
    with pytest.raises(Exception, match=text):
        workspace.RunOperatorOnce(operator)
