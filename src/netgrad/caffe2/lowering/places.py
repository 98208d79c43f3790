"""Numbers of rows, of classes and of segments, which are counted from the front only."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value


def from_front(b: Builder, places: Value) -> Value:
    """Integers whose negative ones are far outside, so that looking one up fails.

    ONNX would count them from the end, where the original refuses them. They lose their sign bit.
    """
    width = np.int32 if places.dtype is ir.DataType.INT32 else np.int64
    return b.op("BitwiseAnd", places, b.constant(np.asarray(np.iinfo(width).max, width)))
