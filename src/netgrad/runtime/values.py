"""NumPy arrays to and from the values that ONNX Runtime owns.

`OrtValue.ortvalue_from_numpy` shares the array's memory: two values made from one array are one buffer.
Everything that outlives a call is therefore copied here.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import onnx_ir
import onnxruntime

NATIVE = frozenset(
    onnx_ir.DataType[name]
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BOOL"),
        *("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    )
)
"""The element types that ONNX Runtime takes as NumPy arrays directly."""


def copy_to_value(array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    """A value with its own memory that holds ``array``."""
    value = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(array.shape), _element_type(array))
    write_value(value, array)
    return value


def write_value(value: onnxruntime.OrtValue, array: np.ndarray[Any, Any]) -> None:
    """Overwrite ``value``, which has the shape and dtype of ``array`` and lies in host memory."""
    if array.size:
        contiguous = np.ascontiguousarray(array)
        ctypes.memmove(value.data_ptr(), contiguous.ctypes.data, contiguous.nbytes)


def share_as_value(array: np.ndarray[Any, Any]) -> onnxruntime.OrtValue:
    """A value on the memory of the contiguous ``array``: for the length of one call."""
    if _is_native(array.dtype):
        return onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array, _element_type(array))


@cache
def _is_native(dtype: np.dtype[Any]) -> bool:
    return onnx_ir.DataType.from_numpy(dtype) in NATIVE


def copy_from_value(value: onnxruntime.OrtValue) -> np.ndarray[Any, Any]:
    """The tensor that ``value`` holds, as an array of its own; bfloat16 and float8 included."""
    dtype = onnx_ir.DataType(value.element_type())
    if dtype in NATIVE or dtype == onnx_ir.DataType.STRING:
        return np.array(value.numpy())
    shape = tuple(value.shape())
    array = np.empty(shape, dtype.numpy())
    if array.size:
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array


def empty_like(value: onnxruntime.OrtValue) -> onnxruntime.OrtValue:
    """A value of the same shape and element type with memory of its own, not initialised."""
    return onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(value.shape()), value.element_type())


def _element_type(array: np.ndarray[Any, Any]) -> int:
    return int(onnx_ir.DataType.from_numpy(array.dtype))
