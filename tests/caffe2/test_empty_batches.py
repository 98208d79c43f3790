"""Operators on no images and on no rows: outputs are empty, gradients zeros, parameters as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _zeros(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


def _ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


@pytest.mark.parametrize(
    ("type_", "arguments", "blobs", "shape"),
    [
        (
            "Conv",
            {"kernel": 3},
            {"x": _zeros(0, 2, 5, 5), "w": _ones(4, 2, 3, 3), "b": _ones(4)},
            (0, 4, 3, 3),
        ),
        (
            "Conv",
            {"kernel": 3, "group": 2},
            {"x": _zeros(0, 4, 5, 5), "w": _ones(6, 2, 3, 3), "b": _ones(6)},
            (0, 6, 3, 3),
        ),
        (
            "Conv",
            {"kernel": 1, "group": 2, "order": "NHWC"},
            {"x": _zeros(0, 5, 5, 4), "w": _ones(6, 1, 1, 2)},
            (0, 5, 5, 6),
        ),
        (
            "Conv",
            {"kernels": [2, 2, 2]},
            {"x": _zeros(0, 2, 3, 3, 3), "w": _ones(4, 2, 2, 2, 2)},
            (0, 4, 2, 2, 2),
        ),
        (
            "ConvTranspose",
            {"kernel": 2, "stride": 2, "group": 2},
            {"x": _zeros(0, 4, 3, 3), "w": _ones(4, 3, 2, 2), "b": _ones(6)},
            (0, 6, 6, 6),
        ),
        ("ChannelShuffle", {"group": 2}, {"x": _zeros(0, 6, 2, 2)}, (0, 6, 2, 2)),
        ("ChannelShuffle", {"group": 2, "order": "NHWC"}, {"x": _zeros(0, 2, 2, 6)}, (0, 2, 2, 6)),
    ],
)
def test_no_images(type_: str, arguments: dict[str, Any], blobs: dict[str, Any], shape: Any) -> None:
    operator = core.CreateOperator(type_, list(blobs), ["y"], **arguments)
    gradient_operators, gradients = core.GradientRegistry.GetBackwardPass([operator], {"y": "y_grad"})
    for name, array in blobs.items():
        workspace.FeedBlob(name, array)
    workspace.FeedBlob("y_grad", _zeros(*shape))
    workspace.RunOperatorsOnce([operator, *gradient_operators])
    assert workspace.FetchBlob("y").shape == shape
    assert set(gradients) >= set(blobs)
    for name, array in blobs.items():
        np.testing.assert_array_equal(workspace.FetchBlob(gradients[name]), np.zeros_like(array))


@pytest.mark.parametrize(
    ("type_", "inputs", "changed"),
    [
        ("SparseAdagrad", ["w", "h", "i", "g", "lr"], ["w", "h"]),
        ("RowWiseSparseAdagrad", ["w", "rows", "i", "g", "lr"], ["w", "rows"]),
        ("SparseAdam", ["w", "h", "v", "i", "g", "lr", "iteration"], ["w", "h", "v"]),
        ("RowWiseSparseAdam", ["w", "h", "rows", "i", "g", "lr", "iteration"], ["w", "h", "rows"]),
        ("SparseMomentumSGDUpdate", ["g", "h", "lr", "w", "i"], ["g", "h", "w"]),
        ("ScatterWeightedSum", ["w", "one", "i", "g", "lr"], ["w"]),
    ],
)
@pytest.mark.parametrize("dims", [(), (4,), (2, 3)])
def test_no_rows_are_updated(type_: str, inputs: list[str], changed: list[str], dims: Any) -> None:
    random = np.random.default_rng(0)
    blobs = {
        **{name: random.uniform(1, 2, (5, *dims)).astype(np.float32) for name in "whv"},
        "rows": random.uniform(1, 2, 5).astype(np.float32),
        "g": _zeros(0, *dims),
        "i": np.zeros(0, np.int64),
        "lr": _ones(1),
        "one": _ones(1),
        "iteration": np.array([3], np.int64),
    }
    for name in inputs:
        workspace.FeedBlob(name, blobs[name])
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs, changed))
    for name in changed:
        np.testing.assert_array_equal(workspace.FetchBlob(name), blobs[name])
