"""Rows of dequantisation: the gradient of the scales, which exist up to float32."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, constant, exactly, run_time, uniform


def dequantize(axis: int | None = None) -> Any:
    def forward(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None) -> np.ndarray:
        shape = [1] * x.ndim
        if axis is not None:
            shape[axis] = -1
            scale, zero = scale.reshape(shape), None if zero is None else zero.reshape(shape)
        return (x.astype(np.float64) - (0 if zero is None else zero.astype(np.float64))) * scale

    return forward


def dequantize_blocks(axis: int, block: int) -> Any:
    def forward(x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None) -> np.ndarray:
        size = x.shape[axis]

        def spread(values: np.ndarray) -> np.ndarray:
            return np.repeat(values.astype(np.float64), block, axis).take(range(size), axis)

        return (x.astype(np.float64) - (0 if zero is None else spread(zero))) * spread(scale)

    return forward


def _blocked(axis: int, block: int, *, zero: bool) -> Case:
    shape = list(X.shape)
    shape[axis] = -(-shape[axis] // block)
    inputs = [run_time(X, np.uint8), uniform(0.1, 2.0, *shape)]
    if zero:
        inputs.append(constant(np.arange(np.prod(shape)).reshape(shape) * 20, np.uint8))
    return Case(
        "DequantizeLinear",
        inputs,
        {"axis": axis, "block_size": block},
        "blocks" if zero else "blocks without zero points",
        opset=21,
        wrt=[1],
        forward=dequantize_blocks(axis, block),
        gradient_dtype="float32",
    )


X = np.array([[[3, 200, 0, 17], [90, 5, 61, 128]], [[1, 2, 3, 4], [250, 9, 8, 77]]], np.uint8)

CASES = [
    Case(
        "DequantizeLinear",
        [run_time(X, np.uint8), exactly(0.25), constant(7, np.uint8)],
        wrt=[1],
        note="one scale",
        forward=dequantize(),
        gradient_dtype="float32",
    ),
    Case(
        "DequantizeLinear",
        [constant(X.astype(np.int8), np.int8), exactly([0.25])],
        wrt=[1],
        note="one scale in a vector",
        forward=dequantize(),
        gradient_dtype="float32",
    ),
    *(
        Case(
            "DequantizeLinear",
            [
                run_time(X, np.uint8),
                exactly([0.25, 0.5, 1.5, 0.125][: X.shape[axis]]),
                constant([7, 0, 128, 1][: X.shape[axis]], np.uint8),
            ],
            {"axis": axis},
            wrt=[1],
            forward=dequantize(axis),
            gradient_dtype="float32",
        )
        for axis in (0, 1, -1)
    ),
    _blocked(-1, 2, zero=True),
    _blocked(2, 3, zero=True),
    _blocked(1, 2, zero=False),
    _blocked(0, 1, zero=True),
]
