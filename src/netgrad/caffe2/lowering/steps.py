"""A net that runs once per step, as the body of an ONNX ``Scan``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.lowering.context import Context, StaticShapeNeededError
from netgrad.caffe2.lowering.registry import lower
from netgrad.core import Operator
from netgrad.onnx.body import Body, live
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.view import TensorInfo


class Steps:
    """Writes a ``Scan`` over the rows of sequences, from the first to the last or the other way.

    Args:
        builder: Where the ``Scan`` goes.
        count: The number of steps, int64 of shape (1,).
        backwards: Whether the last row comes first; what is stacked has the order of the sequences anyway.

    Attributes:
        b: Writes what a step does.
    """

    def __init__(self, builder: Builder, count: Value, *, backwards: bool = False) -> None:
        self.b = builder.inner()
        self._outer = builder
        self._count = count
        self._backwards = backwards
        self._initial: list[Value] = []
        self._carried: list[Value] = []
        self._sequences: list[Value] = []
        self._rows: list[Value] = []
        self._captured: dict[str, Value] = {}

    def captured(self, value: Value) -> Value:
        """A value from outside, the same in each step."""
        self._captured[value.name] = value
        return self.b.value(value.name, value.info)

    def carried(self, initial: Value) -> Value:
        """What one step hands on to the next."""
        self._initial.append(initial)
        self._carried.append(self._input("carried", len(self._carried), initial.info.plain))
        return self._carried[-1]

    def row(self, sequence: Value) -> Value:
        """The step's row of a sequence, without the first axis."""
        assert sequence.shape is not None, "the rank of a sequence is known"
        self._sequences.append(sequence)
        self._rows.append(self._input("row", len(self._rows), TensorInfo(sequence.dtype, sequence.shape[1:])))
        return self._rows[-1]

    def number(self) -> Value:
        """The number of the step, int64 of shape (1,)."""
        b = self._outer
        limit = b.squeeze(self._count, [0])
        numbers = b.op("Range", b.constant(np.int64(0)), limit, b.constant(np.int64(1)))
        return self.b.reshape(self.row(numbers), [1])

    def _input(self, kind: str, at: int, info: TensorInfo) -> Value:
        return self.b.value(f"{self.b.prefix}/{kind}_{at}", info)

    def write(self, carried: Sequence[Value], stacked: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Write the ``Scan``.

        Args:
            carried: What becomes of each carried value in a step.
            stacked: What is collected over the steps.

        Returns:
            The carried values after the last step, and the collected ones, with the steps as first axis.
        """
        if self._steps == 0:  # ONNX Runtime has no Scan over nothing
            return self._initial, [self._nothing(value) for value in stacked]
        types = {value.name: value.info.plain for value in (*self._carried, *self._rows)}
        written = {name for op in self.b.operators for name in op.outputs}
        outputs: list[str] = []
        copies = []
        for at, value in enumerate((*carried, *stacked)):
            name = value.name
            if name in outputs or name not in written:
                # A graph gives no value twice, and none that it was given.
                name = f"{self.b.prefix}/given_{at}"
                copies.append(Operator("Identity", (value.name,), (name,)))
            outputs.append(name)
            types[name] = self._carried[at].info.plain if at < len(carried) else value.info.plain
        everything = [*self.b.operators, *copies]
        operators = tuple(everything[index] for index in live(everything, outputs))
        read = {name for op in operators for name in op.inputs}
        captured = tuple(name for name in self._captured if name in read)
        body = Body(
            tuple(value.name for value in (*self._carried, *self._rows)),
            tuple(outputs),
            captured,
            operators,
            types,
        )
        inputs = [value.name for value in (*self._initial, *self._sequences)]
        direction = int(self._backwards)
        attributes = {
            "body": body,
            "num_scan_inputs": len(self._sequences),
            "scan_input_directions": [direction] * len(self._sequences),
        }
        if stacked:
            attributes["scan_output_directions"] = [direction] * len(stacked)
        infos = [value.info.plain for value in self._initial]
        infos += [
            TensorInfo(value.dtype, None if value.shape is None else (self._steps, *value.shape))
            for value in stacked
        ]
        results = self._outer.written(Operator("Scan", (*inputs, *captured), (), attributes), infos)
        return list(results[: len(carried)]), list(results[len(carried) :])

    def _nothing(self, value: Value) -> Value:
        """What is collected of a value over no steps."""
        if value.static_shape is None or value.dtype is None:
            raise StaticShapeNeededError
        return self._outer.constant(np.zeros((0, *value.static_shape), value.dtype.numpy()))

    @property
    def _steps(self) -> int | str | None:
        """The number of steps as far as it is known before."""
        return next((dim for sequence in self._sequences if (dim := sequence.dim(0)) is not None), None)


def run_step(
    c: Context,
    b: Builder,
    net: NetDef,
    values: dict[str, Value],
    follow: Mapping[str, Callable[[Value], Mapping[str, Value]]] | None = None,
) -> None:
    """Write the operators of a step net.

    Args:
        c: The operator that holds the net.
        b: Where they go.
        net: The net.
        values: The blobs that it finds; those that it writes are added.
        follow: For a blob, what other blobs become once it is written.

    Raises:
        UnsupportedOperatorError: An operator reads a blob that isn't there, or has no lowering.
    """
    for op in net.op:
        missing = [blob for blob in op.input if blob not in values]
        if missing:
            raise c.refused(
                f"in its step net {op.type} -> {list(op.output)} reads '{missing[0]}', which no link, no "
                "input of the operator and no operator of the net gives"
            )
        results = lower(Context(op, b), [values[blob] for blob in op.input])
        for blob, value in zip(op.output, results, strict=False):
            if value is not None:
                values[blob] = value
                if follow and blob in follow:
                    values.update(follow[blob](value))


def batched(c: Context, b: Builder, initial: Value, sequence: Value, length: int) -> Value:
    """The initial rows of a state, (length, batch, size), for each sequence of a batch.

    Args:
        c: The operator.
        b: Where it goes.
        initial: (length, batch, size), or for one row (batch, size) or, for the whole batch, (size,).
        sequence: (steps, batch, ...).
        length: How many rows there are.
    """
    rank = c.rank(initial)
    if not 1 <= rank <= 3 or (rank < 3 and length != 1):
        raise c.refused(
            f"its {length} initial row(s) of a state are of rank {rank}: (size,) and (batch, size) are one "
            "row, (rows, batch, size) several"
        )
    batch = b.slice(b.shape_of(sequence), 0, 1, 2)
    size = b.slice(b.shape_of(initial), 0, rank - 1, rank)
    shape = b.concat([b.ints([length]), batch, size], 0)
    dims = (length, sequence.dim(1), initial.dim(-1))
    if rank == 1:
        return b.assume_shape(b.op("Expand", initial, shape), dims)
    # the standard's reshape fails unless the number of rows and the batch are right
    return b.assume_shape(b.op("Reshape", initial, shape), dims)


def step_count(b: Builder, sequence: Value) -> Value:
    """The length of a sequence, int64 of shape (1,)."""
    return b.slice(b.shape_of(sequence), 0, 0, 1)


def as_timestep(b: Builder, number: Value) -> Value:
    """The number of a step as step nets read it: int32."""
    return b.cast(number, ir.DataType.INT32)
