"""The element type in which a rule computes what it must not compute in half precision."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.half import working_type

# A filled tensor up to this many elements is written as a constant; a larger one would bloat the model.
_LARGEST_CONSTANT = 4096


def widened(builder: Builder, x: Value) -> Value:
    """``x`` in the working type of its element type; ``x`` itself unless it is half precision.

    The frame casts a contribution back to the element type of its primal.
    """
    if x.dtype is None or working_type(x.dtype) == x.dtype:
        return x
    return builder.assume_like(builder.cast(x, working_type(x.dtype)), x)


def filled(builder: Builder, like: Value, number: float, dtype: ir.DataType | None = None) -> Value:
    """A tensor of ``number`` with the shape of ``like``: a constant where that is small.

    Args:
        builder: Writes the operators.
        like: Gives the shape.
        number: The value of every element.
        dtype: Element type; that of ``like`` by default.
    """
    element = dtype or like.dtype
    assert element is not None, f"the element type of '{like.name}' is unknown"
    shape = like.static_shape
    if shape is None or math.prod(shape) > _LARGEST_CONSTANT:
        return builder.expand_like(builder.constant(number, element), like)
    return builder.constant(np.full(shape, number), element)
