"""The units of recurrent nets, their gradient operators, and what the original adds to step nets."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Builder, Value


def _parts(b: Builder, gates: Value, count: int) -> tuple[Value, ...]:
    return b.ops("Split", gates, outputs=count, axis=-1, num_outputs=count)


def _valid(b: Builder, step: Sequence[Value]) -> Value | None:
    """Which sequences of the batch the step belongs to, (batch, 1); None: all.

    ``step`` holds the length of each sequence and the number of the step; or only the latter, where all
    sequences are as long as the batch.
    """
    if len(step) == 1:
        return None
    lengths, number = step
    return b.unsqueeze(b.op("Less", b.reshape(number, [-1]), b.reshape(lengths, [-1])), [1])


def _while_valid(c: Context, valid: Value | None, new: Value, previous: Value) -> Value:
    """What a state becomes: past the end of a sequence it is kept, or zero with ``drop_states``."""
    if valid is None:
        return new
    return c.b.where(valid, new, 0.0 if c.argument("drop_states", False) else previous)


def _back(
    c: Context, valid: Value | None, like: Value, new: Value | float, after: Value | None = None
) -> Value:
    """The gradient of a state or of gates: ``new`` within a sequence, and past its end ``after``.

    The latter is that of the state after the step, which is kept there unless states are dropped.
    """
    kept = 0.0 if after is None or c.argument("drop_states", False) else after
    if valid is None:
        return new if isinstance(new, Value) else c.b.full_like(like, new)
    if not isinstance(new, Value) and not isinstance(kept, Value):
        return c.b.zeros_like(like)
    return c.b.where(valid, new, kept)


@lowers("LSTMUnit")
def _lstm(c: Context, hidden: Value, cell: Value, gates: Value, *step: Value) -> Sequence[Value]:
    """The gates are, in order, those of input, forgetting and output, and the candidate."""
    enter, forget, leave, candidate = _lstm_gates(c, gates)
    new_cell = forget * cell + enter * candidate
    new_hidden = leave * c.b.op("Tanh", new_cell)
    valid = _valid(c.b, step)
    return [_while_valid(c, valid, new_hidden, hidden), _while_valid(c, valid, new_cell, cell)]


def _lstm_gates(c: Context, gates: Value) -> tuple[Value, Value, Value, Value]:
    enter, forget, leave, candidate = _parts(c.b, gates, 4)
    bias = c.argument("forget_bias", 0.0)
    sigmoids = [c.b.op("Sigmoid", gate) for gate in (enter, forget + bias if bias else forget, leave)]
    return sigmoids[0], sigmoids[1], sigmoids[2], c.b.op("Tanh", candidate)


@lowers("LSTMUnitGradient")
def _lstm_gradient(c: Context, *operands: Value) -> list[Value]:
    """Operands: those of the unit, its two outputs, and their gradients.

    With the new cell state C and dC + dH * o * (1 - tanh(C)^2) = t the gradients are t * f of the old cell
    state c, and t * g * i(1 - i), t * c * f(1 - f), dH * tanh(C) * o(1 - o), t * i * (1 - g^2) of the gates.
    """
    hidden, cell, gates, *step = operands[:-4]
    _, new_cell, d_hidden, d_cell = operands[-4:]
    b, valid = c.b, _valid(c.b, step)
    enter, forget, leave, candidate = _lstm_gates(c, gates)
    shown = b.op("Tanh", new_cell)
    total = d_cell + d_hidden * leave * (1.0 - shown * shown)
    of_gates = [
        total * candidate * enter * (1.0 - enter),
        total * cell * forget * (1.0 - forget),
        d_hidden * shown * leave * (1.0 - leave),
        total * enter * (1.0 - candidate * candidate),
    ]
    return [
        _back(c, valid, hidden, 0.0, d_hidden),
        _back(c, valid, cell, total * forget, d_cell),
        _back(c, valid, gates, b.concat(of_gates, -1)),
    ]


@lowers("GRUUnit")
def _gru(c: Context, hidden: Value, gates: Value, *step: Value) -> Sequence[Value]:
    """The gates are, in order: reset, which is not used here, update, candidate."""
    _, update, candidate = _parts(c.b, gates, 3)
    kept = c.b.op("Sigmoid", update)
    new = hidden * kept + c.b.op("Tanh", candidate) * (1.0 - kept)
    return [_while_valid(c, _valid(c.b, step), new, hidden)]


@lowers("GRUUnitGradient")
def _gru_gradient(c: Context, *operands: Value) -> list[Value]:
    """Operands: those of the unit, its output, and its gradient dH.

    With the update u and the candidate g it is dH * u of the old state h, and of the gates 0,
    dH * (h - g) * u(1 - u), and dH * (1 - u) * (1 - g^2).
    """
    hidden, gates, *step = operands[:-2]
    b, valid, d_hidden = c.b, _valid(c.b, step), operands[-1]
    _, update, candidate = _parts(b, gates, 3)
    kept, new = b.op("Sigmoid", update), b.op("Tanh", candidate)
    of_gates = [
        b.zeros_like(hidden),
        d_hidden * (hidden - new) * kept * (1.0 - kept),
        d_hidden * (1.0 - kept) * (1.0 - new * new),
    ]
    return [
        _back(c, valid, hidden, d_hidden * kept, d_hidden),
        _back(c, valid, gates, b.concat(of_gates, -1)),
    ]


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
