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
    np.testing.assert_allclose(found, [[6, 24, 25, 43, 10, 20, 19, 39]], rtol=1e-6)
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1, weights=[10.0, 5.0, 1.0, 1.0])
    np.testing.assert_allclose(found[0, :4], [5.1, 20.8, 24.1, 39.8], rtol=1e-6)


def test_boxes_of_scaled_images() -> None:
    """Boxes lie in images of twice the size, and are cut where these end."""
    regions = _f32([1, 20, 40, 38, 78], [0, 0, 0, 300, 20])
    images = _f32([100, 100, 1], [100, 60, 2])
    zeros = np.zeros((2, 4), np.float32)
    found, counts = _run("BBoxTransform", [regions, zeros, images], 2)
    np.testing.assert_allclose(found, [[20, 40, 38, 78], [0, 0, 99, 20]], rtol=1e-6)
    np.testing.assert_array_equal(counts, [1, 1])
    (found,) = _run("BBoxTransform", [regions, zeros, images], 1, apply_scale=0)
    np.testing.assert_allclose(found[0], [10, 20, 19, 39], rtol=1e-6)
    with pytest.raises(RuntimeError, match="don't fit, of 5 numbers each"):
        _run("BBoxTransform", [regions, zeros, images], 1, rotated=1)


def test_rotated_boxes_are_moved_and_turned() -> None:
    """A box of 10 x 20 around (15, 30), turned from 80 by 45 degrees, and one that turns below -90."""
    boxes, image = _f32([15, 30, 10, 20, 80], [15, 30, 10, 20, -80]), _f32([100, 100, 1])
    deltas = _f32([0.1, 0.2, np.log(2), 0, np.pi / 4], [0, 0, 0, 0, -np.pi / 4])
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1, rotated=1)
    np.testing.assert_allclose(found, [[16, 34, 20, 20, -55], [15, 30, 10, 20, 55]], rtol=1e-5)
    (found,) = _run("BBoxTransform", [boxes, deltas, image], 1, rotated=1, angle_bound_on=0)
    np.testing.assert_allclose(found[:, 4], [125, -125], rtol=1e-5)
    (found,) = _run(
        "BBoxTransform", [boxes, deltas, image], 1, rotated=1, angle_bound_lo=0, angle_bound_hi=180
    )
    np.testing.assert_allclose(found[:, 4], [125, 55], rtol=1e-5)
    with pytest.raises(RuntimeError, match="no whole number of half turns"):
        _run("BBoxTransform", [boxes, deltas, image], 1, rotated=1, angle_bound_hi=45)


def test_rotated_boxes_are_cut_if_they_are_nearly_upright() -> None:
    boxes, image = _f32([5, 50, 20, 10, 0.5], [5, 50, 20, 10, 30]), _f32([100, 60, 1])
    zeros = np.zeros((2, 5), np.float32)
    (found,) = _run("BBoxTransform", [boxes, zeros, image], 1, rotated=1)
    # pixels from -4.5 to 14.5 become those from 0 on
    np.testing.assert_allclose(found, [[7.25, 50, 15.5, 10, 0.5], boxes[1]], rtol=1e-6)
    (found,) = _run("BBoxTransform", [boxes, zeros, image], 1, rotated=1, clip_angle_thresh=-1.0)
    np.testing.assert_allclose(found, boxes, rtol=1e-6)


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


def test_boxes_of_one_form_for_all_classes() -> None:
    """Boxes that all classes share, scores with the background behind, and classes that don't count it."""
    boxes = _f32([0, 0, 9, 9], [20, 20, 29, 29])
    scores = _f32([0.9, 0.1, 0.5], [0.3, 0.8, 0.6])
    arguments = {"cls_agnostic_bbox_reg": 1, "input_boxes_include_bg_cls": 0, "score_thresh": 0.2}
    found = _run("BoxWithNMSLimit", [scores, boxes], 3, **arguments)
    np.testing.assert_array_equal(found[0], _f32(0.9, 0.3, 0.8))
    np.testing.assert_array_equal(found[1], boxes[[0, 1, 1]])
    np.testing.assert_array_equal(found[2], [1, 1, 2])
    found = _run("BoxWithNMSLimit", [scores, boxes], 3, output_classes_include_bg_cls=0, **arguments)
    np.testing.assert_array_equal(found[2], [0, 0, 1])
    with pytest.raises(RuntimeError, match="don't fit"):
        _run("BoxWithNMSLimit", [scores, boxes], 3)


def test_the_limit_of_boxes_counts_equal_scores() -> None:
    boxes = np.tile(_f32([0, 0, 9, 9], [20, 20, 29, 29], [40, 40, 49, 49]), (1, 2))
    scores = np.full((3, 2), 0.7, np.float32)
    found = _run("BoxWithNMSLimit", [scores, boxes], 2, detections_per_im=2)
    np.testing.assert_array_equal(found[0], _f32(0.7, 0.7))


@pytest.mark.parametrize(
    ("arguments", "factor"),
    [
        ({"nms": 0.3}, 1 - 0.5),
        ({"nms": 0.6}, 1.0),
        ({"soft_nms_method": "gaussian"}, np.exp(-(0.5**2) / 0.5)),
        ({"soft_nms_method": "gaussian", "soft_nms_sigma": 0.8}, np.exp(-(0.5**2) / 0.8)),
    ],
)
def test_overlaps_lower_scores(arguments: dict[str, Any], factor: float) -> None:
    """A box of 10 x 10 pixels and one of 10 x 5 inside of it share half of their area; a third is apart."""
    boxes = np.tile(_f32([0, 0, 9, 9], [0, 0, 9, 4], [30, 30, 39, 39]), (1, 2))
    scores = np.repeat(_f32([0.9], [0.8], [0.7]), 2, axis=1)
    found = _run("BoxWithNMSLimit", [scores, boxes], 5, soft_nms_enabled=1, **arguments)
    lowered = [0.9, 0.8 * factor, 0.7]
    order = np.argsort(-np.array(lowered))
    np.testing.assert_allclose(found[0], np.array(lowered)[order], rtol=1e-6)
    np.testing.assert_array_equal(found[4], order)
    least = float(0.8 * factor + 0.01)
    few = _run(
        "BoxWithNMSLimit", [scores, boxes], 5, soft_nms_enabled=1, soft_nms_min_score_thres=least, **arguments
    )
    assert 1 not in few[4]
    with pytest.raises(RuntimeError, match="soft_nms_method is 'hard'"):
        _run("BoxWithNMSLimit", [scores, boxes], 1, soft_nms_enabled=1, soft_nms_method="hard")


def test_regions_are_proposed() -> None:
    """Two anchors at each of 2 x 3 places, 16 pixels apart; deltas that move nothing."""
    anchors = _f32([-8, -8, 7, 7], [-16, -4, 15, 3])
    scores = np.random.default_rng(6).uniform(size=(1, 2, 2, 3)).astype(np.float32)
    deltas = np.zeros((1, 8, 2, 3), np.float32)
    image = _f32([32, 40, 1])
    arguments = {"spatial_scale": 1 / 16, "min_size": 4.0, "nms_thresh": 0.3}
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
