"""Rows for the operators of Detectron's library."""

from __future__ import annotations

import numpy as np

from tests.caffe2.layer_cases import region_maxima
from tests.caffe2.operator_cases import Array, Blobs, Case, sigmoid

_random = np.random.default_rng(71)


def draws(*shape: int) -> Array:
    return _random.normal(size=shape)


def smooth(x: Array, beta: float) -> Array:
    return np.where(np.abs(x) < beta, 0.5 * x**2 / beta, np.abs(x) - 0.5 * beta)


def box_loss(g: Blobs) -> dict[str, Array]:
    wanted, inside, outside = (g[name].reshape(g["x"].shape) for name in ("t", "i", "o"))
    losses = smooth((g["x"] - wanted) * inside, 0.4) * outside
    return {"y": losses.sum() * 3 / len(g["x"])}


def chosen_box_loss(g: Blobs) -> dict[str, Array]:
    total = 0.0
    for wanted, (image, channel, row, column) in zip(g["t"], g["p"].astype(int), strict=True):
        total += smooth(g["x"][image, channel : channel + 4, row, column] - wanted, 0.3).sum()
    return {"y": np.asarray(2 * total / max(float(g["n"].item()), 1))}


def entropies(g: Blobs) -> Array:
    p, labels = sigmoid(g["x"]), g["t"].reshape(g["x"].shape)
    right = labels * np.log(p) + (1 - labels) * np.log(1 - p)
    return np.where(labels == -1, 0, -right)


