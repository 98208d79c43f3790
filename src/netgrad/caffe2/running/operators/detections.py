"""What detectors have found: the boxes of each class by scores and overlaps, and of all the best ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.box_shapes import Decay, kept, kept_softly
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("BoxWithNMSLimit")
def _box_with_nms_limit(call: Call) -> None:
    """The boxes of each class but the background, which is the first one, or the last one of the scores."""
    scores, boxes = call.array(0), call.array(1)
    if call.argument("rotated", 0):
        raise call.error("rotated boxes are not there")
    classes = scores.shape[1]
    before = 1 if call.argument("input_boxes_include_bg_cls", 1) else 0  # columns of the background in front
    agnostic = bool(call.argument("cls_agnostic_bbox_reg", 0))
    if boxes.shape != (len(scores), 4 * (1 if agnostic else classes - 1 + before)):
        raise call.error(f"boxes {boxes.shape} and scores {scores.shape} don't fit")
    if agnostic:
        by_class = np.repeat(boxes[:, None], classes - 1, axis=1)
    else:
        by_class = boxes.reshape(len(boxes), classes - 1 + before, 4)[:, before:]
    likely = scores[:, before:] if before else scores[:, :-1]
    sizes = call.array(2).reshape(-1).astype(int) if len(call.definition.input) > 2 else [len(scores)]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    found = [_detected(call, likely[a:b], by_class[a:b]) for a, b in pairwise(ends)]
    rows, numbers, values = (np.concatenate([one[at] for one in found]) for at in range(3))
    everywhere = rows + np.repeat(ends[:-1], [len(one) for one, _, _ in found])
    results = [
        values,
        by_class[everywhere, numbers],
        (numbers + (1 if call.argument("output_classes_include_bg_cls", 1) else 0)).astype(np.float32),
        np.array([len(one) for one, _, _ in found], np.float32),
        rows.astype(np.int32),
        np.array([[0, *np.bincount(own, minlength=classes - 1)] for _, own, _ in found], np.int32),
    ]
    for at in range(len(call.definition.output)):
        call.write(at, results[at])


def _detected(call: Call, scores: Array, boxes: Array) -> tuple[Array, Array, Array]:
    """The rows, classes (without the background) and scores of what is found in one image, class by class."""
    limit, threshold = call.argument("detections_per_im", 100), call.argument("score_thresh", 0.05)
    plus, soft = int(call.argument("legacy_plus_one", 1)), bool(call.argument("soft_nms_enabled", 0))
    decay, least = _decay(call), call.argument("soft_nms_min_score_thres", 0.001)
    rows, values = [], []
    for number in range(scores.shape[1]):
        likely = np.flatnonzero(scores[:, number] > threshold)
        own, marks = boxes[likely, number], scores[likely, number]
        if soft:
            chosen, marks = kept_softly(own, marks, decay, least, plus)
        else:
            chosen = kept(own, marks, call.argument("nms", 0.3), plus)
            marks = marks[chosen]
        rows.append(likely[chosen])
        values.append(marks)
    numbers = np.repeat(np.arange(len(rows)), [len(one) for one in rows])
    all_rows, all_values = (
        np.concatenate(one) if one else np.zeros(0, scores.dtype) for one in (rows, values)
    )
    if 0 < limit < all_rows.size:
        best = np.sort(np.argsort(-all_values, kind="stable")[:limit])
        all_rows, numbers, all_values = all_rows[best], numbers[best], all_values[best]
    return all_rows.astype(np.int64), numbers, all_values


def _decay(call: Call) -> Decay:
    """What lowers the scores of boxes that overlap a chosen one."""
    threshold, width = call.argument("nms", 0.3), call.argument("soft_nms_sigma", 0.5)
    method = call.argument("soft_nms_method", "linear")
    if method == "linear":
        return lambda shares: np.where(shares > threshold, 1 - shares, 1)
    if method == "gaussian":
        return lambda shares: np.exp(-(shares**2) / width)
    raise call.error(f"soft_nms_method is '{method}', and 'linear' and 'gaussian' are there")
