"""Texts, which ONNX Runtime would take for UTF-8, and Caffe2 takes for bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs, runs_texts


def _of_texts(definition: OperatorDef) -> bool:
    return any(argument.name == "dtype" and argument.i == TensorProto.STRING for argument in definition.arg)


def _filled(call: Call, values: list[Any]) -> None:
    if call.definition.input:
        if call.argument("input_as_shape", 0):
            shape = [int(dim) for dim in call.array(0).reshape(-1)]
        else:
            shape = list(call.array(0).shape)
        shape += [int(dim) for dim in call.argument("extra_shape", ())]
    else:
        shape = [int(dim) for dim in call.argument("shape", ())]
    count = math.prod(shape)
    if len(values) == 1:
        values = values * count
    if len(values) != count:
        raise call.error(f"{len(values)} values don't fill shape {shape}")
    array = np.empty(count, object)
    array[:] = values
    call.put(0, array.reshape(shape))


@runs("GivenTensorStringFill")
@runs("GivenTensorFill", when=_of_texts)
def _given(call: Call) -> None:
    values = list(call.argument("values", ()))
    if len(values) == 1 and not call.definition.input and math.prod(call.argument("shape", ())) != 1:
        raise call.error("one value doesn't fill the shape")
    _filled(call, values)


@runs("ConstantFill", when=_of_texts)
def _constant(call: Call) -> None:
    _filled(call, [call.argument("value", b"")])


@runs("StringPrefix")
def _prefix(call: Call) -> None:
    length = call.argument("length", 3)
    _each(call, lambda text: text[:length])


@runs("StringSuffix")
def _suffix(call: Call) -> None:
    length = call.argument("length", 3)
    _each(call, lambda text: text[-length:] if length else b"")


@runs("StringStartsWith")
def _starts_with(call: Call) -> None:
    prefix = call.argument("prefix", b"")
    _each(call, lambda text: text.startswith(prefix), np.bool_)


@runs("StringEndsWith")
def _ends_with(call: Call) -> None:
    suffix = call.argument("suffix", b"")
    _each(call, lambda text: text.endswith(suffix), np.bool_)


@runs("StringEquals")
def _equals(call: Call) -> None:
    wanted = call.argument("text", b"")
    _each(call, lambda text: text == wanted, np.bool_)


@runs("StringJoin")
def _join(call: Call) -> None:
    """Each row as a text: its elements, each with the delimiter behind it; along axis 1 each column."""
    array = call.array(0)
    if array.ndim not in (1, 2):
        raise call.error(f"a vector or matrix is needed, not {array.ndim} dims")
    if call.argument("axis", 0):
        array = array.T
    delimiter = call.argument("delimiter", b",")
    joined = [b"".join(_text(element) + delimiter for element in np.atleast_1d(row)) for row in array]
    results = np.empty(len(joined), object)
    results[:] = joined
    call.write(0, results)


def _text(element: Any) -> bytes:
    """An element as the original prints it: floats with six digits, truth values as numbers."""
    if isinstance(element, bytes | str):
        return element.encode() if isinstance(element, str) else element
    if isinstance(element, np.floating):
        return f"{float(element):g}".encode()
    return str(int(element)).encode()


def _each(call: Call, function: Callable[[bytes], Any], dtype: Any = object) -> None:
    texts = call.array(0)
    results = np.empty(texts.size, dtype)
    for at, text in enumerate(texts.reshape(-1)):
        results[at] = function(text.encode() if isinstance(text, str) else text)
    call.write(0, results.reshape(texts.shape))


@runs_texts("Copy", "Alias", "CopyCPUToGPU", "CopyGPUToCPU", "StopGradient")
def _copy(call: Call) -> None:
    call.write(0, call.array(0))


@runs_texts("Gather")
def _gather(call: Call) -> None:
    call.write(0, call.rows(0, call.array(1)))


@runs_texts("Concat")
def _concat(call: Call) -> None:
    parts = [call.array(at) for at in range(len(call.definition.input))]
    axis = call.argument("axis", 0)
    if call.argument("add_axis", 0):
        raise call.error("texts are joined along an axis that they have")
    call.write(0, np.concatenate(parts, axis))
    if len(call.definition.output) > 1:
        call.write(1, np.array([part.shape[axis] for part in parts], np.int32))


@runs_texts("IsMemberOf")
def _is_member(call: Call) -> None:
    texts = call.array(0)
    listed = set(call.argument("value", ()))
    call.write(0, np.array([_text(text) in listed for text in texts.reshape(-1)], bool).reshape(texts.shape))


@runs_texts("PackSegments")
def _pack(call: Call) -> None:
    """Texts of each segment side by side, behind them empty ones; and which places are texts."""
    sizes, texts = call.array(0), call.array(1)
    if sizes.sum() != len(texts):
        raise call.error(f"the lengths add up to {sizes.sum()}, and there are {len(texts)} texts")
    most = call.argument("max_length", -1)
    width = most if most >= 0 else int(sizes.max(initial=0))
    inside = np.arange(width) < sizes[:, None]
    batch = np.full((len(sizes), width, *texts.shape[1:]), b"", object)
    kept = np.concatenate([np.arange(size) < width for size in sizes]) if sizes.size else np.zeros(0, bool)
    batch[inside] = texts[kept]
    call.write(0, batch)
    if len(call.definition.output) > 1:
        call.write(1, inside)


@runs_texts("UnpackSegments")
def _unpack(call: Call) -> None:
    """The opposite of PackSegments; with ``max_length`` a segment gives so many texts at most."""
    sizes, batch = call.array(0), call.array(1)
    most = call.argument("max_length", -1)
    sizes = sizes if most < 0 else np.minimum(sizes, most)
    if len(sizes) != len(batch) or sizes.max(initial=0) > batch.shape[1]:
        raise call.error(f"the lengths {sizes.tolist()} don't fit the shape {batch.shape}")
    call.write(0, batch[np.arange(batch.shape[1]) < sizes[:, None]])


@runs_texts("EQ", "NE")
def _equal(call: Call) -> None:
    equal = np.asarray(call.array(0) == call.array(1), np.bool_)
    call.write(0, equal if call.definition.type == "EQ" else ~equal)


@runs_texts("Shape", "Size", "IsEmpty")
def _shape(call: Call) -> None:
    array = call.array(0)
    results: dict[str, Any] = {
        "Shape": np.array(array.shape, np.int64),
        "Size": np.int64(array.size),
        "IsEmpty": np.bool_(array.size == 0),
    }
    call.write(0, results[call.definition.type])


@runs_texts("SparseToDenseMask")
def _to_dense_mask(call: Call) -> None:
    """The last value of each key of the mask, else the default; a row of them for each length."""
    mask = list(call.argument("mask", ()))
    keys, values, default = call.array(0).reshape(-1), call.array(1), call.array(2)
    counts = call.array(3).reshape(-1) if len(call.definition.input) > 3 else np.array([keys.size])
    if not mask or counts.sum() != keys.size or len(values) != keys.size:
        raise call.error(
            f"{keys.size} keys, {len(values)} values and lengths that add up to {counts.sum()} don't fit, or "
            "there is no mask"
        )
    found = np.empty((len(counts), len(mask), *default.shape), object)
    found[:] = default
    there = np.zeros(found.shape[:2], bool)
    rows = np.repeat(np.arange(len(counts)), counts)
    columns = {key: column for column, key in enumerate(mask)}
    for row, key, value in zip(rows, keys.tolist(), values, strict=True):
        if key in columns:
            found[row, columns[key]] = value
            there[row, columns[key]] = True
    one_row = len(call.definition.input) < 4
    call.put(0, found[0] if one_row else found)
    if len(call.definition.output) > 1:
        call.write(1, there[0] if one_row else there)
