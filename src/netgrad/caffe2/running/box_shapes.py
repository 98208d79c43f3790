"""Boxes of detectors as shapes: moving, turning and cutting them, and choosing among those that overlap.

Boxes are x1, y1, x2, y2; ``plus`` is how much wider a box is than the distance of its corners, 1 where both
lie inside. Rotated ones are centre, width, height and an angle in degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from netgrad.caffe2.running.blob import Array

_LARGEST_GROWTH = math.log(1000 / 16)  # of the logarithm of a size

Decay = Callable[[Array], Array]
"""Factors of the scores of boxes, by how far they overlap one that was chosen."""


def transformed(boxes: Array, deltas: Array, weights: Sequence[float], plus: int) -> Array:
    """Boxes moved by shares of their sizes, and scaled by exponentials; deltas come over their weights."""
    sizes = boxes[:, 2:] - boxes[:, :2] + plus
    centres = boxes[:, :2] + sizes * 0.5
    middles, sizes = _moved(centres, sizes, deltas, weights)
    return np.concatenate([middles - sizes * 0.5, middles + sizes * 0.5 - plus], 1)


def turned(
    boxes: Array, deltas: Array, weights: Sequence[float], bounds: tuple[float, float] | None
) -> Array:
    """Rotated boxes, moved, scaled and turned by radians; angles outside of the bounds by one period back."""
    middles, sizes = _moved(boxes[:, :2], boxes[:, 2:4], deltas, weights)
    angles = boxes[:, 4] + np.degrees(deltas[:, 4])
    if bounds is not None:
        low, high = bounds
        angles = angles + (high - low) * ((angles < low).astype(angles.dtype) - (angles > high))
    return np.concatenate([middles, sizes, angles[:, None]], 1)


def _moved(centres: Array, sizes: Array, deltas: Array, weights: Sequence[float]) -> tuple[Array, Array]:
    moves = deltas[:, :2] / np.asarray(weights[:2], deltas.dtype)
    growths = np.minimum(deltas[:, 2:4] / np.asarray(weights[2:], deltas.dtype), _LARGEST_GROWTH)
    return centres + moves * sizes, np.exp(growths) * sizes


def clipped(boxes: Array, height: int, width: int, plus: int) -> Array:
    """Boxes cut where their image ends."""
    limits = np.array([width, height, width, height]) - plus
    return np.clip(boxes, 0, limits).astype(boxes.dtype)


def clipped_upright(boxes: Array, height: int, width: int, plus: int, tolerance: float) -> Array:
    """Rotated boxes, of which those whose angle is at most some degrees are cut where their image ends."""
    upright = np.abs(boxes[:, 4]) <= tolerance
    centres, reach = boxes[upright, :2], (boxes[upright, 2:4] - plus) / 2
    corners = clipped(np.concatenate([centres - reach, centres + reach], 1), height, width, plus)
    found = boxes.copy()
    found[upright, :2] = (corners[:, :2] + corners[:, 2:]) / 2
    found[upright, 2:4] = corners[:, 2:] - corners[:, :2] + plus
    return found


def _overlaps(box: Array, boxes: Array, plus: int) -> Array:
    """The area that each of the boxes shares with one, by the area that the two cover."""
    low, high = np.maximum(box[:2], boxes[:, :2]), np.minimum(box[2:], boxes[:, 2:])
    shared = np.prod(np.maximum(high - low + plus, 0), axis=1)
    areas = np.prod(boxes[:, 2:] - boxes[:, :2] + plus, axis=1)
    return np.asarray(shared / (np.prod(box[2:] - box[:2] + plus) + areas - shared))


def kept(boxes: Array, scores: Array, threshold: float, plus: int, most: int = -1) -> Array:
    """Greedily from the highest score on, the boxes that overlap no kept one by more than a threshold."""
    order = np.argsort(-scores, kind="stable")
    found: list[int] = []
    while order.size and (most < 0 or len(found) < most):
        first, rest = order[0], order[1:]
        found.append(first)
        order = rest[_overlaps(boxes[first], boxes[rest], plus) <= threshold]
    return np.array(found, np.int64)


def kept_softly(boxes: Array, scores: Array, decay: Decay, least: float, plus: int) -> tuple[Array, Array]:
    """Greedily from the highest score on, where a box that is chosen lowers the scores of those it overlaps.

    Args:
        boxes: The boxes.
        scores: Their scores.
        decay: By what scores are multiplied.
        least: Boxes whose score becomes lower are dropped.
        plus: See above.

    Returns:
        The places of the boxes in order, and their scores.
    """
    left, scores = np.arange(len(boxes)), scores.copy()
    found: list[int] = []
    while left.size:
        at = int(np.argmax(scores[left]))
        first, left = left[at], np.delete(left, at)
        found.append(first)
        scores[left] *= decay(_overlaps(boxes[first], boxes[left], plus))
        left = left[scores[left] >= least]
    places = np.array(found, np.int64)
    return places, scores[places]
