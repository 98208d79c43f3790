"""Boxes of detectors: small ones by hand, and overlaps by counting pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _run(type_: str, inputs: list[Any], outputs: int, **arguments: Any) -> list[Any]:
    for at, array in enumerate(inputs):
        workspace.FeedBlob(f"x{at}", np.asarray(array))
    names = [f"y{at}" for at in range(outputs)]
    read = [f"x{at}" for at in range(len(inputs))]
    workspace.RunOperatorOnce(core.CreateOperator(type_, read, names, **arguments))
    return [workspace.FetchBlob(name) for name in names]


def _f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


def test_boxes_are_moved_and_scaled() -> None:
    """A box of 10 x 20 pixels: its centre moves by a tenth and a fifth, and its width doubles."""
    boxes = _f32([10, 20, 19, 39])
    image = _f32([100, 100, 1])
    deltas = _f32([0.1, 0.2, np.log(2), 0, 0, 0, 0, 0])
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1)
    # centre (15, 30) becomes (16, 34); 20 x 20 pixels
    np.testing.assert_allclose(found, [[6, 24, 26, 44, 10, 20, 20, 40]], rtol=1e-6)
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1, correct_transform_coords=1)
    np.testing.assert_allclose(found, [[6, 24, 25, 43, 10, 20, 19, 39]], rtol=1e-6)
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1, weights=[10.0, 5.0, 1.0, 1.0])
    np.testing.assert_allclose(found[0, :4], [5.1, 20.8, 25.1, 40.8], rtol=1e-6)


def test_boxes_of_scaled_images() -> None:
    """Boxes lie in images of twice the size, and are cut where these end."""
    regions = _f32([1, 20, 40, 38, 78], [0, 0, 0, 300, 20])
    images = _f32([100, 100, 1], [100, 60, 2])
    zeros = np.zeros((2, 4), np.float32)
    found, counts = _run("BBoxTransform", [regions, zeros, images], 2, correct_transform_coords=1)
    np.testing.assert_allclose(found, [[20, 40, 38, 78], [0, 0, 99, 20]], rtol=1e-6)
    np.testing.assert_array_equal(counts, [1, 1])
    (found,) = _run("BBoxTransform", [regions, zeros, images], 1, correct_transform_coords=1, apply_scale=0)
    np.testing.assert_allclose(found[0], [10, 20, 19, 39], rtol=1e-6)
    with pytest.raises(RuntimeError, match="rotated boxes are not there"):
        _run("BBoxTransform", [regions, zeros, images], 1, rotated=1)


def _pixels(box: Any) -> set[tuple[int, int]]:
    x1, y1, x2, y2 = (int(bound) for bound in box)
    return {(x, y) for x in range(x1, x2 + 1) for y in range(y1, y2 + 1)}


def _chosen(boxes: Any, scores: Any, threshold: float) -> list[int]:
    kept: list[int] = []
    for at in np.argsort(-scores, kind="stable"):
        own = _pixels(boxes[at])
        overlaps = [len(own & _pixels(boxes[k])) / len(own | _pixels(boxes[k])) for k in kept]
        if all(overlap <= threshold for overlap in overlaps):
            kept.append(int(at))
    return kept


def _random_boxes(random: np.random.Generator, count: int) -> Any:
    corner = random.integers(0, 12, (count, 2))
    return np.concatenate([corner, corner + random.integers(2, 10, (count, 2))], 1).astype(np.float32)


def test_boxes_are_chosen() -> None:
    """Two images, two classes and the background; overlaps are counted in pixels."""
    random = np.random.default_rng(5)
    scores = random.uniform(size=(14, 3)).astype(np.float32)
    boxes = np.concatenate([_random_boxes(random, 14) for _ in range(3)], 1)
    splits = _f32(8, 6)
    found = _run(
        "BoxWithNMSLimit", [scores, boxes, splits], 6, score_thresh=0.2, nms=0.25, detections_per_im=4
    )
    rows, classes, counts = [], [], []
    for start, end in ((0, 8), (8, 14)):
        kept = []
        for number in (1, 2):
            likely = [k for k in range(start, end) if scores[k, number] > 0.2]
            own = boxes[likely, 4 * number : 4 * number + 4]
            kept += [(likely[k], number) for k in _chosen(own, scores[likely, number], 0.25)]
        lowest = sorted((float(scores[pair]) for pair in kept), reverse=True)[:4][-1]
        kept = [pair for pair in kept if scores[pair] >= lowest]
        rows += [row for row, _ in kept]
        classes += [number for _, number in kept]
        counts.append(len(kept))
    np.testing.assert_array_equal(found[0], scores[rows, classes])
    np.testing.assert_array_equal(
        found[1], [boxes[row, 4 * k : 4 * k + 4] for row, k in zip(rows, classes, strict=True)]
    )
    np.testing.assert_array_equal(found[2], classes)
    np.testing.assert_array_equal(found[3], counts)
    np.testing.assert_array_equal(found[4], [row if row < 8 else row - 8 for row in rows])
    assert found[5].shape == (2, 3)
    assert found[5].sum(1).tolist() == counts
    assert found[5][:, 0].tolist() == [0, 0]


def test_regions_are_proposed() -> None:
    """Two anchors at each of 2 x 3 places, 16 pixels apart; deltas that move nothing."""
    anchors = _f32([-8, -8, 7, 7], [-16, -4, 15, 3])
    scores = np.random.default_rng(6).uniform(size=(1, 2, 2, 3)).astype(np.float32)
    deltas = np.zeros((1, 8, 2, 3), np.float32)
    image = _f32([32, 40, 1])
    arguments = {"spatial_scale": 1 / 16, "min_size": 4.0, "nms_thresh": 0.3, "correct_transform_coords": 1}
    regions, values = _run("GenerateProposals", [scores, deltas, image, anchors], 2, **arguments)
    boxes, likely = [], []
    for y in range(2):
        for x in range(3):
            for k in range(2):
                box = anchors[k] + 16 * np.array([x, y, x, y])
                box = np.clip(box, 0, [39, 31, 39, 31])
                boxes.append(box)
                likely.append(scores[0, k, y, x])
    large = [k for k, box in enumerate(boxes) if min(box[2] - box[0], box[3] - box[1]) + 1 >= 4]
    own, score = np.array(boxes)[large], np.array(likely)[large]
    kept = _chosen(own, score, 0.3)
    np.testing.assert_allclose(regions[:, 1:], own[kept], atol=1e-4)
    np.testing.assert_array_equal(regions[:, 0], 0)
    np.testing.assert_array_equal(values, score[kept])
    few, _ = _run("GenerateProposals", [scores, deltas, image, anchors], 2, post_nms_topN=2, **arguments)
    np.testing.assert_array_equal(few, regions[:2])
