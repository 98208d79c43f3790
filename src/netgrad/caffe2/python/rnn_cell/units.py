"""Cells of one layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import brew
from netgrad.caffe2.python.modeling.initializers import Initializer
from netgrad.caffe2.python.rnn_cell.cell import LSTMInitializer, RNNCell


class BasicRNNCell(RNNCell):
    """hidden = activation(input.W + hidden.U + b), with ``tanh`` or ``relu``."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        initializer: Any = None,
        activation: str | None = None,
        **kwargs: Any,
    ) -> None:
        """See `LSTMCell`; there is no bias of forgetting, and all that the backward pass needs is kept."""
        super().__init__(initializer=initializer, **kwargs)
        self.drop_states = drop_states
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.activation = activation
        if activation not in ("relu", "tanh"):
            raise RuntimeError(f"a BasicRNNCell knows relu and tanh, and no activation {activation!r}")

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step. Past the end of a sequence the state is kept, or zero with ``drop_states``."""
        previous, size = states[0], self.hidden_size
        gates_t = brew.fc(model, previous, "gates_t", dim_in=size, dim_out=size, axis=2)
        brew.sum(model, [gates_t, input_t], gates_t)
        activation = model.net.Tanh if self.activation == "tanh" else model.net.Relu
        if seq_lengths is None:
            return (activation(gates_t, "hidden_t"),)
        hidden_t = activation(gates_t, "hidden_t_unmasked")
        number = model.net.CopyFromCPUInput(timestep, "timestep_gpu")
        kept = self._masked(model, hidden_t, "valid", model.net.GT, seq_lengths, number)
        if self.drop_states:
            return (kept,)
        old = self._masked(model, previous, "invalid", model.net.LE, seq_lengths, number)
        return (model.net.Add([kept, old], "hidden_t"),)

    def _masked(self, model: Any, state: Any, name: str, compare: Any, lengths: Any, number: Any) -> Any:
        """A state where the lengths of sequences compare so with the number of the step, else zero."""
        mask = model.net.Cast(compare([lengths, number], f"{name}_b", broadcast=1), f"{name}_f", to="float")
        mask = model.net.StopGradient(mask, name)
        return model.net.Mul([state, mask], f"hidden_{name}", broadcast=1, axis=1)

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """The product with the input's weights, of all steps at once."""
        return brew.fc(
            model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=self.hidden_size, axis=2
        )

    def get_state_names(self) -> Sequence[str]:
        """The hidden state."""
        return (self.scope("hidden_t"),)

    def get_output_dim(self) -> int:
        """The size of the hidden state."""
        return self.hidden_size


