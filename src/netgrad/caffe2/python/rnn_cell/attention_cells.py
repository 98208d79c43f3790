"""Cells of a decoder that attends to the outputs of an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import brew, core
from netgrad.caffe2.python.attention import (
    AttentionType,
    apply_dot_attention,
    apply_recurrent_attention,
    apply_regular_attention,
    apply_soft_coverage_attention,
)
from netgrad.caffe2.python.rnn_cell.cell import RNNCell
from netgrad.caffe2.python.rnn_cell.units import LSTMCell, MILSTMCell


class AttentionCell(RNNCell):
    """A cell that reads, in each step, the context of the step before, and makes a new one of its state.

    Its states are those of the decoder's cell, the context, and with soft coverage what was covered.
    """

    def __init__(
        self,
        encoder_output_dim: int,
        encoder_outputs: Any,
        encoder_lengths: Any,
        decoder_cell: RNNCell,
        decoder_state_dim: int,
        attention_type: int,
        weighted_encoder_outputs: Any,
        attention_memory_optimization: bool,
        **kwargs: Any,
    ) -> None:
        """Start a cell.

        Args:
            encoder_output_dim: The size of the encoder's outputs.
            encoder_outputs: Them, (length, batch, size).
            encoder_lengths: How many of them each sequence has, int32 of shape (batch,); None: all.
            decoder_cell: Makes the states.
            decoder_state_dim: The size of its output.
            attention_type: One of `AttentionType`.
            weighted_encoder_outputs: What the state is matched with; None: a product of the outputs.
            attention_memory_optimization: Whether the backward pass computes the sums again.
            **kwargs: See `RNNCell`.
        """
        super().__init__(**kwargs)
        assert attention_type in range(4), f"there is no attention of type {attention_type!r}"
        self.encoder_output_dim = encoder_output_dim
        self.encoder_outputs = encoder_outputs
        self.encoder_lengths = encoder_lengths
        self.decoder_cell = decoder_cell
        self.decoder_state_dim = decoder_state_dim
        self.attention_type = attention_type
        self.weighted_encoder_outputs = weighted_encoder_outputs
        self.attention_memory_optimization = attention_memory_optimization
        self.encoder_outputs_transposed: Any = None
        self.coverage_weights: Any = None
        self.hidden_t_intermediate: Any = None
        self.attention_weights_3d: Any = None

    @property
    def _covers(self) -> bool:
        return self.attention_type == AttentionType.SoftCoverage

    @property
    def _own_states(self) -> int:
        """How many states there are behind those of the decoder's cell."""
        return 2 if self._covers else 1

    def _apply(
        self,
        model: Any,
        input_t: Any,
        seq_lengths: Any,
        states: Sequence[Any],
        timestep: Any,
        extra_inputs: Any = None,
    ) -> Any:
        assert extra_inputs is None, "an AttentionCell takes no extra inputs"
        own = states[-self._own_states :]
        after = self.decoder_cell._apply(
            model,
            input_t,
            seq_lengths,
            states[: -self._own_states],
            timestep,
            extra_inputs=[(own[0], self.encoder_output_dim)],
        )
        self.hidden_t_intermediate = self.decoder_cell._prepare_output(model, after)
        context, self.attention_weights_3d, again, *coverage = self._attend(model, *own)
        if self.attention_memory_optimization:
            self.recompute_blobs.extend(again)
        found = [*after, context, *coverage]
        at = self.get_output_state_index()
        found[at] = model.Copy(found[at], self.scope("hidden_t_external"))
        model.net.AddExternalOutputs(*found)
        return found

    def _attend(self, model: Any, context: Any, coverage: Any = None) -> Any:
        given: dict[str, Any] = {
            "model": model,
            "encoder_output_dim": self.encoder_output_dim,
            "encoder_outputs_transposed": self.encoder_outputs_transposed,
            "decoder_hidden_state_t": self.hidden_t_intermediate,
            "decoder_hidden_state_dim": self.decoder_state_dim,
            "scope": self.name,
            "encoder_lengths": self.encoder_lengths,
        }
        if self.attention_type == AttentionType.Dot:
            return apply_dot_attention(**given)
        given["weighted_encoder_outputs"] = self.weighted_encoder_outputs
        if self.attention_type == AttentionType.Regular:
            return apply_regular_attention(**given)
        if self.attention_type == AttentionType.Recurrent:
            return apply_recurrent_attention(attention_weighted_encoder_context_t_prev=context, **given)
        return apply_soft_coverage_attention(
            coverage_t_prev=coverage, coverage_weights=self.coverage_weights, **given
        )

    def get_attention_weights(self) -> Any:
        """The weights of the step that was written last, (batch, length, 1)."""
        return self.attention_weights_3d

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """What can be computed of the encoder's outputs, and of the decoder's input, before all steps."""
        dim = self.encoder_output_dim
        if self.encoder_outputs_transposed is None:
            self.encoder_outputs_transposed = brew.transpose(
                model, self.encoder_outputs, self.scope("encoder_outputs_transposed"), axes=[1, 2, 0]
            )
        if self.weighted_encoder_outputs is None and self.attention_type != AttentionType.Dot:
            name = self.scope("weighted_encoder_outputs")
            self.weighted_encoder_outputs = brew.fc(
                model, self.encoder_outputs, name, dim_in=dim, dim_out=dim, axis=2
            )
        return self.decoder_cell.prepare_input(model, input_blob)

    def build_initial_coverage(self, model: Any) -> Any:
        """Zeros, (length,), that a decoder with soft coverage starts with, and its weights of coverage."""
        assert self._covers, "only soft coverage has an initial one"
        dim = self.encoder_output_dim
        self.coverage_weights = brew.fc(
            model, self.encoder_outputs, self.scope("coverage_weights"), dim_in=dim, dim_out=dim, axis=2
        )
        length = model.net.Slice(model.net.Shape(self.encoder_outputs), starts=[0], ends=[1])
        return model.net.ConstantFill(length, self.scope("initial_coverage"), value=0.0, input_as_shape=1)

    def get_state_names(self) -> Sequence[str]:
        """The names of all states."""
        names = list(self.decoder_cell.get_state_names())
        names[self.get_output_state_index()] = self.scope("hidden_t_external")
        names.append(self.scope("attention_weighted_encoder_context_t"))
        return [*names, self.scope("coverage_t")] if self._covers else names

    def get_output_dim(self) -> int:
        """The sizes of the state and of the context together."""
        return self.decoder_state_dim + self.encoder_output_dim

    def get_output_state_index(self) -> int:
        """That of the decoder's cell."""
        return self.decoder_cell.get_output_state_index()

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        return self._combined(model, self.hidden_t_intermediate, states[-self._own_states])

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        own = 2 * self._own_states
        output = self.decoder_cell._prepare_output_sequence(model, state_outputs[:-own])
        return self._combined(model, output, state_outputs[-own])

    def _combined(self, model: Any, output: Any, context: Any) -> Any:
        with core.NameScope(self.name or ""):
            return brew.concat(model, [output, context], "states_and_context_combination", axis=2)


