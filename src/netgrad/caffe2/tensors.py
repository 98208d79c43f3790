"""Tensors as messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.core import InvalidArgumentError, InvalidModelError

Array = np.ndarray[Any, Any]

ELEMENTS: dict[int, Any] = {
    TensorProto.FLOAT: np.float32,
    TensorProto.INT32: np.int32,
    TensorProto.BYTE: np.uint8,
    TensorProto.STRING: np.object_,
    TensorProto.BOOL: np.bool_,
    TensorProto.UINT8: np.uint8,
    TensorProto.INT8: np.int8,
    TensorProto.UINT16: np.uint16,
    TensorProto.INT16: np.int16,
    TensorProto.INT64: np.int64,
    TensorProto.FLOAT16: np.float16,
    TensorProto.DOUBLE: np.float64,
}
"""NumPy's element types by the numbers of Caffe2's."""

_NUMBERS = {np.dtype(kind): number for number, kind in ELEMENTS.items() if number != TensorProto.BYTE}

_FIELDS = {
    TensorProto.FLOAT: "float_data",
    TensorProto.DOUBLE: "double_data",
    TensorProto.INT64: "int64_data",
    TensorProto.STRING: "string_data",
}  # of all others: int32_data


def number_of(dtype: Any) -> int:
    """Caffe2's number of a NumPy element type; texts of any kind are strings.

    Raises:
        InvalidArgumentError: Caffe2 has no such type.
    """
    found = np.dtype(dtype)
    if found.kind in "SU":
        return TensorProto.STRING
    if found not in _NUMBERS:
        raise InvalidArgumentError(f"Caffe2 has no tensors of {found}")
    return _NUMBERS[found]


def to_message(
    array: Array, name: str | None = None, begin: int = 0, end: int | None = None, *, bfloat16: bool = False
) -> TensorProto:
    """An array as a message.

    Args:
        array: The array.
        name: The name that it gets.
        begin: The first element (in row-major order) that the message holds.
        end: The element after the last one; with None the message holds all elements and says no segment.
        bfloat16: Whether of elements of float32 only the upper halves are kept.

    Raises:
        InvalidArgumentError: Caffe2 has no tensors of its element type.
    """
    array = np.asarray(array)
    message = TensorProto(dims=array.shape, data_type=number_of(array.dtype))  # type: ignore[arg-type]
    if name is not None:
        message.name = name
    elements = array.reshape(-1)
    if end is not None:
        message.segment.begin, message.segment.end = begin, end
        elements = elements[begin:end]
    if bfloat16 and message.data_type == TensorProto.FLOAT:
        message.data_format = TensorProto.FMT_BFLOAT16
        message.raw_data = _upper_halves(elements).astype("<u2").tobytes()
    elif message.data_type == TensorProto.STRING:
        message.string_data.extend(_text(one) for one in elements)
    elif message.data_type == TensorProto.FLOAT16:
        message.int32_data.extend(elements.view(np.uint16).astype(np.int32))
    elif message.data_type in _FIELDS:
        getattr(message, _FIELDS[message.data_type]).extend(elements.tolist())
    else:
        message.int32_data.extend(elements.astype(np.int32).tolist())
    return message


def _upper_halves(elements: Array) -> Array:
    """Of float32, as uint16; rounded, halves away from zero, as the original does."""
    bits = np.ascontiguousarray(elements).view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(elements), np.uint16(0x7FC0), ((bits + 0x8000) >> 16).astype(np.uint16))


def _text(element: Any) -> bytes:
    if not isinstance(element, str | bytes):
        raise InvalidArgumentError(
            f"Caffe2 has no tensors of {type(element).__name__}: texts are str or bytes"
        )
    return element.encode() if isinstance(element, str) else element


def elements_of(message: TensorProto) -> Array:
    """The elements that a message holds, as a vector.

    Raises:
        InvalidModelError: They are of an unknown type, or stored outside the message.
    """
    kind = message.data_type
    where = f"tensor '{message.name}'" if message.name else "a tensor"
    if kind not in ELEMENTS:
        raise InvalidModelError(f"{where} has elements of the unknown type {kind}")
    if message.HasField("external_data"):
        raise InvalidModelError(f"{where} is stored in another file, which can't be read")
    if message.data_format == TensorProto.FMT_BFLOAT16:
        if kind != TensorProto.FLOAT:
            raise InvalidModelError(f"{where} has elements of type {kind} in the form of bfloat16")
        return (np.frombuffer(message.raw_data, "<u2").astype(np.uint32) << 16).view(np.float32)
    if message.HasField("raw_data") and message.raw_data:
        return np.frombuffer(message.raw_data, np.dtype(ELEMENTS[kind]).newbyteorder("<"))
    if kind == TensorProto.STRING:
        return np.array(list(message.string_data) or [], dtype=object)
    if message.byte_data and kind in (TensorProto.BYTE, TensorProto.UINT8, TensorProto.FLOAT16):
        return np.frombuffer(message.byte_data, np.dtype(ELEMENTS[kind]).newbyteorder("<"))
    if kind == TensorProto.FLOAT16:
        return np.asarray(message.int32_data, np.int32).astype(np.uint16).view(np.float16)
    return np.asarray(getattr(message, _FIELDS.get(kind, "int32_data")), dtype=ELEMENTS[kind])


def to_array(message: TensorProto) -> Array:
    """The array of a message that holds all elements.

    Raises:
        InvalidModelError: It doesn't, or `elements_of` raises.
    """
    elements = elements_of(message)
    if elements.size != int(np.prod(message.dims, dtype=np.int64)):
        raise InvalidModelError(
            f"tensor '{message.name}' has {elements.size} elements, which don't fill {list(message.dims)}"
        )
    return elements.reshape(tuple(message.dims))
