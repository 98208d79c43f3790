"""Rows of Pad."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, constant, exactly, normal, run_time


def padded(pads: list[int], mode: str, axes: list[int] | None = None) -> Any:
    """NumPy's padding; a negative pad cuts off first. The reference evaluator refuses negative pads."""

    def forward(
        x: np.ndarray, pads_again: np.ndarray, value: Any = None, axes_again: Any = None
    ) -> np.ndarray:
        half = len(pads) // 2
        widths = [(0, 0)] * x.ndim
        for axis, before, after in zip(axes or range(x.ndim), pads[:half], pads[half:], strict=True):
            x = np.moveaxis(x, axis, 0)
            x = x[max(-before, 0) : x.shape[0] - max(-after, 0)]
            x = np.moveaxis(x, 0, axis)
            widths[axis] = (max(before, 0), max(after, 0))
        if mode == "constant":
            return np.pad(x, widths, constant_values=0.0 if value is None else float(np.squeeze(value)))
        return np.pad(x, widths, mode=mode)

    return forward


def row(x: Tensor, pads: list[int], mode: str = "constant", *, value: Tensor | None = None,
        axes: list[int] | None = None, at_run_time: bool = False, note: str = "") -> Case:  # fmt: skip
    made = run_time if at_run_time else constant
    inputs = [x, made(pads), value, None if axes is None else made(axes)]
    while inputs[-1] is None:
        inputs.pop()
    return Case(
        "Pad", inputs, {"mode": mode}, note=f"{pads} {note}".strip(), opset=19,
        forward=padded(pads, mode, axes), fan_out=False,
    )  # fmt: skip


CASES = [
    row(normal(2, 3), [0, 1, 2, 0]),
    row(normal(2, 3), [1, 1, 1, 1], value=normal(), note="and the value"),
    row(normal(2, 3), [1, 0, 0, 2], value=exactly(0.7, fed=False), note="constant value"),
    row(normal(2, 3), [0, 0, 0, 0], value=normal(), note="no padding"),
    row(normal(4, 3), [-1, 2, 1, -1], value=normal(), note="negative pads"),
    row(normal(4, 3), [-1, 0, -2, -1], note="only negative pads"),
    row(normal(2, 3), [1, 2], axes=[1], note="axes"),
    row(normal(2, 3, 2), [1, 0, 2, 1], axes=[-1, 0], value=normal(), note="negative axis"),
    row(normal(2, 3), [0, 1, 2, 0], at_run_time=True, note="at run time"),
    row(normal(3, 4), [1, -1, -2, 2], value=normal(), at_run_time=True, note="negative at run time"),
    row(normal(2, 3), [-1, 2], axes=[1], value=normal(), at_run_time=True, note="axes at run time"),
    row(normal(0, 3), [1, 0, 1, 0], value=normal(), note="empty"),
    row(normal(2, 4), [0, 3, 0, 2], "reflect"),
    row(normal(3, 4), [2, 1, 1, 0], "reflect", note="both axes"),
    row(normal(1, 2, 3, 4), [1, 2, 2, 3], "reflect", axes=[2, 3], note="axes"),
    row(normal(2, 5), [1, -1, 0, 2], "reflect", note="negative pads"),
    row(normal(2, 5), [0, -3, 0, 1], "reflect", note="pads more than half negative"),
    row(normal(3, 4), [2, 1, 1, 0], "reflect", at_run_time=True, note="at run time"),
    row(normal(2, 4), [3, 2], "reflect", axes=[-1], at_run_time=True, note="axes at run time"),
    row(normal(3, 4), [0, 0, 0, 0], "reflect", note="no padding"),
    row(normal(2, 3), [1, 2, 0, 1], "edge"),
    row(normal(2, 3), [0, 7, 5, 6], "edge", note="wide"),
    row(normal(2, 5), [1, -1, 0, 2], "edge", note="negative pads"),
    row(normal(2, 3), [1, 2, 0, 1], "edge", at_run_time=True, note="at run time"),
    row(normal(2, 3), [1, 2, 0, 1], "edge", value=normal(), note="value that is not read"),
    row(normal(2, 3), [1, 2, 0, 1], "wrap"),
    row(normal(2, 3), [0, 7, 3, 5], "wrap", note="around several times"),
    row(normal(2, 5), [1, -1, 0, 2], "wrap", note="negative pads"),
    row(normal(2, 3), [1, 2, 0, 1], "wrap", at_run_time=True, note="at run time"),
]