class _UnitWithAttention(AttentionCell):
    unit: type[LSTMCell]

    def __init__(
        self,
        encoder_output_dim: int,
        encoder_outputs: Any,
        encoder_lengths: Any,
        decoder_input_dim: int,
        decoder_state_dim: int,
        name: str,
        attention_type: int,
        weighted_encoder_outputs: Any,
        forget_bias: float,
        lstm_memory_optimization: bool,
        attention_memory_optimization: bool,
        forward_only: bool = False,
    ) -> None:
        """See `AttentionCell` and `LSTMCell`; ``decoder_input_dim`` is the size of the decoder's input."""
        decoder = self.unit(
            input_size=decoder_input_dim,
            hidden_size=decoder_state_dim,
            forget_bias=forget_bias,
            memory_optimization=lstm_memory_optimization,
            name=f"{name}/decoder",
            forward_only=False,
            drop_states=False,
        )
        super().__init__(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=encoder_lengths,
            decoder_cell=decoder,
            decoder_state_dim=decoder_state_dim,
            name=name,
            attention_type=attention_type,
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=attention_memory_optimization,
            forward_only=forward_only,
        )


class LSTMWithAttentionCell(_UnitWithAttention):
    """An LSTM with attention."""

    unit = LSTMCell


class MILSTMWithAttentionCell(_UnitWithAttention):
    """An LSTM with multiplicative gates and attention."""

    unit = MILSTMCell
