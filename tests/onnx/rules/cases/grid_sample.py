"""Rows of GridSample: positions inside of the image, near its border and far outside, away from kinks."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, build, exactly, normal, runner


def _grid(*shape: int, sizes: tuple[int, ...], limit: float = 1.7) -> Tensor:
    """Positions of which none is within 0.05 of a whole or half pixel, counted from -1 either way."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        axes = []
        for size in reversed(sizes):
            found = rng.uniform(-limit, limit, size=(200, *shape))
            far = np.ones(found.shape, bool)
            for pixel in ((found + 1) * size / 2 - 0.5, (found + 1) * (size - 1) / 2):
                far &= np.abs(2 * pixel - np.round(2 * pixel)) > 0.1
            axes.append(np.take_along_axis(found, far.argmax(axis=0)[None], axis=0)[0])
        return np.round(np.stack(axes, axis=-1), 4)

    return Tensor(draw)


def _row(
    x: tuple[int, ...], points: tuple[int, ...], note: str = "", opset: int = 20, **options: Any
) -> Case:
    wrt = [0] if options.get("mode") == "nearest" else None
    return Case(
        "GridSample", [normal(*x), _grid(x[0], *points, sizes=x[2:])], options, note, wrt=wrt, opset=opset
    )


def _renamed(x: tuple[int, ...], mode: str, **options: Any) -> Case:
    """Modes as they were called before opset 20, for which ONNX Runtime has a float32 kernel only."""
    later = _row(x, (2, 2), mode=mode, **options)

    def forward(image: np.ndarray, grid: np.ndarray) -> np.ndarray:
        return runner(build(later))({"x0": image, "x1": grid})["y0"]

    return Case(
        "GridSample",
        later.inputs,
        {"mode": f"bi{mode}", **options},
        opset=18,
        forward=forward,
        gradient_dtype="float32",
    )


CASES = [
    *(
        _row((1, 2, 3, 4), (2, 3), mode=mode, padding_mode=padding, align_corners=aligned)
        for mode in ("linear", "nearest")
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ),
    *(
        _row((1, 1, 5, 4), (2, 2), mode="cubic", padding_mode=padding, align_corners=aligned)
        for padding in ("zeros", "border", "reflection")
        for aligned in (0, 1)
    ),
    *(
        _row((1, 1, 2, 3, 3), (1, 2, 2), mode="linear", padding_mode=padding, align_corners=aligned)
        for padding, aligned in (("zeros", 0), ("border", 1), ("reflection", 0))
    ),
    _row((2, 1, 3, 2, 3), (2, 1, 2), note="two volumes", mode="nearest"),
    _row((2, 3, 4, 3), (3, 1), note="two images"),
    _renamed((2, 1, 4, 3), "linear", align_corners=1),
    _renamed((1, 1, 4, 3), "cubic", padding_mode="border"),
    _row((1, 1, 1, 4), (2, 2), "one row", align_corners=1, padding_mode="reflection"),
    _row((1, 2, 3, 4), (0, 2), "no points"),
    Case(
        "GridSample",
        [normal(1, 2, 3, 4), _grid(1, 2, 2, sizes=(3, 4))],
        {"mode": "nearest"},
        "grid",
        opset=20,
        wrt=[1],
        second_order=False,  # it is zero
        expected=[np.zeros((1, 2, 2, 2))],
    ),
    Case(
        "GridSample",
        [exactly([[[[1.0, 2.0, 5.0]]]]), exactly([[[[0.0, 0.0]]]])],
        {"align_corners": 1},
        "whole position",
        opset=20,
        expected=[[[[[0, 1, 0]]]], [[[[3, 0]]]]],
    ),
]