class LSTMCell(RNNCell):
    """The gates are input.W + hidden.U + b, and ``LSTMUnit`` makes the states of them."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        forget_bias: float,
        memory_optimization: bool,
        drop_states: bool = False,
        initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        """Start a cell.

        Args:
            input_size: The size of the input.
            hidden_size: The size of the states.
            forget_bias: Added to the gate of forgetting.
            memory_optimization: Whether the backward pass computes the gates again, rather than keep them.
            drop_states: Whether states past the end of a sequence are zero, rather than the last ones.
            initializer: Makes the initial states if nobody gives them; None: parameters.
            **kwargs: See `RNNCell`.
        """
        super().__init__(initializer=initializer or LSTMInitializer(hidden_size=hidden_size), **kwargs)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.forget_bias = float(forget_bias)
        self.memory_optimization = memory_optimization
        self.drop_states = drop_states
        self.gates_size = 4 * hidden_size
        self._beside_gates: list[Any] = []  # what the operator that computes the gates writes besides

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step."""
        gates_t = self._gates(model, input_t, states[0], extra_inputs)
        names = ("hidden_state", "cell_state")
        hidden_t, cell_t = self._unit(model, states, gates_t, seq_lengths, timestep, names)
        model.net.AddExternalOutputs(hidden_t, cell_t)
        return hidden_t, cell_t

    def _product(self, model: Any, hidden: Any, extra_inputs: Any, name: str) -> Any:
        """The product of the hidden state, and of extra inputs, with their weights."""
        size = self.hidden_size
        if extra_inputs is not None:
            blobs, sizes = zip(*extra_inputs, strict=True)
            hidden = brew.concat(model, [hidden, *blobs], "gates_concatenated_input_t", axis=2)
            size += sum(sizes)
        return brew.fc(model, hidden, name, dim_in=size, dim_out=self.gates_size, axis=2)

    def _gates(self, model: Any, input_t: Any, hidden: Any, extra_inputs: Any) -> Any:
        gates_t = self._product(model, hidden, extra_inputs, "gates_t")
        return brew.sum(model, [gates_t, input_t], gates_t)

    def _normalized(self, model: Any, gates_t: Any) -> Any:
        """The gates with their mean taken away, divided by their deviation."""
        size = self.gates_size
        gates_t, *self._beside_gates = brew.layer_norm(model, gates_t, "gates_t_norm", dim_in=size, axis=-1)
        return gates_t

    def _unit(
        self, model: Any, states: Any, gates_t: Any, seq_lengths: Any, timestep: Any, names: Sequence[str]
    ) -> Any:
        if self.memory_optimization:
            self.recompute_blobs = [gates_t, *self._beside_gates]
        return model.net.LSTMUnit(
            [*states, gates_t, *([] if seq_lengths is None else [seq_lengths]), timestep],
            list(names),
            forget_bias=self.forget_bias,
            drop_states=self.drop_states,
            sequence_lengths=seq_lengths is not None,
        )

    def get_input_params(self) -> dict[str, str]:
        """The names of the input's parameters."""
        return {"weights": self.scope("i2h") + "_w", "biases": self.scope("i2h") + "_b"}

    def get_recurrent_params(self) -> dict[str, str]:
        """The names of the hidden state's parameters."""
        return {"weights": self.scope("gates_t") + "_w", "biases": self.scope("gates_t") + "_b"}

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """The product with the input's weights, of all steps at once."""
        return brew.fc(
            model, input_blob, self.scope("i2h"), dim_in=self.input_size, dim_out=self.gates_size, axis=2
        )

    def get_state_names_override(self) -> Sequence[str]:
        """The hidden state and the cell state."""
        return ["hidden_t", "cell_t"]

    def get_output_dim(self) -> int:
        """The size of the hidden state."""
        return self.hidden_size


class LayerNormLSTMCell(LSTMCell):
    """An LSTM whose gates are normalized."""

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step."""
        gates_t = self._gates(model, input_t, states[0], extra_inputs)
        gates_t = self._normalized(model, gates_t)
        hidden_t, cell_t = self._unit(model, states, gates_t, seq_lengths, timestep, ("hidden_t", "cell_t"))
        model.net.AddExternalOutputs(hidden_t, cell_t)
        return hidden_t, cell_t


class MILSTMCell(LSTMCell):
    """An LSTM with multiplicative gates: alpha * x * u + beta1 * u + beta2 * x + b.

    x is the prepared input, and u the product of the hidden state with its weights.
    """

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step."""
        gates_t = self._gates(model, input_t, states[0], extra_inputs)
        names = ("hidden_t_intermediate", "cell_t")
        hidden_t, cell_t = self._unit(model, states, gates_t, seq_lengths, timestep, names)
        model.net.AddExternalOutputs(cell_t, hidden_t)
        return hidden_t, cell_t

    def _gates(self, model: Any, input_t: Any, hidden: Any, extra_inputs: Any) -> Any:
        product = self._product(model, hidden, extra_inputs, "prev_t")
        alpha, beta_hidden, beta_input, bias = (
            model.create_param(
                name, shape=[self.gates_size], initializer=Initializer("ConstantFill", value=value)
            )
            for name, value in (("alpha", 1.0), ("beta1", 1.0), ("beta2", 1.0), ("b", 0.0))
        )
        factor = model.net.ElementwiseLinear(
            [input_t, alpha, beta_hidden], "alpha_by_input_t_plus_beta_h", axis=2
        )
        multiplied = model.net.Mul([factor, product], "alpha_by_input_t_plus_beta_h_by_prev_t")
        added = model.net.ElementwiseLinear([input_t, beta_input, bias], "beta_i_by_input_t_plus_b", axis=2)
        return brew.sum(model, [multiplied, added], "gates_t")


class LayerNormMILSTMCell(MILSTMCell):
    """An LSTM with multiplicative gates, which are normalized."""

    def _gates(self, model: Any, input_t: Any, hidden: Any, extra_inputs: Any) -> Any:
        return self._normalized(model, super()._gates(model, input_t, hidden, extra_inputs))
