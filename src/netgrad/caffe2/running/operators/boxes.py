"""Boxes of detectors: moved by deltas, and proposed for regions.

Boxes are x1, y1, x2, y2 with both corners inside: a box is x2 - x1 + 1 wide, unless ``legacy_plus_one`` is 0.
Rotated ones are centre, width, height and an angle in degrees.
"""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.box_shapes import clipped, clipped_upright, kept, transformed, turned
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("BBoxTransform")
def _bbox_transform(call: Call) -> None:
    """Regions of images, perhaps with the number of the image in front, moved by deltas of each class."""
    regions, deltas, images = (call.array(at).astype(np.float32) for at in range(3))
    plus, weights = int(call.argument("legacy_plus_one", 1)), call.argument("weights", (1.0, 1.0, 1.0, 1.0))
    rotated, rescale = call.argument("rotated", 0), call.argument("apply_scale", 1)
    dims = 5 if rotated else 4
    if regions.shape[1] not in (dims, dims + 1) or deltas.shape[1] % dims or len(deltas) != len(regions):
        raise call.error(
            f"regions {regions.shape} and deltas {deltas.shape} don't fit, of {dims} numbers each"
        )
    owner = regions[:, 0].astype(int) if regions.shape[1] > dims else np.zeros(len(regions), int)
    bounds = (call.argument("angle_bound_lo", -90), call.argument("angle_bound_hi", 90))
    if rotated and (bounds[1] <= bounds[0] or (bounds[1] - bounds[0]) % 180):
        raise call.error(f"the angles from {bounds[0]} to {bounds[1]} are no whole number of half turns")
    results = np.zeros(deltas.shape, np.float32)
    for number, (height, width, scale) in enumerate(images):
        own = owner == number
        size = int(height / scale + 0.5), int(width / scale + 0.5)
        boxes = regions[own, -dims:]
        boxes[:, :4] /= scale
        for start in range(0, deltas.shape[1], dims):
            part = deltas[own, start : start + dims]
            if rotated:
                moved = turned(boxes, part, weights, bounds if call.argument("angle_bound_on", 1) else None)
                moved = clipped_upright(moved, *size, plus, call.argument("clip_angle_thresh", 1.0))
            else:
                moved = clipped(transformed(boxes, part, weights, plus), *size, plus)
            if rescale:
                moved[:, :4] *= scale
            results[own, start : start + dims] = moved
    call.write(0, results)
    if len(call.definition.output) > 1:
        call.write(1, np.bincount(owner, minlength=len(images)).astype(np.float32))


@runs("GenerateProposals", "GenerateProposalsCPP")
def _generate_proposals(call: Call) -> None:
    """Regions from the scores and deltas of anchors at each place, and their scores."""
    scores, deltas, images = call.array(0), call.array(1), call.array(2)
    if call.argument("rotated", 0):
        raise call.error("rotated boxes are not there")
    anchors, plus = call.array(3), int(call.argument("legacy_plus_one", 1))
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
        boxes = transformed(places[order], moves[order], (1.0, 1.0, 1.0, 1.0), plus)
        boxes = clipped(boxes, int(height), int(width), plus)
        least = max(call.argument("min_size", 16.0) * scale, 1.0)
        sizes = boxes[:, 2:] - boxes[:, :2] + plus
        centres = boxes[:, :2] + sizes / 2
        large = (sizes >= least).all(1) & (centres < [width, height]).all(1)
        boxes, likely = boxes[large], own[order][large]
        most = call.argument("post_nms_topN", 300)
        chosen = kept(boxes, likely, call.argument("nms_thresh", 0.7), plus, most if most > 0 else -1)
        regions.append(np.concatenate([np.full((len(chosen), 1), number, np.float32), boxes[chosen]], 1))
        values.append(likely[chosen])
    call.write(0, np.concatenate(regions).astype(np.float32))
    if len(call.definition.output) > 1:
        call.write(1, np.concatenate(values).astype(np.float32))
