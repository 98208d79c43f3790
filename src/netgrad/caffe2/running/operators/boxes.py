"""Boxes of detectors: transformed by deltas, chosen by scores, and proposed for regions.

Boxes are x1, y1, x2, y2 with both corners inside: a box is x2 - x1 + 1 wide, unless ``legacy_plus_one`` is 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_LARGEST_GROWTH = math.log(1000 / 16)  # of the logarithm of a size


def _transformed(boxes: Array, deltas: Array, weights: Sequence[float], plus: int, correct: bool) -> Array:
    """Boxes moved by shares of their sizes, and scaled by exponentials; deltas come over their weights."""
    sizes = boxes[:, 2:] - boxes[:, :2] + plus
    centres = boxes[:, :2] + sizes * 0.5
    moves = deltas[:, :2] / np.asarray(weights[:2], deltas.dtype)
    growths = np.minimum(deltas[:, 2:] / np.asarray(weights[2:], deltas.dtype), _LARGEST_GROWTH)
    middles, halves = centres + moves * sizes, np.exp(growths) * sizes * 0.5
    return np.concatenate([middles - halves, middles + halves - (plus if correct else 0)], 1)


def _clipped(boxes: Array, height: int, width: int, plus: int) -> Array:
    limits = np.array([width, height, width, height]) - plus
    return np.clip(boxes, 0, limits).astype(boxes.dtype)


def _kept(boxes: Array, scores: Array, threshold: float, plus: int, most: int = -1) -> Array:
    """Greedily from the highest score on, the boxes that overlap no kept one by more than a threshold."""
    order = np.argsort(-scores, kind="stable")
    areas = np.prod(boxes[:, 2:] - boxes[:, :2] + plus, axis=1)
    kept: list[int] = []
    while order.size and (most < 0 or len(kept) < most):
        first, rest = order[0], order[1:]
        kept.append(first)
        low, high = (
            np.maximum(boxes[first, :2], boxes[rest, :2]),
            np.minimum(boxes[first, 2:], boxes[rest, 2:]),
        )
        shared = np.prod(np.maximum(high - low + plus, 0), axis=1)
        order = rest[shared / (areas[first] + areas[rest] - shared) <= threshold]
    return np.array(kept, np.int64)


def _plain(call: Call) -> int:
    """How much wider a box is than the distance of its corners; rotated boxes are refused."""
    if call.argument("rotated", 0):
        raise call.error("rotated boxes are not there")
    return int(call.argument("legacy_plus_one", 1))


@runs("BBoxTransform")
def _bbox_transform(call: Call) -> None:
    """Regions of images, perhaps with the number of the image in front, moved by deltas of each class."""
    regions, deltas, images = (call.array(at).astype(np.float32) for at in range(3))
    plus, weights = _plain(call), call.argument("weights", (1.0, 1.0, 1.0, 1.0))
    correct, rescale = call.argument("correct_transform_coords", 0), call.argument("apply_scale", 1)
    owner = regions[:, 0].astype(int) if regions.shape[1] == 5 else np.zeros(len(regions), int)
    if deltas.shape[1] % 4 or len(deltas) != len(regions):
        raise call.error(f"there are {deltas.shape} deltas for {len(regions)} regions")
    results = np.zeros(deltas.shape, np.float32)
    for number, (height, width, scale) in enumerate(images):
        own = owner == number
        size = int(height / scale + 0.5), int(width / scale + 0.5)
        for start in range(0, deltas.shape[1], 4):
            part = deltas[own, start : start + 4]
            moved = _transformed(regions[own, -4:] / scale, part, weights, plus, bool(correct))
            results[own, start : start + 4] = _clipped(moved, *size, plus) * (scale if rescale else 1)
    call.write(0, results)
    if len(call.definition.output) > 1:
        call.write(1, np.bincount(owner, minlength=len(images)).astype(np.float32))


@runs("BoxWithNMSLimit")
def _box_with_nms_limit(call: Call) -> None:
    """The boxes of each class but the first, by scores and overlaps, and of all classes the best ones."""
    scores, boxes = call.array(0), call.array(1)
    plus = _plain(call)
    if call.argument("soft_nms_enabled", 0):
        raise call.error("scores are not lowered by overlaps (soft_nms_enabled)")
    sizes = call.array(2).reshape(-1).astype(int) if len(call.definition.input) > 2 else [len(scores)]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    found = [_detected(call, scores[a:b], boxes[a:b], plus) for a, b in pairwise(ends)]
    rows = np.concatenate([rows for rows, _ in found])
    classes = np.concatenate([classes for _, classes in found])
    everywhere = rows + np.repeat(ends[:-1], [len(one) for one, _ in found])
    picked = boxes.reshape(len(boxes), -1, 4)
    results = [
        scores[everywhere, classes],
        picked[everywhere, classes],
        classes.astype(np.float32),
        np.array([len(one) for one, _ in found], np.float32),
        rows.astype(np.int32),
        np.array([[(own == k).sum() for k in range(scores.shape[1])] for _, own in found], np.int32),
    ]
    for at in range(len(call.definition.output)):
        call.write(at, results[at])


def _detected(call: Call, scores: Array, boxes: Array, plus: int) -> tuple[Array, Array]:
    """The rows and classes of what is detected in one image, class by class."""
    limit, threshold = call.argument("detections_per_im", 100), call.argument("score_thresh", 0.05)
    kept = []
    for number in range(1, scores.shape[1]):
        likely = np.flatnonzero(scores[:, number] > threshold)
        own = boxes[likely, 4 * number : 4 * number + 4]
        kept.append(likely[_kept(own, scores[likely, number], call.argument("nms", 0.3), plus)])
    rows = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    classes = np.repeat(np.arange(1, scores.shape[1]), [len(one) for one in kept])
    if 0 < limit < rows.size:
        values = scores[rows, classes]
        best = values >= np.sort(values)[-limit]
        rows, classes = rows[best], classes[best]
    return rows, classes


@runs("GenerateProposals", "GenerateProposalsCPP")
def _generate_proposals(call: Call) -> None:
    """Regions from the scores and deltas of anchors at each place, and their scores."""
    scores, deltas, images = call.array(0), call.array(1), call.array(2)
    anchors, plus = call.array(3), _plain(call)
    count, each, high, wide = scores.shape
    if anchors.shape != (each, 4) or deltas.shape != (count, 4 * each, high, wide):
        raise call.error(
            f"scores {scores.shape}, deltas {deltas.shape} and anchors {anchors.shape} don't fit"
        )
    stride = 1 / call.argument("spatial_scale", 0.0625)
    x, y = np.meshgrid(np.arange(wide) * stride, np.arange(high) * stride)
    shifts = np.stack([x, y, x, y], -1).reshape(-1, 1, 4)
    places = (shifts + anchors).reshape(-1, 4).astype(np.float32)
    regions, values = [], []
    for number, (height, width, scale) in enumerate(images):
        own = scores[number].transpose(1, 2, 0).reshape(-1)
        moves = deltas[number].reshape(each, 4, high, wide).transpose(2, 3, 0, 1).reshape(-1, 4)
        order = np.argsort(-own, kind="stable")
        first = call.argument("pre_nms_topN", 6000)
        order = order[:first] if first > 0 else order
        correct = bool(call.argument("correct_transform_coords", 0))
        boxes = _transformed(places[order], moves[order], (1.0, 1.0, 1.0, 1.0), plus, correct)
        boxes = _clipped(boxes, int(height), int(width), plus)
        least = max(call.argument("min_size", 16.0) * scale, 1.0)
        sizes = boxes[:, 2:] - boxes[:, :2] + plus
        centres = boxes[:, :2] + sizes / 2
        large = (sizes >= least).all(1) & (centres < [width, height]).all(1)
        boxes, likely = boxes[large], own[order][large]
        most = call.argument("post_nms_topN", 300)
        kept = _kept(boxes, likely, call.argument("nms_thresh", 0.7), plus, most if most > 0 else -1)
        regions.append(np.concatenate([np.full((len(kept), 1), number, np.float32), boxes[kept]], 1))
        values.append(likely[kept])
    call.write(0, np.concatenate(regions).astype(np.float32))
    if len(call.definition.output) > 1:
        call.write(1, np.concatenate(values).astype(np.float32))
