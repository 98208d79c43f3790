"""Lookups."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("Gather")
def _gather(n: Node) -> None:
    """Caffe2 counts from the front: negative places that are known are changed."""
    axis = n.axis(n.attribute("axis", 0))
    places = n.info(1).constant
    reads = list(n.inputs)
    if places is not None and places.size and places.min() < 0:
        counted = np.where(places < 0, places + n.dim(0, axis), places).astype(places.dtype)
        reads[1] = n.parameter(counted, "places")
    n.write("Gather", reads, axis=axis or None)
