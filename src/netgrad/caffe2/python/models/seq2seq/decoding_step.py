"""A trained model's part of a translation: its encoder, and one step of its decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.models.seq2seq.attention_decoder import LSTMWithAttentionDecoder
from netgrad.caffe2.python.models.seq2seq.beam_search import BeamSearchForwardOnly, Link, State
from netgrad.caffe2.python.models.seq2seq.decoder import (
    build_initial_rnn_decoder_states,
    decoder_layers,
    flattened_outputs,
    output_projection,
)
from netgrad.caffe2.python.models.seq2seq.encoder import build_embedding_encoder, build_embeddings


def weighted_sum(model: Any, values: Sequence[Any], weight: Any, output_name: str) -> Any:
    """Add the sum of blobs, all with the same weight."""
    return model.net.WeightedSum([blob for value in values for blob in (value, weight)], output_name)


class DecodingStep:
    """Adds the encoder to a search's model, and the decoder's step to its step model.

    Attributes:
        states: What the decoder carries from step to step.
        log_probs: The logarithms of the words' probabilities, (beam, words).
        attention_weights: Those of the sentence's words, (beam, length, 1); zeros without attention.
    """

    def __init__(
        self,
        search: BeamSearchForwardOnly,
        params: Mapping[str, Any],
        scope: str,
        encoder_inputs: Any,
        encoder_lengths: Any,
        fake_seq_lengths: Any,
        source_vocab_size: int,
        target_vocab_size: int,
    ) -> None:
        """Add them.

        Args:
            search: The search.
            params: The description of the model, see `Seq2SeqModelCaffe2`.
            scope: The scope of its blobs.
            encoder_inputs: The numbers of a sentence's words, int32 of shape (length, 1).
            encoder_lengths: The length, int32 of shape (1,).
            fake_seq_lengths: For each hypothesis more steps than there are, int32 of shape (beam,).
            source_vocab_size: The number of words.
            target_vocab_size: The number of the translations' words.
        """
        self.search = search
        self.params = params
        self.name = scope
        self.attends = params["attention"] != "none"
        model, step = search.model, search.get_step_model()
        with core.NameScope(scope):
            embeddings = self._embeddings("encoder", source_vocab_size)
        outputs, matched, hidden_states, cell_states, units = build_embedding_encoder(
            model=model,
            encoder_params=params["encoder_type"],
            num_decoder_layers=len(params["decoder_layer_configs"]),
            inputs=encoder_inputs,
            input_lengths=encoder_lengths,
            vocab_size=source_vocab_size,
            embeddings=embeddings,
            embedding_size=params["encoder_embedding_size"],
            use_attention=self.attends,
            num_gpus=0,
            forward_only=True,
            scope=scope,
        )
        decoder_units = [config["num_units"] for config in params["decoder_layer_configs"]]
        with core.NameScope(scope):
            if self.attends:
                outputs = self._for_each_hypothesis(outputs, "encoder_outputs_tiled")
            embeddings = self._embeddings("decoder", target_vocab_size)
            word = step.net.Gather([embeddings, search.get_previous_tokens()], "embedded_tokens_t_prev")
            hidden_states, cell_states = (
                [
                    last and self._for_each_hypothesis(last, f"final_encoder_{kind}_tiled_{layer}")
                    for layer, last in enumerate(lasts)
                ]
                for kind, lasts in (("hidden", hidden_states), ("cell", cell_states))
            )
            initial = build_initial_rnn_decoder_states(
                model, units, decoder_units, hidden_states, cell_states, use_attention=self.attends
            )
        decoder = LSTMWithAttentionDecoder(
            encoder_outputs=outputs,
            encoder_output_dim=units[-1],
            encoder_lengths=None,  # the only sentence is as long as the outputs
            vocab_size=target_vocab_size,
            attention_type=params["attention"],
            embedding_size=params["decoder_embedding_size"],
            decoder_num_units=decoder_units[-1],
            decoder_cells=decoder_layers(
                params["decoder_layer_configs"], params["decoder_embedding_size"], forward_only=True
            ),
            weighted_encoder_outputs=matched,
            name=scope,
        )
        before = core.output_to_list(
            step.net.AddExternalInputs(*(f"{scope}/{name}_prev" for name in decoder.get_state_names()))
        )
        row, after = decoder.apply(
            model=step,
            input_t=word,
            seq_lengths=fake_seq_lengths,
            states=before,
            timestep=search.get_timestep(),
        )
        self.states = [
            State(first, Link(read, 0, 1), Link(written, 1, 1))
            for first, read, written in zip(initial, before, after, strict=True)
        ]
        with core.NameScope(scope):
            self.log_probs = self._log_probs(row, decoder.get_output_dim(), target_vocab_size)
            self.attention_weights = (
                decoder.get_attention_weights() if self.attends else self._no_attention(encoder_inputs)
            )

    def _embeddings(self, part: str, words: int) -> Any:
        return build_embeddings(
            model=self.search.model,
            vocab_size=words,
            embedding_size=self.params[f"{part}_embedding_size"],
            name=f"{part}_embeddings",
            freeze_embeddings=False,
        )

    def _for_each_hypothesis(self, blob: Any, name: str) -> Any:
        return self.search.model.net.Tile(blob, name, tiles=self.search.beam_size, axis=1)

    def _log_probs(self, row: Any, size: int, words: int) -> Any:
        step = self.search.get_step_model()
        scores = output_projection(
            model=step,
            decoder_outputs=flattened_outputs(step, row, size),
            decoder_output_size=size,
            target_vocab_size=words,
            decoder_softmax_size=self.params["decoder_softmax_size"],
        )
        return step.net.Log(step.net.Softmax(scores, "output_probs"), "output_log_probs")

    def _no_attention(self, encoder_inputs: Any) -> Any:
        """Zeros in the place of weights: (beam, length)."""
        net = self.search.get_step_model().net
        zeros = net.ConstantFill([encoder_inputs], "zero_attention_weights_tmp_1", value=0.0)
        zeros = net.Transpose(zeros, "zero_attention_weights_tmp_2")
        return net.Tile(zeros, "zero_attention_weights_tmp", tiles=self.search.beam_size, axis=0)
