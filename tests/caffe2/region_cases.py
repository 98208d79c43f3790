"""Rows for turned regions of images and the regions of R-MAC."""

from __future__ import annotations

import math

import numpy as np

from tests.caffe2.layer_cases import at
from tests.caffe2.operator_cases import Array, Blobs, Case

_random = np.random.default_rng(43)


def turned(
    g: Blobs, scale: float, bins: int, samples: int, *, aligned: bool = False, nhwc: bool = False
) -> dict[str, Array]:
    """Means of samples in a grid that is turned by a matrix; as many samples as a bin has pixels with 0."""
    images = g["x"].transpose(0, 3, 1, 2) if nhwc else g["x"]
    result = np.zeros((len(g["r"]), images.shape[1], bins, bins))
    for number, roi in enumerate(g["r"]):
        image = images[int(roi[0]) if len(roi) == 6 else 0]
        x, y, width, height = (float(part) * scale for part in roi[-5:-1])
        if aligned:
            x, y = x - 0.5, y - 0.5
        else:
            width, height = max(width, 1), max(height, 1)
        theta = math.radians(roi[-1])
        turn = np.array([[math.cos(theta), math.sin(theta)], [-math.sin(theta), math.cos(theta)]])
        rows, columns = samples or math.ceil(height / bins), samples or math.ceil(width / bins)
        for i, j in np.ndindex(bins, bins):
            found = []
            for p, q in np.ndindex(rows, columns):
                right = width * ((j + (q + 0.5) / columns) / bins - 0.5)
                down = height * ((i + (p + 0.5) / rows) / bins - 0.5)
                place = turn @ [right, down] + [x, y]
                found.append(at(image, place[1], place[0]))
            result[number, :, i, j] = np.mean(found, axis=0)
    return {"y": result.transpose(0, 2, 3, 1) if nhwc else result}


_IMAGES = _random.normal(size=(2, 2, 6, 7))
_ROIS = np.array([[1, 2.6, 3.1, 4.3, 2.2, 30.0], [0, 5.8, 1.4, 5.9, 3.7, -100.0], [1, 1.0, 1.0, 0.3, 0.2, 0]])

REGIONS = [
    Case(
        "RoIAlignRotated(x,r)->(y) {spatial_scale=0.9,pooled_h=2,pooled_w=2,sampling_ratio=2}",
        {"x": _IMAGES, "r": _ROIS},
        lambda g: turned(g, 0.9, 2, 2),
        ("x",),
    ),
    Case(
        "RoIAlignRotated(x,r)->(y) {pooled_h=2,pooled_w=2,aligned=1}",
        {"x": _IMAGES[:1], "r": _ROIS[:, 1:]},
        lambda g: turned(g, 1.0, 2, 0, aligned=True),
        ("x",),
    ),
    Case(
        'RoIAlignRotated(x,r)->(y) {pooled_h=3,pooled_w=3,sampling_ratio=0,order="NHWC"}',
        {"x": _IMAGES.transpose(0, 2, 3, 1), "r": _ROIS},
        lambda g: turned(g, 1.0, 3, 0, nhwc=True),
        ("x",),
    ),
    Case(
        "RoIAlignRotated(x,r)->(y) {pooled_h=2,pooled_w=2}",
        {"x": _IMAGES, "r": _ROIS[:0]},
        lambda g: turned(g, 1.0, 2, 0),
        (),
    ),
    # By hand: squares of 4 over 4 x 6 pixels, two of which overlap by half (2 pixels of 4), which is nearest
    # to 0.4; then 2 pixels (2 * 4 // 3) at steps of (6 - 2) / 2 along the longer side, 4 - 2 along the other.
    Case(
        "RMACRegions(x)->(y) {scales=2}",
        {"x": np.zeros((2, 1, 4, 6))},
        lambda g: {
            "y": np.array(
                [
                    [number, x, y, x + size - 1, y + size - 1]
                    for number in (0, 1)
                    for size, across, down in ((4, (0, 2), (0,)), (2, (0, 2, 4), (0, 2)))
                    for x in across
                    for y in down
                ]
            )
        },
        (),
    ),
    # a square image has one region as large as itself, whatever the overlap is
    Case(
        "RMACRegions(x)->(y) {scales=1,overlap=0.9}",
        {"x": np.zeros((1, 2, 3, 3))},
        lambda g: {"y": np.array([[0, 0, 0, 2, 2]])},
        (),
    ),
]
