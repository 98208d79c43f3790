"""Shapes and element types of blobs, found without running a net."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from netgrad.caffe2.lowering.context import ELEMENT_TYPES, Context, StaticShapeNeededError
from netgrad.caffe2.lowering.net import OPSET
from netgrad.caffe2.lowering.registry import lower
from netgrad.caffe2.recurrence import with_kept
from netgrad.caffe2.running.registry import runner_of
from netgrad.core import NetgradError
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.view import TensorInfo

NUMBERS: dict[ir.DataType, int] = {
    dtype: number for number, dtype in ELEMENT_TYPES.items() if number != TensorProto.BYTE
}
"""Caffe2's numbers of element types."""


_Infos: TypeAlias = "Sequence[TensorInfo | None]"


def _window(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """``LastNWindowCollector``: its first output has as many rows as it may have."""
    data = values.get(op.input[2])
    limit = next((argument.i for argument in op.arg if argument.name == "num_to_collect"), 0)
    if data is None or not data.static_shape:
        return []
    return [TensorInfo(data.dtype, (limit, *data.static_shape[1:]))]


def _like_first(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """The first output of operators that write a tensor like their first input."""
    data = values.get(op.input[0])
    return [None if data is None else data.info]


def _ranges(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """``GatherRanges``: each of the data at most once, as the original has it, and a length per example."""
    data, ranges = (values.get(blob) for blob in op.input)
    if data is None or ranges is None or not ranges.static_shape:
        return []
    return [data.info, TensorInfo(ranges.dtype, ranges.static_shape[:1])]


def _dense_ranges(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """``GatherRangesToDense``: a matrix per range of an example."""
    data, ranges = (values.get(blob) for blob in op.input[:2])
    sizes = next((argument.ints for argument in op.arg if argument.name == "lengths"), ())
    if data is None or ranges is None or not ranges.static_shape:
        return []
    return [TensorInfo(data.dtype, (ranges.static_shape[0], size)) for size in sizes]


def _buckets(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """``BatchBucketOneHot``: each column has a bucket more than bounds."""
    x, sizes, bounds = (values.get(name) for name in op.input)
    if x is None or sizes is None or bounds is None:
        return []
    rows, columns, count = x.dim(0), sizes.dim(0), bounds.dim(0)
    if not isinstance(columns, int) or not isinstance(count, int):
        return []
    return [TensorInfo(ir.DataType.FLOAT, (rows, columns + count))]


def _rows_of(
    dtype: ir.DataType, *, per_byte: int = 1, pair: int = 0, packs: bool
) -> Callable[[OperatorDef, Mapping[str, Value]], _Infos]:
    """The output of operators that pack rows, with ``pair`` bytes for scale and bias, or unpack them."""

    def info(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
        data = values.get(op.input[0])
        if data is None or not data.static_shape:
            return []
        *front, width = data.static_shape
        found = -(-width // per_byte) + pair if packs else (width - pair) * per_byte
        return [TensorInfo(dtype, (*front, found))]

    return info


def _scaled_rows(op: OperatorDef, values: Mapping[str, Value]) -> _Infos:
    """``FloatToRowwiseQuantized8Bits``: as many numbers of a byte, and a scale and a bias for each row."""
    data = values.get(op.input[0])
    if data is None or not data.static_shape:
        return []
    pair = TensorInfo(ir.DataType.FLOAT, (data.static_shape[0], 2))
    return [TensorInfo(ir.DataType.UINT8, data.static_shape), pair]


def _quantized() -> dict[str, Callable[[OperatorDef, Mapping[str, Value]], _Infos]]:
    """Conversions of rows to a few bits per element, with the row's scale and bias behind it, and back.

    A pair of floats has 8 bytes, one of halves 4.
    """
    byte, full, half = ir.DataType.UINT8, ir.DataType.FLOAT, ir.DataType.FLOAT16
    found: dict[str, Callable[[OperatorDef, Mapping[str, Value]], _Infos]] = {
        "FloatToRowwiseQuantized8Bits": _scaled_rows,
        "Rowwise8BitQuantizedToFloat": _rows_of(full, packs=False),
    }
    for end, pair in (("", 8), ("HalfScaleBias", 4)):
        for kind, dtype in (("Float", full), ("HalfFloat", half)):
            found[f"{kind}ToFused8BitRowwiseQuantized{end}"] = _rows_of(byte, pair=pair, packs=True)
            found[f"Fused8BitRowwiseQuantized{end}To{kind}"] = _rows_of(dtype, pair=pair, packs=False)
    for bits in (2, 4):
        size = 8 // bits
        for kind, dtype in (("Float", full), ("Half", half)):
            to, back = f"{kind}ToFused{bits}BitRowwiseQuantized", f"Fused{bits}BitRowwiseQuantizedTo{kind}"
            found[to] = _rows_of(byte, per_byte=size, pair=4, packs=True)
            found[back] = _rows_of(dtype, per_byte=size, pair=4, packs=False)
    return found


_RUN_IN_PYTHON: dict[str, Callable[[OperatorDef, Mapping[str, Value]], _Infos]] = {
    "BatchBucketOneHot": _buckets,
    "BisectPercentile": _like_first,
    "GatherRanges": _ranges,
    "GatherRangesToDense": _dense_ranges,
    "IndexHash": _like_first,
    "NanCheck": _like_first,
    "LastNWindowCollector": _window,
    "Percentile": _like_first,
    **_quantized(),
}

# Types that are said to be others than those that the operator writes, and that schemas of scripts count on.
_STATED = {("TopK", 1): TensorProto.INT32, ("TopK", 2): TensorProto.INT32}

# Types whose output is said to have the first input's shape. A LearningRate that is written is a scalar.
_STATED_LIKE_FIRST = frozenset({"LearningRate"})


def inferred(
    nets: Iterable[NetDef], known: Mapping[str, tuple[ir.DataType, tuple[int, ...]]]
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Shapes and types of the blobs of nets that run one after the other.

    Args:
        nets: The nets.
        known: Types and shapes of the blobs that are there before.

    Returns:
        The shapes, and the types as Caffe2's numbers, by blob. What can't be told is left out.
    """
    builder = Builder(OPSET, "shapes")
    values: dict[str, Value] = {
        blob: builder.value(f"given:{blob}", TensorInfo(dtype, shape))
        for blob, (dtype, shape) in known.items()
    }
    stated: dict[str, int] = {}
    stated_shapes: dict[str, tuple[int, ...]] = {}
    for net in nets:
        for op in with_kept(net.op):
            found: list[Value | None] = []
            if runner_of(op) is None and all(blob in values for blob in op.input):
                try:
                    found = lower(Context(op, builder), [values[blob] for blob in op.input])
                except (NetgradError, StaticShapeNeededError):
                    found = []
            elif op.type in _RUN_IN_PYTHON:
                infos = _RUN_IN_PYTHON[op.type](op, values)
                found = [
                    None if info is None else builder.value(f"found:{blob}", info)
                    for blob, info in zip(op.output, infos, strict=False)
                ]
            first = values.get(op.input[0]) if op.type in _STATED_LIKE_FIRST else None
            for at, blob in enumerate(op.output):
                values.pop(blob, None)
                stated.pop(blob, None)
                stated_shapes.pop(blob, None)
                if first is not None and first.static_shape is not None:
                    stated_shapes[blob] = first.static_shape
                if (op.type, at) in _STATED:
                    stated[blob] = _STATED[op.type, at]
            values.update(
                (blob, value) for blob, value in zip(op.output, found, strict=False) if value is not None
            )
    complete = {
        blob: value
        for blob, value in values.items()
        if value.static_shape is not None and value.dtype in NUMBERS
    }
    return (
        {blob: list(stated_shapes.get(blob, value.static_shape or ())) for blob, value in complete.items()},
        {
            blob: stated.get(blob, NUMBERS[value.dtype])
            for blob, value in complete.items()
            if value.dtype is not None
        },
    )
