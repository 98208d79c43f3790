"""Rows of Resize: every mode and coordinate transformation, by scales and by sizes."""

from dataclasses import replace

import numpy as np

from tests.onnx.rules.table import Case, Tensor, constant, normal, run_time


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

# The reference evaluator resizes in Python loops, and every gradient is linear in the cotangent in the same
# way: a few forms stand for all in second order.
SECOND_ORDER = ("nearest, one axis", "nearest, a matrix", "nearest, sizes")
CASES = [replace(row, second_order=row.note in SECOND_ORDER or row.type != "Resize") for row in ROWS]
