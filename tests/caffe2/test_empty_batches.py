"""Operators on images that are none: outputs are empty, and gradients of weights are zeros."""

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
