"""A decoder's layers as one cell, with or without attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import rnn_cell
from netgrad.caffe2.python.attention import AttentionType

_ATTENTION = {
    "regular": AttentionType.Regular,
    "recurrent": AttentionType.Recurrent,
    "dot": AttentionType.Dot,
}


class LSTMWithAttentionDecoder:
    """Layers of cells, which with attention read the context of the step before, and give a new one.

    Attributes:
        name: The scope of its blobs.
        num_layers: How many layers there are.
        cell: All of it as one cell.
        use_attention: Whether there is attention.
        decoder_output_dim: The size of the output, in which the context stands behind the state.
        output_indices: Which of the cell's states the output is made of.
    """

    def __init__(
        self,
        encoder_outputs: Any,
        encoder_output_dim: int,
        encoder_lengths: Any,
        vocab_size: int,
        attention_type: str,
        embedding_size: int,
        decoder_num_units: int,
        decoder_cells: Sequence[rnn_cell.RNNCell],
        residual_output_layers: Sequence[int] | None = None,
        name: str | None = None,
        weighted_encoder_outputs: Any = None,
    ) -> None:
        """Start a decoder.

        Args:
            encoder_outputs: The encoder's outputs, (length, batch, ``encoder_output_dim``).
            encoder_output_dim: Their size.
            encoder_lengths: How many of them each sentence has; None: all.
            vocab_size: Not used.
            attention_type: ``none``, ``regular``, ``recurrent`` or ``dot``.
            embedding_size: Not used.
            decoder_num_units: The size of the last cell's state.
            decoder_cells: The layers, from input to output.
            residual_output_layers: See `MultiRNNCell`.
            name: The scope of its blobs.
            weighted_encoder_outputs: See `AttentionCell`.

        Raises:
            ValueError: There is no such attention.
        """
        self.name = name
        self.num_layers = len(decoder_cells)
        layers = rnn_cell.MultiRNNCell(
            decoder_cells, name=self.scope("decoder"), residual_output_layers=residual_output_layers
        )
        self.cell: rnn_cell.RNNCell = layers
        self.use_attention = attention_type != "none"
        self.decoder_output_dim = decoder_num_units
        self.output_indices = layers.output_indices
        if not self.use_attention:
            return
        if attention_type not in _ATTENTION:
            known = ", ".join(_ATTENTION)
            raise ValueError(f"a decoder's attention is none, {known}, and not {attention_type!r}")
        self.cell = rnn_cell.AttentionCell(
            encoder_output_dim=encoder_output_dim,
            encoder_outputs=encoder_outputs,
            encoder_lengths=encoder_lengths,
            decoder_cell=layers,
            decoder_state_dim=decoder_num_units,
            name=self.scope("attention_decoder"),
            attention_type=_ATTENTION[attention_type],
            weighted_encoder_outputs=weighted_encoder_outputs,
            attention_memory_optimization=True,
        )
        self.decoder_output_dim += encoder_output_dim
        self.output_indices.append(2 * self.num_layers)  # the context, behind two states of each layer

    def scope(self, name: str) -> str:
        """A name in the decoder's own scope."""
        return name if self.name is None else f"{self.name}/{name}"

    def get_state_names(self) -> Sequence[str]:
        """The names of all states."""
        return self.cell.get_state_names()

    def get_outputs_with_grads(self) -> list[int]:
        """Which blobs of the whole sequence the output is made of; each state has two."""
        return [2 * index for index in self.output_indices]

    def get_output_dim(self) -> int:
        """The size of the output."""
        return self.decoder_output_dim

    def get_attention_weights(self) -> Any:
        """The weights of the step that was added last, (batch, length, 1)."""
        assert isinstance(self.cell, rnn_cell.AttentionCell), "a decoder without attention has no weights"
        return self.cell.get_attention_weights()

    def apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Sequence[Any], timestep: Any
    ) -> tuple[Any, Any]:
        """Add one step to a model; returns its output and the new states."""
        return self.cell.apply(
            model=model, input_t=input_t, seq_lengths=seq_lengths, states=states, timestep=timestep
        )

    def apply_over_sequence(
        self, model: Any, inputs: Any, seq_lengths: Any, initial_states: Sequence[Any]
    ) -> tuple[Any, Any]:
        """Add all steps to a model; returns the outputs, and two blobs for each state."""
        return self.cell.apply_over_sequence(
            model=model,
            inputs=inputs,
            seq_lengths=seq_lengths,
            initial_states=initial_states,
            outputs_with_grads=self.get_outputs_with_grads(),
        )
