"""Tables whose rows are changed in place, each occurrence of a row in its turn."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from onnx_ir import DataType
from onnxruntime import OrtValue

from netgrad.caffe2.running.blob import Array, as_array, is_tensor, shape_of
from netgrad.caffe2.running.call import Call
from netgrad.runtime.values import NATIVE

Which: TypeAlias = "slice | Array"


@dataclass(frozen=True)
class RowUpdate:
    """What an operator changes in some rows of tables.

    Attributes:
        rows: The row of each occurrence.
        tables: The tables as matrices on the memory of their blobs; one with a number per row has one column.
        slopes: What comes to each occurrence, as matrices with a row for each.
    """

    rows: Array
    tables: list[Array]
    slopes: list[Array]

    def slope(self, which: Which, at: int = 0) -> Array:
        """What comes to some occurrences by one of the slopes; to be read only."""
        found = self.slopes[at]
        return found if isinstance(which, slice) else found.take(which, 0)

    def turns(self) -> Iterator[tuple[Array, Which]]:
        """Rows that are all different, and their occurrences: first those that come for the first time.

        So what is done turn by turn, for all rows of a turn at once, is what a loop over occurrences does.
        """
        rows = self.rows
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        is_same = ordered[1:] == ordered[:-1]
        if not is_same.any():
            if rows.size:
                yield rows, slice(None)
            return
        at = np.arange(rows.size)
        starts = np.concatenate([[True], ~is_same])
        earlier = at - np.maximum.accumulate(np.where(starts, at, 0))
        by_turn = order[np.argsort(earlier, kind="stable")]
        end = 0
        for count in np.bincount(earlier):
            which = by_turn[end : end + count]
            end += count
            yield rows[which], which


def row_update(
    call: Call,
    tables: Sequence[tuple[int, int]],
    indices: int,
    slopes: Sequence[int],
    *,
    floats: bool = True,
) -> RowUpdate | None:
    """What an operator changes, checked; None where it can't be done in place.

    Args:
        call: The operator.
        tables: The inputs that are changed, each with the output that it is; the first is the parameter.
        indices: The input with the rows.
        slopes: The inputs with what comes to each occurrence.
        floats: Whether only float32 will do.

    Raises:
        RunError: An input isn't there, or there is no row of a number.
    """
    inputs, outputs = call.definition.input, call.definition.output
    named = [inputs[at] for at, _ in tables]
    involved = [*named, inputs[indices], *(inputs[at] for at in slopes)]
    if [outputs[to] for _, to in tables] != named or len(set(involved)) != len(involved):
        return None
    blobs = [call.blob(at) for at, _ in tables]
    contents = [blob.content for blob in blobs]
    sources = [call.blob(at) for at in slopes]
    given = [_seen(blob.content) for blob in sources]
    if not all(map(is_tensor, (*contents, *given))) or len({*blobs, *sources}) < len(blobs) + len(sources):
        return None
    numbers = call.array(indices)
    if numbers.dtype not in (np.int32, np.int64):
        return None
    types = {_element_type(one) for one in (*contents, *given)}
    if len(types) != 1 or (floats and types != {DataType.FLOAT}):
        return None
    shape = shape_of(contents[0])
    others = [shape_of(content) for content in contents[1:]]
    if not shape or not all(other in (shape, shape[:1]) for other in others):
        return None
    width, count = math.prod(shape[1:]), numbers.size
    if any(
        one.size != count * width or one.ndim < numbers.ndim or math.prod(one.shape[numbers.ndim :]) != width
        for one in given
    ):
        return None
    rows = numbers.reshape(-1).astype(np.int64, copy=False)
    lost = rows[(rows < 0) | (rows >= shape[0])]
    if lost.size:
        raise call.error(f"there is no row {lost[0]}: input '{named[0]}' has {shape[0]}")
    matrices = [blob.own() for blob in blobs]
    return RowUpdate(
        rows,
        [table.reshape(shape[0], table.size // max(shape[0], 1)) for table in matrices],
        [one.reshape(count, width) for one in given],
    )


def _seen(value: Any) -> Any:
    """A tensor to be read while the operator runs, without a copy of a value of ONNX Runtime."""
    if isinstance(value, OrtValue):
        return value.numpy() if DataType(value.element_type()) in NATIVE else as_array(value)
    return value


def _element_type(value: OrtValue | Array) -> Any:
    return value.element_type() if isinstance(value, OrtValue) else DataType.from_numpy(value.dtype)
