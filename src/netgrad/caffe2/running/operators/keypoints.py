"""Points of interest read off maps of heat."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.blob import Array
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_FLAT = 1e-4  # a determinant below that tells no peak
_FARTHEST = 1.5  # how far the peak may lie from the largest element


def _peak(around: Array) -> tuple[float, float, float]:
    """How far the peak of a quadratic function through 3 x 3 values is from the middle, and its height.

    One step of Newton's method: Hessian times step is minus the gradient, both by differences.
    """
    slope = np.array([around[1, 2] - around[1, 0], around[2, 1] - around[0, 1]]) / 2
    twist = (around[2, 2] - around[2, 0] - around[0, 2] + around[0, 0]) / 4
    middle = around[1, 1]
    across = around[1, 0] - 2 * middle + around[1, 2]
    down = around[0, 1] - 2 * middle + around[2, 1]
    determinant = across * down - twist * twist
    if abs(determinant) < _FLAT:
        return 0.0, 0.0, float(middle)
    step = (
        np.array([-slope[0] * down + slope[1] * twist, -slope[1] * across + slope[0] * twist]) / determinant
    )
    step *= min(1.0, _FARTHEST / max(np.abs(step).max(), 1e-30))
    curve = step @ np.array([[across, twist], [twist, down]]) @ step
    return float(step[0]), float(step[1]), float(middle + slope @ step + curve / 2)


@runs("HeatmapMaxKeypoint")
def _heatmap_max_keypoint(call: Call) -> None:
    """For each region and map the place of the peak in the region's box, its height, and its probability.

    Outside of a map its values are mirrored. Probabilities, the softmax over the map, are 0 unless
    ``should_output_softmax`` asks for them. Output: (regions, 4, maps).
    """
    maps, boxes = call.array(0), call.array(1)
    if maps.ndim != 4 or maps.shape[2] != maps.shape[3] or maps.shape[2] < 2:
        raise call.error(f"square maps of at least 2 x 2 are needed, not {list(maps.shape)}")
    if boxes.shape != (len(maps), 4):
        raise call.error(f"there are boxes {list(boxes.shape)} for {len(maps)} regions")
    size, soft = maps.shape[2], bool(call.argument("should_output_softmax", 0))
    found = np.zeros((len(maps), 4, maps.shape[1]), np.float32)
    for region, (x0, y0, x1, y1) in enumerate(boxes):
        wide, high = max(x1 - x0, 1), max(y1 - y0, 1)
        for number, heat in enumerate(maps[region]):
            row, column = divmod(int(heat.argmax()), size)
            x, y, height = _peak(np.pad(heat, 1, mode="reflect")[row : row + 3, column : column + 3])
            chance = 1 / np.exp(heat - heat[row, column]).sum() if soft else 0.0
            found[region, :, number] = (
                x0 + (column + x + 0.5) * wide / size,
                y0 + (row + y + 0.5) * high / size,
                height,
                chance,
            )
    call.write(0, found)
