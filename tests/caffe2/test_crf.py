"""A conditional random field against sums over all of its paths."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, gradient_checker, workspace
from netgrad.caffe2.python.crf import CRFWithLoss
from netgrad.caffe2.python.crf_predict import apply_crf
from netgrad.caffe2.python.model_helper import ModelHelper

_random = np.random.default_rng(3)


def _score(scores: Any, transitions: Any, path: Any) -> float:
    """The score of a path between begin and end."""
    count = scores.shape[1]
    whole = [count, *path, count + 1]
    own = sum(float(row[k]) for row, k in zip(scores, path, strict=True))
    return own + sum(float(transitions[a, b]) for a, b in pairwise(whole))


def _field(steps: int, count: int) -> tuple[Any, Any]:
    scores = _random.standard_normal((steps, count)).astype(np.float32)
    return scores, _random.standard_normal((count + 2, count + 2)).astype(np.float32)


@pytest.mark.parametrize(("steps", "count"), [(1, 2), (3, 2), (4, 3), (3, 1)])
def test_the_loss_and_its_gradients(steps: int, count: int) -> None:
    scores, transitions = _field(steps, count)
    labels = _random.integers(0, count, steps)

    def loss() -> float:
        values = [_score(scores, transitions, path) for path in product(range(count), repeat=steps)]
        return float(np.log(np.exp(values).sum())) - _score(scores, transitions, labels)

    model = ModelHelper("m")
    names = model.net.AddExternalInputs("scores", "labels", "crf_transitions")
    for name, array in zip(names, (scores, labels, transitions), strict=True):
        workspace.FeedBlob(name, array)
    out = CRFWithLoss(model, count, names[2]).crf_loss(names[0], names[1])
    gradients = model.net.AddGradientOperators([out])
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob(out) == pytest.approx(loss(), abs=1e-4)
    for name, array in ((names[0], scores), (names[2], transitions)):
        found = workspace.FetchBlob(gradients[name])
        slopes = np.zeros_like(array)
        for at in np.ndindex(array.shape):
            kept = array[at]
            sides = []
            for step in (0.01, -0.01):
                array[at] = kept + step
                sides.append(loss())
            array[at] = kept
            slopes[at] = (sides[0] - sides[1]) / 0.02
        np.testing.assert_allclose(found, slopes, atol=1e-3)


def test_the_recurrent_net_alone() -> None:
    model = ModelHelper("m")
    _, matrix = _field(3, 2)
    blobs = {
        "sequence": _random.standard_normal((3, 1, 4)).astype(np.float32),
        "start": _random.standard_normal((1, 4)).astype(np.float32),
        "crf_transitions": matrix,
    }
    names = model.net.AddExternalInputs(*blobs)
    CRFWithLoss(model, 2, names[2]).build_crf_net(*names)
    workspace.RunNetOnce(model.param_init_net)
    op = model.net.Proto().op[-1]
    assert op.type == "RecurrentNetwork"
    inputs = [blobs[name] if name in blobs else workspace.FetchBlob(name) for name in op.input]
    for name in blobs:
        at = list(op.input).index(name)
        assert gradient_checker.GradientChecker(1e-2, 1e-2).CheckSimple(op, inputs, at, [1])[0], name


def test_a_field_has_transitions_of_its_own() -> None:
    model = ModelHelper("m")
    field = CRFWithLoss(model, 3)
    workspace.RunNetOnce(model.param_init_net)
    values = workspace.FetchBlob(field.transitions)
    assert values.shape == (5, 5)
    assert np.abs(values).max() <= 1
    assert field.transitions in model.params


def test_scores_agree_with_the_best_path() -> None:
    scores, transitions = _field(5, 3)
    best = max(product(range(3), repeat=5), key=lambda path: _score(scores, transitions, path))
    expected = scores.copy()
    for row, k in zip(expected, best, strict=True):
        top = int(row.argmax())
        row[k], row[top] = row[top], row[k]
    net, init_net = core.Net("n"), core.Net("init")
    names = net.AddExternalInputs("scores", "transitions")
    for name, array in zip(names, (scores, transitions), strict=True):
        workspace.FeedBlob(name, array)
    out = apply_crf(init_net, net, names[1], names[0], 3)
    workspace.RunNetOnce(init_net)
    workspace.RunNetOnce(net)
    np.testing.assert_allclose(workspace.FetchBlob(out), expected, rtol=1e-6)
    model = ModelHelper("m")
    names = model.net.AddExternalInputs("scores", "transitions")
    updated = CRFWithLoss(model, 3, names[1]).update_predictions(names[0])
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(updated), expected, rtol=1e-6)


def test_paths_that_do_not_fit() -> None:
    workspace.FeedBlob("x", np.zeros((2, 3), np.float32))
    workspace.FeedBlob("t", np.zeros((2, 2), np.float32))
    workspace.FeedBlob("i", np.zeros(1, np.int32))
    for op in (
        core.CreateOperator("ViterbiPath", ["x", "t"], "y"),
        core.CreateOperator("SwapBestPath", ["x", "i"], "y"),
    ):
        with pytest.raises(RuntimeError, match="don't fit"):
            workspace.RunOperatorOnce(op)