def focal_of_each(g: Blobs) -> dict[str, Array]:
    """Two anchors with three classes, numbered from 1."""
    total = 0.0
    for n, channel, row, column in np.ndindex(g["x"].shape):
        p, label = sigmoid(g["x"][n, channel, row, column]), g["t"][n, channel // 3, row, column]
        if label == channel % 3 + 1:
            total -= 0.3 * (1 - p) ** 2 * np.log(p)
        elif label != -1:
            total -= 0.7 * p**2 * np.log(1 - p)
    return {"y": np.asarray(5 * total / max(float(g["n"].item()), 1))}


def by_anchors(x: Array) -> Array:
    """The probabilities of three classes for each of two anchors."""
    powers = np.exp(x.reshape(x.shape[0], 2, 3, *x.shape[2:]))
    return powers / powers.sum(2, keepdims=True)


def focal_of_all(g: Blobs) -> dict[str, Array]:
    """The first class is the background."""
    p, total = by_anchors(g["x"]), 0.0
    for n, anchor, row, column in np.ndindex(g["t"].shape):
        label = g["t"][n, anchor, row, column]
        if label >= 0:
            right = p[n, anchor, label, row, column]
            total -= (0.3 if label else 0.7) * (1 - right) ** 2 * np.log(right)
    return {"y": np.asarray(5 * total / max(float(g["n"].item()), 1)), "p": p.reshape(-1)}


LABELS = np.array([1, 0, -1, 0, 1, 1, 0, -1], np.int32)
PLACES = np.array([[0, 0, 1, 1], [1, 4, 0, 0], [1, 0, 1, 0]], np.float64)
CLASSES = np.array([[[[1, -1], [0, 3]], [[2, 0], [0, 1]]]], np.int32)
KINDS = np.array([[[[1, -1], [0, 2]], [[2, 0], [0, 1]]]], np.int32)

DETECTION = [
    Case(
        "UpsampleNearest(x)->(y) {scale=3}",
        {"x": draws(2, 2, 2, 3)},
        lambda g: {"y": g["x"].repeat(3, 2).repeat(3, 3)},
    ),
    Case("UpsampleNearest(x)->(y)", {"x": draws(2, 2, 3)}, lambda g: {"y": g["x"].repeat(2, 1).repeat(2, 2)}),
    Case(
        "SpatialNarrowAs(x,like)->(y)",
        {"x": draws(1, 2, 4, 5), "like": draws(1, 3, 2, 4)},
        lambda g: {"y": g["x"][:, :, :2, :4]},
    ),
    Case(
        "SpatialNarrowAs(x,like)->(y)",
        {"x": np.arange(20, dtype=np.int32).reshape(1, 4, 5), "like": draws(1, 3, 2, 4)},
        lambda g: {"y": g["x"][:, :2, :4]},
        (),
    ),
    Case(
        "SampleAs(x,t)->(y)",
        {"x": draws(4, 2, 3), "t": np.array([1, 0, -1, 2], np.int32)},
        lambda g: {"y": g["x"][[0, 3]]},
    ),
    Case(
        "RoIPoolF(x,r)->(y,a) {spatial_scale=1.5,pooled_h=3,pooled_w=3}",
        {
            "x": _random.permutation(168).reshape(2, 2, 6, 7) * 0.1,
            "r": np.array([[1, 0.5, 1.2, 4.1, 3.9], [0, 4.0, 0.3, 6.2, 5.1]]),
        },
        lambda g: region_maxima(g, 1.5, 3),
    ),
    Case(
        "SmoothL1Loss(x,t,i,o)->(y) {beta=0.4,scale=3.0}",
        {"x": draws(2, 6), "t": draws(2, 2, 3), "i": np.abs(draws(2, 6)), "o": np.abs(draws(2, 6))},
        box_loss,
    ),
    Case(
        "SelectSmoothL1Loss(x,t,p,n)->(y) {beta=0.3,scale=2.0}",
        {"x": draws(2, 8, 2, 2), "t": draws(3, 4), "p": PLACES, "n": np.array([5.0])},
        chosen_box_loss,
    ),
    Case(
        "SelectSmoothL1Loss(x,t,p,n)->(y) {beta=0.3,scale=2.0}",
        {"x": draws(2, 8, 2, 2), "t": np.zeros((0, 4)), "p": np.zeros((0, 4)), "n": np.zeros(1)},
        chosen_box_loss,
    ),
    Case(
        "SigmoidCrossEntropyLoss(x,t)->(y) {scale=2.0}",
        {"x": draws(2, 4), "t": LABELS},
        lambda g: {"y": 2 * entropies(g).sum() / 6},
    ),
    Case(
        "SigmoidCrossEntropyLoss(x,t)->(y) {scale=2.0,normalize=0}",
        {"x": np.array([[0.0, 0.5, 3.0, -2.0], [0.0, -0.1, 0.4, 0.0]]), "t": LABELS.reshape(2, 4)},
        lambda g: {"y": 2 * entropies(g).sum()},
    ),
    Case(
        "SigmoidCrossEntropyLoss(x,t)->(y)",
        {"x": draws(3), "t": np.array([-1, -1, -1], np.int32)},
        lambda g: {"y": np.zeros(())},
    ),
    Case(
        "SigmoidFocalLoss(x,t,n)->(y) {num_classes=3,gamma=2.0,alpha=0.3,scale=5.0}",
        {"x": draws(1, 6, 2, 2), "t": CLASSES, "n": np.array([4.0])},
        focal_of_each,
    ),
    Case(
        "SigmoidFocalLoss(x,t,n)->(y) {num_classes=3,gamma=2.0,alpha=0.3,scale=5.0}",
        {"x": draws(1, 6, 2, 2), "t": CLASSES, "n": np.array([0.0])},
        focal_of_each,
    ),
    Case(
        "SoftmaxFocalLoss(x,t,n)->(y,p) {num_classes=3,gamma=2.0,alpha=0.3,scale=5.0}",
        {"x": draws(1, 6, 2, 2), "t": KINDS, "n": np.array([4.0])},
        focal_of_all,
    ),
    Case(
        "GroupSpatialSoftmax(x)->(y) {num_classes=3}",
        {"x": draws(2, 6, 2, 3)},
        lambda g: {"y": by_anchors(g["x"]).reshape(g["x"].shape)},
    ),
]
