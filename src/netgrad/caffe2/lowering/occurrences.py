"""The rows that an update names, perhaps more than once: each time counts on its own, in order, as in a loop.

A loop over occurrences would be slow. They are sorted by their row instead, and what a row has gathered when
one of them is reached is added up in all rows at once: over one occurrence, then two, four and so on, as many
times as the most frequent row needs. Where no row is named twice, that is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.places import from_front
from netgrad.core import Operator
from netgrad.onnx.body import Body
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.placing import count_up, length
from netgrad.onnx.view import TensorInfo


@dataclass(frozen=True)
class Occurrences:
    """Row numbers in ascending order, K of them; those of one row lie behind each other in their own order.

    Attributes:
        rows: The row numbers, int64 of shape (K,).
        order: Which occurrence stands at each place, int64 of shape (K,).
        earlier: How many occurrences of the same row come before, int64 of shape (K, 1).
        last: The places of the last occurrence of each row, int64.
        rank: The rank of what holds the row numbers.
    """

    c: Context
    rows: Value
    order: Value
    earlier: Value
    last: Value
    rank: int

    @staticmethod
    def of(c: Context, indices: Value) -> Occurrences:
        """Those of row numbers."""
        b = c.b
        given = from_front(b, b.reshape(b.cast(indices, ir.DataType.INT64), [-1]))
        count = length(b, given, 0)
        numbers = count_up(b, count)
        _, order = b.ops("TopK", given * count + numbers, count, outputs=2, axis=0, largest=0)
        rows = b.op("Gather", given, order, axis=0)
        differs = b.op("Not", _moved(b, rows, -1).equals(rows))
        is_first = b.op("Or", differs, numbers.equals(0))
        firsts = b.op("Compress", numbers, is_first, axis=0)
        which = b.op("CumSum", b.cast(is_first, ir.DataType.INT64), b.constant(np.int64(0))) - 1
        earlier = numbers - b.op("Gather", firsts, which, axis=0)
        last = b.concat([b.slice(firsts, 0, 1, 2**62) - 1, b.slice(numbers, 0, -1, 2**62)], 0)
        return Occurrences(c, rows, order, b.unsqueeze(earlier, [1]), last, c.rank(indices))

    def of_rows(self, x: Value) -> Value:
        """The rows of ``x`` as a matrix (K, D)."""
        return self.c.b.op("Flatten", self.c.b.op("Gather", x, self.rows, axis=0), axis=1)

    def matrix(self, x: Value) -> Value:
        """What ``x`` has for each occurrence, as a matrix (K, D); there may be none."""
        return self.c.b.op("Gather", self.c.b.op("Flatten", x, axis=self.rank), self.order, axis=0)

    def as_given(self, matrix: Value, like: Value) -> Value:
        """A matrix (K, D) in the order in which the rows were named, in the shape of ``like``."""
        b = self.c.b
        places = count_up(b, length(b, self.order, 0))
        nowhere = b.full_like(self.order, 0)
        inverse = b.op("ScatterElements", nowhere, self.order, places, axis=0)
        return b.reshape_like(b.op("Gather", matrix, inverse, axis=0), like)

    def sums(self, more: Value, decay: float = 1.0) -> Value:
        """What has come together in a row up to each occurrence: s' = decay s + more, from 0."""
        b = self.c.b
        inner = b.inner()
        assert more.dtype is not None, "the element type of a blob is known"
        turn = inner.value(f"{inner.prefix}/turn", TensorInfo(ir.DataType.INT64, ()))
        goes_on = inner.value(f"{inner.prefix}/goes_on", TensorInfo(ir.DataType.BOOL, ()))
        sums = inner.value(f"{inner.prefix}/sums", more.info.plain)
        earlier = inner.value(self.earlier.name, self.earlier.info)
        span = inner.op("Pow", inner.constant(np.int64(2)), turn)
        places = count_up(inner, length(inner, sums, 0)) - span
        before = inner.op("Gather", sums, inner.op("Max", places, inner.scalar(0, places)), axis=0)
        if decay != 1.0:
            before = before * inner.binary("Pow", decay, inner.cast(span, more.dtype))
        after = sums + inner.where(earlier >= span, before, 0.0)
        outputs = (inner.op("Identity", goes_on), after)
        inputs = (turn, goes_on, sums)
        body = Body(
            tuple(value.name for value in inputs),
            tuple(value.name for value in outputs),
            (self.earlier.name,),
            tuple(inner.operators),
            {value.name: value.info.plain for value in (*inputs, *outputs)},
        )
        reads = (self._turns.name, b.constant(np.bool_(True)).name, more.name, self.earlier.name)
        (found,) = b.written(Operator("Loop", reads, (), {"body": body}), [more.info.plain])
        return found

    @property
    def _turns(self) -> Value:
        """How often spans have to be doubled for the most frequent row, int64 of no dims."""
        b = self.c.b
        flat = b.concat([b.reshape(self.earlier, [-1]), b.ints([0])], 0)
        most = b.cast(b.op("ReduceMax", flat, keepdims=0), ir.DataType.DOUBLE) + 1.0
        doublings = b.op("Log", most) * (1 / np.log(2))
        return b.cast(b.op("Ceil", doublings), ir.DataType.INT64)

    def gathered(self, start: Value, more: Value, decay: float) -> tuple[Value, Value]:
        """What each occurrence finds and leaves in a state: s' = decay s + more, row by row in order.

        Args:
            start: The state before the first occurrence, one row per occurrence.
            more: What each occurrence adds, likewise.
            decay: What the state is multiplied by first.
        """
        b = self.c.b
        assert more.dtype is not None, "the element type of a blob is known"
        sums = self.sums(more, decay)
        first = self.earlier.equals(0)
        before = b.where(first, 0.0, _moved(b, sums, -1))
        if decay == 1.0:
            before = start + before
        else:
            before = start * b.binary("Pow", decay, b.cast(self.earlier, more.dtype)) + before
        return before, before * decay + more

    def put(self, x: Value, matrix: Value) -> Value:
        """``x`` with what a matrix (K, D) has at the last occurrence of each row."""
        b = self.c.b
        rows, values = (b.op("Gather", value, self.last, axis=0) for value in (self.rows, matrix))
        shape = b.concat([length(b, self.last, 0), b.slice(b.shape_of(x), 0, 1, 2**62)], 0)
        values = b.op("Reshape", values, shape, allowzero=1)
        return b.assume_like(b.op("ScatterND", x, b.unsqueeze(rows, [1]), values), x)

    def add(self, x: Value, more: Value) -> Value:
        """``x`` with the rows of a matrix (K, D) added."""
        return self.put(x, self.of_rows(x) + self.sums(more))


def _moved(b: Builder, x: Value, by: int) -> Value:
    """What stands ``-by`` places before each place; the first of it at the first place."""
    places = count_up(b, length(b, x, 0)) + by
    return b.op("Gather", x, b.op("Max", places, b.scalar(0, places)), axis=0)
