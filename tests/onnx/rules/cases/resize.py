"""Rows of Resize: every mode and coordinate transformation, by scales and by sizes."""

from dataclasses import replace
from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, constant, exactly, normal, run_time


def scales(*values: float) -> Tensor:
    return constant(values, np.float32)


def up(*sizes: int) -> Tensor:
    return constant(sizes)


def grid_2d(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Centres of the pixels, from -1 to 1."""
    axes = [(np.arange(n) + 0.5) * 2 / n - 1 for n in size[2:]]
    y, x = np.meshgrid(*axes, indexing="ij")
    return np.einsum("nij,hwj->nhwi", theta, np.stack([x, y, np.ones_like(x)], axis=-1))


def grid_3d(theta: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Corners at -1 and 1."""
    axes = [np.linspace(-1, 1, n) for n in size[2:]]
    z, y, x = np.meshgrid(*axes, indexing="ij")
    return np.einsum("nij,dhwj->ndhwi", theta, np.stack([x, y, z, np.ones_like(x)], axis=-1))


def kernel(d: np.ndarray, mode: str, a: float) -> np.ndarray:
    """The weight of an element at distance d."""
    d = np.abs(d)
    if mode == "linear":
        return np.maximum(1 - d, 0)
    near, far = (a + 2) * d**3 - (a + 3) * d**2 + 1, a * (d**3 - 5 * d**2 + 8 * d - 4)
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def positions(coordinates: str, size: int, out: int, scale: float, start: float, end: float) -> np.ndarray:
    """Where the elements of an axis are taken from, by the standard's table."""
    x = np.arange(out, dtype=np.float64)
    if coordinates == "tf_crop_and_resize":
        if out == 1:
            return np.asarray([0.5 * (start + end) * (size - 1)])
        return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
    if coordinates == "asymmetric":
        return x / scale
    if coordinates == "pytorch_half_pixel" and out == 1:
        return np.zeros(1)
    offset = size / 2 * (1 - out / (scale * size)) if coordinates == "half_pixel_symmetric" else 0
    return offset + (x + 0.5) / scale - 0.5


class Evaluated:
    """Resize in float64 by its formulas: the evaluators take scales, or the cubic coefficient, in float32."""

    def __init__(self, **attributes: Any) -> None:
        self.attributes = attributes

    def __call__(self, x: np.ndarray, roi: Any, scales: Any, sizes: Any = None) -> np.ndarray:
        given = self.attributes
        axes = given.get("axes", list(range(x.ndim)))
        coordinates = given.get("coordinate_transformation_mode", "half_pixel")
        outside = np.zeros((1,) * x.ndim, dtype=bool)
        for k, axis in enumerate(axes):
            size = x.shape[axis]
            out = int(size * scales[k]) if sizes is None else int(sizes[k])
            start, end = (0, 1) if roi is None else (roi[k], roi[len(axes) + k])
            c = positions(coordinates, size, out, 1 if scales is None else scales[k], start, end)
            weights = np.zeros((out, size))
            for tap in range(-8, size + 8):
                weight = kernel(c - tap, given["mode"], given.get("cubic_coeff_a", -0.75))
                if 0 <= tap < size or not given.get("exclude_outside"):
                    weights[:, min(max(tap, 0), size - 1)] += weight
            weights /= weights.sum(axis=1, keepdims=True)
            x = np.moveaxis(np.tensordot(weights, x, (1, axis)), 0, axis)
            if coordinates == "tf_crop_and_resize":
                beyond = (c < 0) | (c > size - 1)
                outside = outside | np.expand_dims(beyond, [a for a in range(x.ndim) if a != axis])
        return np.where(outside, given.get("extrapolation_value", 0.0), x)


def by_scales(x: Tensor, scales: tuple[float, ...], note: str = "", **attributes: Any) -> Case:
    """A row by X and by scales: no size times scale is near a whole number, where the sizes jump."""
    return Case(
        "Resize",
        [x, None, exactly(scales)],
        attributes,
        note=f"by scales {scales} {note}".strip(),
        opset=19,
        forward=Evaluated(**attributes),
        gradient_dtype="float32",
    )


def by_region(region: list[float], sizes: tuple[int, int], mode: str) -> Case:
    """A row by X and by the region of its last two axes."""
    attributes = {
        "mode": mode,
        "coordinate_transformation_mode": "tf_crop_and_resize",
        "extrapolation_value": 3.0,
        "axes": [2, 3],
    }
    return Case(
        "Resize",
        [normal(1, 1, 4, 5), exactly(region), None, up(*sizes)],
        attributes,
        note=f"by a region {region} to {sizes}",
        forward=Evaluated(**attributes),
        gradient_dtype="float32",
    )


NEAREST = [
    ("half_pixel", "round_prefer_floor"),
    ("half_pixel", "round_prefer_ceil"),
    ("half_pixel", "floor"),
    ("half_pixel", "ceil"),
    ("asymmetric", "floor"),
    ("asymmetric", "round_prefer_floor"),
    ("asymmetric", "ceil"),
    ("align_corners", "round_prefer_floor"),
    ("pytorch_half_pixel", "round_prefer_floor"),
]

ROWS = [
    *(
        Case(
            "Resize",
            [normal(1, 2, 2, 3), None, scales(1, 1, *factors)],
            {"coordinate_transformation_mode": mode, "nearest_mode": nearest},
            note=f"nearest {factors}",
        )
        for mode, nearest in NEAREST
        for factors in [(2.0, 3.0), *([] if mode == "align_corners" else [(1.5, 2.6)])]
    ),
    Case(
        "Resize",
        [normal(1, 1, 4, 6), None, scales(1, 1, 0.5, 0.5)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        note="nearest, to half",
    ),
    Case("Resize", [normal(1, 2, 2, 3), None, None, up(1, 2, 4, 9)], note="nearest, sizes, whole factors"),
    Case("Resize", [normal(1, 2, 2, 3), None, None, up(1, 2, 5, 2)], note="nearest, sizes"),
    # the standard's inference takes run-time sizes of unknown number for none, hence symbolic=False
    Case(
        "Resize",
        [normal(1, 2, 2, 3), None, None, run_time([1, 2, 4, 6])],
        note="nearest, sizes at run time",
        symbolic=False,
    ),
    Case(
        "Resize",
        [normal(1, 2, 2, 3), None, run_time([1, 1, 2, 1.5], np.float32)],
        wrt=[0],
        note="nearest, scales at run time",
    ),
    Case("Resize", [normal(1, 2, 3), None, scales(1, 1, 2.0)], note="nearest, one axis"),
    Case("Resize", [normal(1, 2, 2, 3), None, scales(2.0, 3.0)], {"axes": [2, 3]}, note="nearest, axes"),
    Case("Resize", [normal(1, 2, 2, 3), None, scales(3.0, 2.0)], {"axes": [3, 1]}, note="nearest, axes"),
    Case("Resize", [normal(2, 3), None, scales(2.0, 2.0)], note="nearest, a matrix"),
    *(
        Case(
            "Resize",
            [normal(1, 2, 3, 4), None, scales(1, 1, *factors)],
            {"mode": kind, "coordinate_transformation_mode": mode},
            note=f"{factors}",
        )
        for kind in ("linear", "cubic")
        for mode in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        for factors in [(2.0, 1.5), *([] if mode == "align_corners" else [(0.7, 1.0)])]
    ),
    Case("Resize", [normal(1, 2, 3, 4), None, None, up(1, 2, 5, 3)], {"mode": "linear"}, note="sizes"),
    *(
        Case(
            "Resize",
            [normal(1, 2, 3, 4), None, None, up(1, 2, 5, 3)],
            {"mode": kind, "coordinate_transformation_mode": "align_corners"},
            note="sizes",  # with a scale of 0.7 the two evaluators disagree
        )
        for kind in ("nearest", "linear", "cubic")
    ),
    Case(
        "Resize",
        [normal(1, 2, 3, 4), None, None, run_time([1, 2, 5, 3])],
        {"mode": "linear"},
        note="run time",
        symbolic=False,
    ),
    Case(
        "Resize",
        [normal(1, 2, 3, 4), None, scales(1, 1, 2, 2)],
        {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    ),
    Case("Resize", [normal(1, 1, 5, 6), None, scales(1, 1, 0.5, 0.6)], {"mode": "linear", "antialias": 1}),
    *(
        Case(
            "Resize",
            [
                normal(1, 2, 4, 5),
                constant([0, 0, 0.2, 0.4, 1, 1, 0.7, 0.9], np.float32),
                None,
                up(1, 2, 3, 7),
            ],
            {"mode": kind, "coordinate_transformation_mode": "tf_crop_and_resize"},
            note="a region",
        )
        for kind in ("nearest", "linear")
    ),
    Case(
        "Resize",
        [normal(1, 2, 4, 5), constant([-0.5, 0.2, 0.5, 1.1], np.float32), scales(1.5, 0.8)],
        {
            "mode": "linear",
            "coordinate_transformation_mode": "tf_crop_and_resize",
            "extrapolation_value": 4.0,
            "axes": [2, 3],
        },
        note="a region that reaches outside",
    ),
    *(
        Case(
            "Resize",
            [normal(1, 2, 3, 4), None, None, sizes],
            {"mode": kind, "keep_aspect_ratio_policy": policy, "axes": axes},
            note=note,
            opset=18,
        )
        for note, kind, policy, sizes, axes in [
            ("the ratio kept, whole", "nearest", "not_larger", constant([6, 20]), [2, 3]),
            ("the ratio kept, rounded", "linear", "not_larger", constant([7, 7]), [2, 3]),
            ("the ratio kept, rounded", "linear", "not_smaller", constant([4, 7]), [3, 2]),
            ("the ratio kept, rounded", "cubic", "not_smaller", constant([5, 5]), [2, 3]),
            ("the ratio kept, smaller", "nearest", "not_larger", constant([2, 3]), [2, 3]),
        ]
    ),
    Case("AffineGrid", [normal(2, 2, 3), constant([2, 1, 3, 4])], opset=20, forward=grid_2d),
    Case(
        "AffineGrid",
        [normal(1, 3, 4), constant([1, 1, 2, 3, 2])],
        {"align_corners": 1},
        opset=20,
        forward=grid_3d,
    ),
    *(
        Case(
            "Resize",
            [normal(1, 2, 2, 3), None, scales(1, 1, *factors)],
            {"mode": kind, "coordinate_transformation_mode": "half_pixel_symmetric"},
            note=f"{factors}",
            opset=19,
        )
        for kind, factors in [("nearest", (2.0, 3.0)), ("linear", (3.0, 2.0))]
    ),
]

BY_POSITIONS = [
    *(
        by_scales(
            normal(1, 2, 4, 5), factors, mode=kind, axes=[2, 3], coordinate_transformation_mode=coordinates
        )
        for kind in ("linear", "cubic")
        for coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "asymmetric")
        for factors in [(2.1, 1.73), (0.87, 1.1)]
    ),
    by_scales(normal(4, 3), (2.1, 1.17), mode="linear"),
    by_scales(normal(4, 3), (2.1, 1.17), mode="cubic"),
    by_scales(normal(4, 5), (2.1, 0.9), mode="cubic", exclude_outside=1),
    by_scales(normal(4, 5), (2.1, 0.9), mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    by_scales(normal(1, 1, 4, 5), (2.07, 1.12), "the axes swapped", mode="cubic", axes=[3, 2]),
    by_scales(normal(2, 2, 4, 5), (0.41, 0.31), "to one", mode="linear", axes=[2, 3]),
    by_scales(
        normal(2, 2, 4, 5),
        (0.87, 0.31),
        "to one",
        mode="linear",
        axes=[2, 3],
        coordinate_transformation_mode="pytorch_half_pixel",
    ),
    *(
        by_region(region, sizes, kind)
        for kind in ("linear", "cubic")
        for region, sizes in [
            ([0.17, 0.43, 0.71, 0.94], (3, 7)),
            ([0.83, -0.31, 0.09, 1.19], (5, 4)),
            ([0.17, 0.43, 0.71, 0.94], (1, 3)),
        ]
    ),
]

# The reference evaluator resizes in Python loops, and every gradient is linear in the cotangent in the same
# way: a few forms stand for all in second order.
SECOND_ORDER = ("nearest, one axis", "nearest, a matrix", "nearest, sizes")
CASES = [
    *(replace(row, second_order=row.note in SECOND_ORDER or row.type != "Resize") for row in ROWS),
    *BY_POSITIONS,
]
