"""Fills: blobs that are written from nothing, or in the shape of another."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.lowering.context import ELEMENT_TYPES, Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.core import Operator
from netgrad.onnx.builder import Value

_GIVEN = {
    "GivenTensorFill": TensorProto.FLOAT,
    "GivenTensorDoubleFill": TensorProto.DOUBLE,
    "GivenTensorIntFill": TensorProto.INT32,
    "GivenTensorInt16Fill": TensorProto.INT16,
    "GivenTensorInt64Fill": TensorProto.INT64,
    "GivenTensorBoolFill": TensorProto.BOOL,
}


def _shape(c: Context, like: Value | None) -> Value:
    """The shape that a fill has: of the argument, or of a blob, with further dims behind it."""
    if like is None:
        return c.b.ints(_listed_shape(c))
    is_shape = c.argument("input_as_shape", False)
    shape = c.b.cast(like, ir.DataType.INT64) if is_shape else c.b.shape_of(like)
    extra = c.integers("extra_shape")
    return c.b.concat([shape, c.b.ints(extra)], 0) if extra else shape


def _listed_shape(c: Context) -> list[int]:
    """The shape that the argument lists; as in the original, a number is no list of one dim."""
    return c.integers("shape")


@lowers(*_GIVEN)
def _given(c: Context, like: Value | None = None) -> Value:
    dtype = ELEMENT_TYPES[c.argument("dtype", 0) or _GIVEN[c.definition.type]]
    content = np.asarray(c.numbers("values")).astype(dtype.numpy())
    if like is not None:
        return c.b.op("Reshape", c.b.constant(content), _shape(c, like))
    return _reshaped(c, content)


def _reshaped(c: Context, content: np.ndarray[Any, Any]) -> Value:
    shape = _listed_shape(c)
    if content.size != math.prod(shape):
        raise c.refused(f"{content.size} values don't fill the shape {list(shape)}")
    return c.b.constant(content.reshape(shape))


@lowers("GivenTensorByteStringToUInt8Fill")
def _given_bytes(c: Context, like: Value | None = None) -> Value:
    """The bytes of texts, one after the other."""
    texts = c.numbers("values")
    if not all(isinstance(text, bytes) for text in texts):
        raise c.refused("the argument 'values' holds texts")
    content = np.frombuffer(b"".join(texts), np.uint8)
    if like is not None:
        return c.b.op("Reshape", c.b.constant(content), _shape(c, like))
    return _reshaped(c, content)


def _value_and_type(c: Context) -> tuple[float, ir.DataType]:
    """What a fill holds: of type ``dtype``, else int64 for a whole number and float32 for another one."""
    value = c.single("value") if c.has("value") else 0.0
    if isinstance(value, bytes):
        raise c.refused("a fill of texts holds no numbers")
    default = TensorProto.INT64 if isinstance(value, int) else TensorProto.FLOAT
    return value, ELEMENT_TYPES[c.argument("dtype", 0) or default]


@lowers("ConstantFill")
def _constant(c: Context, like: Value | None = None, given: Value | None = None) -> Value:
    """Of the type that `_value_and_type` says; in the shape of a double blob, of double.

    With a second input, its only element in place of the argument, and of its type.
    """
    value, dtype = _value_and_type(c)
    if like is not None and given is not None:
        if c.has("dtype") and given.dtype is not dtype:
            raise c.refused(f"the value is of type {given.dtype}, the argument 'dtype' says {dtype}")
        shape = _shape(c, like) if c.argument("input_as_shape", False) else c.b.shape_of(like)
        return c.b.op("Expand", c.b.reshape(given, []), shape)
    if like is not None and not c.argument("input_as_shape", False) and not c.has("extra_shape"):
        if like.dtype is not None and like.is_floating and dtype is ir.DataType.FLOAT:
            dtype = like.dtype  # start gradients of double nets are double
        return c.b.assume_like(c.b.fill(c.b.shape_of(like), value, dtype), like)
    return c.b.fill(_shape(c, like), value, dtype)


def _seed(c: Context) -> float | None:
    option = c.definition.device_option
    return float(option.random_seed) if option.HasField("random_seed") else None


@lowers("UniformFill")
def _uniform(
    c: Context, like: Value | None = None, low: Value | None = None, high: Value | None = None
) -> Value:
    if like is not None and low is not None:
        first, last, shape = _bounds(c, like, low, high)
        return first + _drawn_in(c, shape, "RandomUniformLike", low=0.0, high=1.0) * (last - first)
    return _drawn(c, like, "RandomUniformLike", low=c.argument("min", 0.0), high=c.argument("max", 1.0))


@lowers("Float16UniformFill")
def _uniform_half(c: Context) -> Value:
    low, high = c.argument("min", 0.0), c.argument("max", 1.0)
    return c.b.cast(_drawn(c, None, "RandomUniformLike", low=low, high=high), ir.DataType.FLOAT16)


def _bounds(c: Context, like: Value, low: Value, high: Value | None) -> tuple[Value, Value, Value]:
    """Bounds that are blobs, and the shape: there is nothing to draw if the upper one is the smaller one."""
    if high is None or c.has("min") or c.has("max"):
        raise c.refused("bounds are two inputs behind the shape, or the arguments 'min' and 'max'")
    first, last = (c.b.reshape(bound, []) for bound in (low, high))
    shape = _shape(c, like)
    none = c.b.op("And", c.b.constant(np.arange(c.static(shape, 0)) == 0), last < first)
    return first, last, c.b.assume_like(c.b.where(none, 0, shape), shape)


@lowers("GaussianFill")
def _gaussian(c: Context, like: Value | None = None) -> Value:
    return _drawn(c, like, "RandomNormalLike", mean=c.argument("mean", 0.0), scale=c.argument("std", 1.0))


@lowers("XavierFill")
def _xavier(c: Context, like: Value | None = None) -> Value:
    """Uniform in ±sqrt(3 / fan), where fan is the number of elements per first dim."""
    shape = _shape(c, like)
    drawn = _drawn_in(c, shape, "RandomUniformLike", low=-1.0, high=1.0)
    return drawn * c.b.op("Sqrt", _one_by_fan(c, shape, 0) * 3.0)


@lowers("MSRAFill")
def _msra(c: Context, like: Value | None = None) -> Value:
    """Normal with the deviation sqrt(2 / fan), where fan is the number of elements per second dim."""
    shape = _shape(c, like)
    drawn = _drawn_in(c, shape, "RandomNormalLike", mean=0.0, scale=1.0)
    return drawn * c.b.op("Sqrt", _one_by_fan(c, shape, 1) * 2.0)


def _one_by_fan(c: Context, shape: Value, axis: int) -> Value:
    """The size of one dim by that of the whole; the shape may be computed."""
    sizes = c.b.cast(shape, ir.DataType.FLOAT)
    size = c.b.op("Gather", sizes, c.b.constant(np.int64(axis)), axis=0)
    return size / c.b.op("ReduceProd", sizes, keepdims=0)


def _drawn(c: Context, like: Value | None, op_type: str, **range_: float) -> Value:
    return _drawn_in(c, _shape(c, like), op_type, **range_)


def _drawn_in(c: Context, shape: Value, op_type: str, **range_: float) -> Value:
    template = c.b.fill(shape, 0.0, ir.DataType.FLOAT)
    seed = _seed(c)
    attributes = {**range_, "dtype": int(ir.DataType.FLOAT), **({} if seed is None else {"seed": seed})}
    # Two draws are two operators, though they may look alike.
    drawn = Operator(op_type, (template.name,), (op_type,), attributes)
    return c.b.written(drawn, [template.info.plain])[0]


@lowers("RangeFill")
def _range(c: Context, like: Value | None = None) -> Value:
    shape = _shape(c, like)
    count = c.b.op("ReduceProd", shape, keepdims=0)
    numbers = c.b.op("Range", c.b.constant(np.int64(0)), count, c.b.constant(np.int64(1)))
    return c.b.op("Reshape", c.b.cast(numbers, ir.DataType.FLOAT), shape, allowzero=1)


@lowers("UniformIntFill")
def _uniform_integers(
    c: Context, like: Value | None = None, first: Value | None = None, last: Value | None = None
) -> Value:
    """Whole numbers from ``min`` to ``max``, or between two inputs; both are included."""
    if like is not None and first is not None:
        first, last, shape = _bounds(c, like, first, last)
        share = _drawn_in(c, shape, "RandomUniformLike", low=0.0, high=1.0)
        count = c.b.cast(last - first + 1, ir.DataType.FLOAT)
        step = c.b.op("Min", c.b.op("Floor", share * count), count - 1.0)
        return c.b.cast(first, ir.DataType.INT32) + c.b.cast(step, ir.DataType.INT32)
    low, high = c.argument("min", 0), c.argument("max", 1)
    drawn = _drawn(c, like, "RandomUniformLike", low=float(low), high=float(high + 1))
    # float32 may round a draw up to the bound that is not included
    bounded = c.b.op("Min", c.b.op("Floor", drawn), c.b.scalar(high, drawn))
    return c.b.cast(bounded, ir.DataType.INT32)


@lowers("Float16ConstantFill")
def _constant_half(c: Context) -> Value:
    return c.b.fill(_shape(c, None), c.argument("value", 0.0), ir.DataType.FLOAT16)


@lowers("DiagonalFill")
def _diagonal(c: Context, like: Value | None = None) -> Value:
    """Zeros, with a value where all indices are the same; more than two dims have one size."""
    b, shape = c.b, _shape(c, like)
    value, dtype = _value_and_type(c)
    rank = (shape.static_shape or (0,))[0]
    if rank == 2:
        return b.op("EyeLike", b.fill(shape, 0.0, ir.DataType.FLOAT), dtype=int(dtype)) * value
    if like is not None and c.argument("input_as_shape", False) and like.constant is None:
        raise c.refused("its shape is computed, and a known one is needed for more than two dims")
    sizes = set(_listed_shape(c) if like is None else c.static_shape(like))
    if rank < 2 or len(sizes) > 1:
        raise c.refused("the shape of a matrix, or one of more dims of one size, is needed")
    size = sizes.pop()
    flat = b.constant(np.arange(size**rank) % max(sum(size**k for k in range(rank)), 1) == 0)
    return b.cast(b.op("Reshape", flat, shape), dtype) * value
