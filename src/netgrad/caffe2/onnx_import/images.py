"""Images resized."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("Resize")
def _resize(n: Node) -> None:
    """Nearest pixels counted from a corner, and bilinear with corners aligned: the two that Caffe2 has."""
    rank = n.rank()
    if rank not in (3, 4):
        raise n.refused("Caffe2 resizes images (N, C, H, W)")
    scales = _scales(n)
    if any(scale != 1.0 for scale in scales[:-2]):
        raise n.refused("Caffe2 resizes height and width")
    mode = n.attribute("mode", "nearest")
    way = n.attribute("coordinate_transformation_mode", "half_pixel")
    if (
        mode == "nearest"
        and way == "asymmetric"
        and n.attribute("nearest_mode", "round_prefer_floor") == "floor"
    ):
        type_ = "ResizeNearest"
    elif mode == "linear" and way == "align_corners" and not n.attribute("antialias", 0):
        type_ = "UpsampleBilinear"
        for axis in (rank - 2, rank - 1):  # the corners of a result with a part of a pixel lie elsewhere
            if scales[axis] != 1.0 and not float(scales[axis] * n.dim(0, axis)).is_integer() and not n.has(3):
                raise n.refused(f"a scale of {scales[axis]} gives no whole number of pixels")
    else:
        raise n.refused(
            "Caffe2 takes the nearest pixel (mode nearest, asymmetric, floor), or interpolates linearly with "
            "corners aligned"
        )
    named: dict[str, Any] = {"height_scale": float(scales[-2]), "width_scale": float(scales[-1])}
    if rank == 4:
        n.write(type_, **named)
    else:  # one image of these channels
        image = n.step("ExpandDims", n.inputs[:1], dims=[0])
        n.write("Squeeze", [n.step(type_, [image], **named)], dims=[0])


def _scales(n: Node) -> Sequence[float]:
    if n.attribute("axes", None) or n.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise n.refused("Caffe2 resizes by scales of height and width")
    if n.has(2) and n.info(2).shape != (0,):
        found: list[float] = n.constant(2).astype(np.float64).tolist()
        return found
    sizes = n.numbers(3)
    shape = n.info(0).shape or ()
    # a dim that varies is not resized if the size is computed from it, which a constant is not
    scales = [size / n.dim(0, axis) if size != shape[axis] else 1.0 for axis, size in enumerate(sizes)]
    for axis, scale in enumerate(scales):
        if int(np.float32(scale) * np.float32(n.dim(0, axis))) != sizes[axis]:
            raise n.refused(f"no scale of float32 gives the size {sizes[axis]}")
    return scales
