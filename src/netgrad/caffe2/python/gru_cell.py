"""Cells and layers of gated recurrent units."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import brew, rnn_cell


class GRUCell(rnn_cell.RNNCell):
    """A gated recurrent unit: the reset gate is computed by operators, the rest by ``GRUUnit``."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        linear_before_reset: bool = False,
        **kwargs: Any,
    ) -> None:
        """Start a cell.

        Args:
            input_size: The size of the input.
            hidden_size: The size of the state.
            forget_bias: Noted at the operator, and without effect as in the original.
            memory_optimization: Without effect as in the original: the gates are kept.
            drop_states: Whether the state past the end of a sequence is zero, rather than the last one.
            linear_before_reset: Whether the candidate's product is taken of the whole state, and reset then.
            **kwargs: See `netgrad.caffe2.python.rnn_cell.RNNCell`.
        """
        super().__init__(**kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.linear_before_reset = linear_before_reset

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step."""
        net, previous = model.net, states[0]

        def product(blob: Any, name: str) -> Any:
            size = self.hidden_size
            return brew.fc(model, blob, name, dim_in=size, dim_out=size, axis=2)

        rows = net.Split([input_t], [f"input_t_{gate}" for gate in ("reset", "update", "output")], axis=2)
        reset, update = product(previous, "reset_gate_t"), product(previous, "update_gate_t")
        reset = net.Sum([reset, rows[0]], "reset_gate_t")
        factor = net.Sigmoid(reset, "reset_gate_t_sigmoid")
        if self.linear_before_reset:
            candidate = net.Mul([factor, product(previous, "output_gate_t")], "output_gate_t_mul")
        else:
            candidate = product(net.Mul([factor, previous], "modified_hidden_t_prev"), "output_gate_t")
        update = net.Sum([update, rows[1]], "update_gate_t")
        candidate = net.Sum([candidate, rows[2]], "output_gate_t_summed")
        gates, _ = net.Concat([reset, update, candidate], ["gates_t", "_gates_t_concat_dims"], axis=2)
        hidden_t = net.GRUUnit(
            [previous, gates, *([] if seq_lengths is None else [seq_lengths]), timestep],
            ["hidden_t"],
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            sequence_lengths=seq_lengths is not None,
        )
        net.AddExternalOutputs(hidden_t)
        return (hidden_t,)

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """The product with the input's weights, of all steps at once."""
        return brew.fc(
            model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=3 * self.hidden_size, axis=2
        )

    def get_state_names(self) -> Sequence[str]:
        """The hidden state."""
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        """The size of the hidden state."""
        return self.hidden_size


GRU = functools.partial(rnn_cell._LSTM, GRUCell)
