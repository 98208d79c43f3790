"""Regularizers: their terms against formulas, and what they do after an update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, regularizer, workspace
from netgrad.caffe2.python.regularizer_context import RegularizerContext, UseRegularizer

W = np.array([[1.0, -2.0, 0.5], [3.0, 0.25, -4.0]], np.float32)

TERMS: list[tuple[regularizer.Regularizer, Callable[[], Any]]] = [
    (regularizer.L1Norm(0.5), lambda: 0.5 * np.abs(W).sum()),
    (regularizer.L2Norm(0.5), lambda: 0.5 * (W**2).sum()),
    # the largest of each row are left out
    (regularizer.L1NormTrimmed(0.5, 2), lambda: 0.5 * (np.abs(W).sum() - (1 + 2) - (3 + 4))),
    (regularizer.ElasticNet(0.5, 0.25), lambda: 0.5 * np.abs(W).sum() + 0.25 * (W**2).sum()),
    (
        regularizer.ElasticNetL1NormTrimmed(0.5, 0.25, 1),
        lambda: 0.5 * (np.abs(W).sum() - 2 - 4) + 0.25 * (W**2).sum(),
    ),
    (
        regularizer.LpNorm(0.5, 0.5),
        lambda: 0.5 * np.sqrt(np.sqrt((W**2).sum(0))).sum() ** 2,
    ),
    (
        regularizer.L0ApproxNorm(0.5, alpha=3.2),
        lambda: 0.5 * np.minimum(np.linalg.norm(W, axis=0) / 3.2, 1).sum(),
    ),
    (
        regularizer.L0ApproxNorm(0.5, alpha=3.2, budget=2.25),
        lambda: 0.5 * (np.minimum(np.linalg.norm(W, axis=0) / 3.2, 1).sum() - 2.25),
    ),
    (regularizer.L0ApproxNorm(0.5, budget=3), lambda: 0),
    (
        regularizer.GroupL1Norm(0.5, [2, 1], 1e-8),
        lambda: 0.5 * (np.sqrt(2) * np.linalg.norm(W[:, :2]) + np.linalg.norm(W[:, 2])),
    ),
    (
        regularizer.LogBarrier(0.5),
        lambda: -0.5 / 2 * np.log(np.maximum(W, 1e-9)).sum(),  # the first iteration is the second number
    ),
]


@pytest.mark.parametrize(("made", "formula"), TERMS, ids=lambda one: type(one).__name__)
def test_terms(made: regularizer.Regularizer, formula: Callable[[], Any]) -> None:
    init, net = core.Net("init"), core.Net("net")
    workspace.FeedBlob("w", W)
    blob = made(net, init, core.BlobReference("w"), by=regularizer.RegularizationBy.ON_LOSS)
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(blob), formula(), rtol=1e-5)


def _after(made: regularizer.Regularizer, sparse: bool) -> Any:
    net = core.Net("after")
    workspace.FeedBlob("w", W)
    workspace.FeedBlob("i", np.array([1], np.int64))
    workspace.FeedBlob("g", W[1:])
    grad = core.GradientSlice("i", "g") if sparse else core.BlobReference("g")
    made(net, net, core.BlobReference("w"), grad, by="after_optimizer")
    workspace.RunNetOnce(net)
    return workspace.FetchBlob("w")


def test_after_an_update() -> None:
    within = regularizer.BoundedGradientProjection(lb=-1, ub=2)
    np.testing.assert_array_equal(_after(within, False), np.clip(W, -1, 2))
    np.testing.assert_array_equal(_after(within, True), [W[0], [2, 0.25, -1]])
    length = np.linalg.norm(W[1])
    np.testing.assert_allclose(_after(regularizer.MaxNorm(2.0), True), [W[0], W[1] * 2 / length], rtol=1e-6)
    np.testing.assert_array_equal(_after(regularizer.MaxNorm(9.0), True), W)
    np.testing.assert_allclose(_after(regularizer.ConstantNorm(9.0), True)[1], W[1] * 9 / length, rtol=1e-6)
    assert (_after(regularizer.LogBarrier(1.0), False) > 0).all()
    shrunk = np.sign(W[1]) * np.maximum(np.abs(W[1]) - 0.5, 0)
    np.testing.assert_allclose(_after(regularizer.SparseL1Norm(0.5), True), [W[0], shrunk], rtol=1e-6)
    np.testing.assert_allclose(_after(regularizer.SparseL2Norm(0.5), True), [W[0], W[1] / 2], rtol=1e-6)


def test_rows_of_half_precision_have_at_most_a_norm() -> None:
    net = core.Net("half")
    workspace.FeedBlob("w", W.astype(np.float16))
    workspace.FeedBlob("i", np.array([1], np.int64))
    rows = core.GradientSlice("i", "g")
    regularizer.MaxNorm(2.0, dtype="fp16")(net, net, core.BlobReference("w"), rows, by="after_optimizer")
    workspace.RunNetOnce(net)
    found = workspace.FetchBlob("w")
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, [W[0], W[1] * 2 / np.linalg.norm(W[1])], rtol=1e-3)


def test_what_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="ConstantNorm changes rows of sparse parameters"):
        _after(regularizer.ConstantNorm(), False)
    for kind in (regularizer.SparseL1Norm(0.5), regularizer.MaxNorm()):
        with pytest.raises(NotImplementedError, match="a dense one has none"):
            _after(kind, False)
    with pytest.raises(AssertionError, match="not by 'never'"):
        regularizer.L1Norm(1.0)(core.Net("n"), core.Net("i"), core.BlobReference("w"), by="never")
    with pytest.raises(AssertionError, match="nothing is between the bounds lb=1 and ub=1"):
        regularizer.BoundedGradientProjection(lb=1, ub=1, left_open=True)


def test_regularizers_of_blocks() -> None:
    with UseRegularizer(regularizer.L2Norm(0.1)):
        assert RegularizerContext.current().get_regularizer("DEFAULT").reg_lambda == 0.1
    assert not RegularizerContext.current().has_regularizer("DEFAULT")
