"""Rows of pools over regions: inside of the image, at its border, and outside."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, constant, distinct, exactly, normal, run_time

# (x1, y1, x2, y2); no sample of the rows below lies on a whole pixel or on the image's border.
_INSIDE = [[0.63, 0.91, 3.27, 2.46], [1.17, 0.57, 3.64, 3.23]]
_OUTSIDE = [[-3.37, -2.19, 9.43, 8.31], [2.41, 1.83, 3.06, 2.29]]

_SMALL = [[2.41, 1.83, 3.06, 2.29], [0.63, 0.91, 0.97, 3.46]]


def _align(
    x: tuple[int, ...], rois: Any, images: list[int], note: str = "", opset: int = 18, **options: Any
) -> Case:
    return Case("RoiAlign", [normal(*x), exactly(rois), constant(images)], options, note, opset=opset)


ALIGN = [
    *(
        _align(
            (2, 1, 4, 4),
            _INSIDE,
            [1, 0],
            "inside",
            mode=mode,
            coordinate_transformation_mode=coordinates,
            sampling_ratio=ratio,
            output_height=2,
            output_width=1,
        )
        for mode in ("avg", "max")
        for coordinates in ("half_pixel", "output_half_pixel")
        for ratio in (0, 2)
    ),
    _align((1, 2, 4, 4), _INSIDE, [0, 0], "channels", sampling_ratio=1),
    _align((1, 1, 5, 6), _OUTSIDE, [0, 0], "outside", sampling_ratio=2, output_height=2, output_width=3),
    _align((1, 1, 5, 6), _OUTSIDE, [0, 0], "outside", output_width=2, spatial_scale=0.75),
    _align((1, 1, 5, 6), _OUTSIDE, [0, 0], "outside", mode="max", spatial_scale=0.75),
    _align((1, 1, 5, 6), _SMALL, [0, 0], "small", coordinate_transformation_mode="output_half_pixel"),
    _align((1, 1, 1, 4), [[0.31, -0.27, 2.83, 0.21]], [0], "one row", sampling_ratio=1, output_width=2),
    _align((1, 2, 3, 4), np.zeros((0, 4)), [], "no regions"),
    # The row lies at the border. The sample is pixel 1; or half way between pixels 0 and 1.
    Case(
        "RoiAlign",
        [exactly([[[[1.0, 2.0, 5.0]]]]), exactly([[0.5, 0.5, 2.5, 0.5]]), constant([0])],
        {"sampling_ratio": 1},
        "whole position",
        expected=[[[[[0, 1, 0]]]], [[1.5, 0, 1.5, 0]]],
    ),
    Case(
        "RoiAlign",
        [exactly([[[[2.0, 2.0, 5.0]]]]), exactly([[0.5, 0.5, 1.5, 0.5]]), constant([0])],
        {"sampling_ratio": 1, "mode": "max"},
        "equal products",
        expected=[[[[[0.5, 0, 0]]]], [[-1, 0, -1, 0]]],
    ),
]


def max_pool(x: np.ndarray, rois: np.ndarray, bins: tuple[int, int], scale: float) -> np.ndarray:
    """The definition, pixel by pixel; x (N, C, H, W), rois (R, 5) as (image, x1, y1, x2, y2)."""
    y = np.zeros((len(rois), x.shape[1], *bins))
    for r, (image, *corners) in enumerate(rois):
        first_x, first_y, last_x, last_y = (int(np.floor(abs(c * scale) + 0.5) * np.sign(c)) for c in corners)
        for i, j in np.ndindex(*bins):
            ranges = []
            for k, first, last in ((0, first_y, last_y), (1, first_x, last_x)):
                extent, number = max(last - first + 1, 1), (i, j)[k]
                low = first + number * extent // bins[k]
                high = first - (-(number + 1) * extent // bins[k])
                ranges.append(slice(max(low, 0), max(high, 0)))
            window = x[int(image), :, ranges[0], ranges[1]]
            if window.size:
                y[r, :, i, j] = window.max(axis=(1, 2))
    return y


def _max_pool(x: tuple[int, ...], rois: Tensor, bins: tuple[int, int], note: str, scale: float = 1.0) -> Case:
    return Case(
        "MaxRoiPool",
        [distinct(*x), rois],
        {"pooled_shape": list(bins), "spatial_scale": scale},
        note,
        wrt=[0],
        forward=lambda image, regions: max_pool(image, regions, bins, scale),
        gradient_dtype="float32",
    )


_REGIONS = [[0, 0, 0, 3, 4], [1, 1, 1, 5, 3], [1, 2, 0, 4, 4]]

MAX = [
    _max_pool((2, 2, 5, 6), exactly(_REGIONS), (2, 3), "overlapping"),
    _max_pool((2, 1, 5, 6), exactly([[0, 2, 2, 2, 2], [1, 4, 3, 1, 1]]), (2, 2), "malformed"),
    _max_pool((1, 2, 5, 6), exactly([[0, -4, -3, 20, 3], [0, 9, 9, 12, 12]]), (2, 2), "outside"),
    _max_pool((1, 1, 5, 6), exactly([[0, 1.0, 3.0, 9.0, 7.0]], fed=False), (1, 2), "scaled", 0.5),
    Case(
        "MaxRoiPool",
        [exactly([[[[2.0, 5.0, 5.0], [1.0, 5.0, 0.0]]]]), run_time([[0, 0, 0, 2, 1]], "float32")],
        {"pooled_shape": [1, 1]},
        "ties",
        expected=[[[[[0, 1, 0], [0, 0, 0]]]]],
        gradient_dtype="float32",
    ),
]

CASES = [*ALIGN, *MAX]
