"""The units of recurrent nets, their gradient operators, and what the original adds to step nets."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value


def _parts(b: Builder, gates: Value, count: int) -> tuple[Value, ...]:
    return b.ops("Split", gates, outputs=count, axis=-1, num_outputs=count)


def _while_valid(c: Context, b: Builder, step: list[Value], new: Value, previous: Value) -> Value:
    """What a state becomes: past the end of a sequence it is kept, or zero with ``drop_states``.

    ``step`` holds the length of each sequence and the number of the step; or only the latter, where all
    sequences are as long as the batch.
    """
    if len(step) == 1:
        return new
    lengths, number = step
    valid = b.unsqueeze(b.op("Less", b.reshape(number, [-1]), b.reshape(lengths, [-1])), [1])
    return b.where(valid, new, 0.0 if c.argument("drop_states", False) else previous)


def _lstm_unit(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """The gates are, in order, those of input, forgetting and output, and the candidate."""
    hidden, cell, gates, *step = given
    enter, forget, leave, candidate = _parts(b, gates, 4)
    bias = c.argument("forget_bias", 0.0)
    kept = b.op("Sigmoid", forget + bias if bias else forget) * cell
    new_cell = kept + b.op("Sigmoid", enter) * b.op("Tanh", candidate)
    new_hidden = b.op("Sigmoid", leave) * b.op("Tanh", new_cell)
    return [_while_valid(c, b, step, new_hidden, hidden), _while_valid(c, b, step, new_cell, cell)]


@lowers("LSTMUnit")
def _lstm(c: Context, *given: Value) -> Sequence[Value]:
    return _lstm_unit(c, c.b, list(given))


@lowers("LSTMUnitGradient")
def _lstm_gradient(c: Context, *operands: Value) -> list[Value]:
    """Operands: those of the unit, its two outputs, and their gradients."""
    inputs, step, cotangents = list(operands[:3]), list(operands[3:-4]), operands[-2:]
    return gradients(c.b, lambda b, given: _lstm_unit(c, b, given), inputs, cotangents, step)


def _gru_unit(c: Context, b: Builder, given: list[Value]) -> list[Value]:
    """The gates are, in order: reset, which is not used here, update, candidate."""
    hidden, gates, *step = given
    _, update, candidate = _parts(b, gates, 3)
    kept = b.op("Sigmoid", update)
    new = hidden * kept + b.op("Tanh", candidate) * (1.0 - kept)
    return [_while_valid(c, b, step, new, hidden)]


@lowers("GRUUnit")
def _gru(c: Context, *given: Value) -> Sequence[Value]:
    return _gru_unit(c, c.b, list(given))


@lowers("GRUUnitGradient")
def _gru_gradient(c: Context, *operands: Value) -> list[Value]:
    """Operands: those of the unit, its output, and its gradient."""
    inputs, step, cotangent = list(operands[:2]), list(operands[2:-2]), operands[-1]
    return gradients(c.b, lambda b, given: _gru_unit(c, b, given), inputs, [cotangent], step)


@lowers("ZeroGradient")
def _zero_gradient(c: Context, x: Value) -> Sequence[Value]:
    """Nothing; its gradient is a fill of zeros."""
    return []


def _row_number(c: Context, number: Value) -> Value:
    """The number of the step and the argument ``offset`` together, int64 of shape (1,)."""
    offset = c.argument("offset", -1)
    if offset < 0:
        raise c.refused("its argument 'offset' must be given, and not be negative")
    step = c.b.cast(c.b.reshape(number, [1]), ir.DataType.INT64)
    return step + offset if offset else step


@lowers("rnn_internal_apply_link")
def _apply_link(c: Context, number: Value, external: Value) -> Sequence[Value]:
    """Rows of a sequence, from that of the step on; and the sequence, of which they are a view there."""
    first = _row_number(c, number)
    return [c.b.slice(external, 0, first, first + c.argument("window", 1)), external]


@lowers("rnn_internal_accumulate_gradient_input")
def _accumulate_gradient_input(c: Context, number: Value, given: Value, total: Value) -> Sequence[Value]:
    """The step's row of ``given`` is added to one of ``total``."""
    row = _row_number(c, number)
    first = c.b.cast(c.b.reshape(number, [1]), ir.DataType.INT64)
    added = c.b.slice(given, 0, first, first + 1)
    return [c.b.op("ScatterND", total, c.b.unsqueeze(row, [1]), added, reduction="add")]
