"""The decoder: what it starts with, its layers over embeddings of words, and the scores of words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.python import brew, rnn_cell
from netgrad.caffe2.python.models.seq2seq.attention_decoder import LSTMWithAttentionDecoder
from netgrad.caffe2.python.models.seq2seq.encoder import dropout_ratio_of, embedded, get_layer_scope


def build_initial_rnn_decoder_states(
    model: Any,
    encoder_units_per_layer: Sequence[int],
    decoder_units_per_layer: Sequence[int],
    final_encoder_hidden_states: Sequence[Any] | None,
    final_encoder_cell_states: Sequence[Any] | None,
    use_attention: bool,
) -> list[Any]:
    """Add the states that a decoder starts with.

    The last layers of encoder and decoder belong together if the encoder has more of them, else the first
    ones. A decoder's layer starts with the last state of its encoder's layer, with a product of it if the
    sizes differ, and with a parameter if there is none.

    Args:
        model: The model.
        encoder_units_per_layer: The sizes of the encoder's layers.
        decoder_units_per_layer: Those of the decoder's.
        final_encoder_hidden_states: The last hidden state of each of the encoder's layers, or None.
        final_encoder_cell_states: Likewise the last cell state.
        use_attention: Whether there is a context, which starts as a parameter.

    Returns:
        For each layer the hidden state and the cell state, then the context.
    """

    def parameter(name: str, size: int) -> Any:
        blob = model.param_init_net.ConstantFill([], name, shape=[size], value=0.0)
        model.params.append(blob)
        return blob

    offset = max(len(encoder_units_per_layer) - len(decoder_units_per_layer), 0)
    kinds = (("hidden", final_encoder_hidden_states or ()), ("cell", final_encoder_cell_states or ()))
    states = []
    for i, size in enumerate(decoder_units_per_layer):
        for kind, finals in kinds:
            name = f"decoder_initial_{kind}_state_{i}"
            final = finals[i + offset] if i + offset < len(finals) else None
            if final is None:
                states.append(parameter(name, size))
            elif encoder_units_per_layer[i + offset] == size:
                states.append(final)
            else:
                states.append(brew.fc(model, final, name, encoder_units_per_layer[i + offset], size, axis=2))
    if use_attention:
        states.append(parameter("initial_attention_weighted_encoder_context", encoder_units_per_layer[-1]))
    return states


def decoder_layers(
    configs: Sequence[Mapping[str, Any]],
    embedding_size: int,
    forward_only: bool,
    is_test: bool = False,
    scope: str | None = None,
) -> list[rnn_cell.RNNCell]:
    """The cells of a decoder's layers; those that are only run forward have no dropout."""
    cells: list[rnn_cell.RNNCell] = []
    size = embedding_size
    for i, config in enumerate(configs):
        cell: rnn_cell.RNNCell = rnn_cell.LSTMCell(
            forward_only=forward_only,
            input_size=size,
            hidden_size=config["num_units"],
            forget_bias=0.0,
            memory_optimization=False,
        )
        ratio = dropout_ratio_of(config)
        if ratio is not None and not forward_only:
            cell = rnn_cell.DropoutCell(
                internal_cell=cell,
                dropout_ratio=ratio,
                forward_only=forward_only,
                is_test=is_test,
                name=get_layer_scope(scope, "decoder_dropout", i),
            )
        cells.append(cell)
        size = config["num_units"]
    return cells


def flattened_outputs(model: Any, outputs: Any, size: int) -> Any:
    """A decoder's outputs as rows, whatever the length and the batch."""
    names = ["decoder_outputs_flattened", "decoder_outputs_and_contexts_combination_old_shape"]
    return model.net.Reshape([outputs], names, shape=[-1, size])[0]


def build_embedding_decoder(
    model: Any,
    decoder_layer_configs: Sequence[Mapping[str, Any]],
    inputs: Any,
    input_lengths: Any,
    encoder_lengths: Any,
    encoder_outputs: Any,
    weighted_encoder_outputs: Any,
    final_encoder_hidden_states: Sequence[Any],
    final_encoder_cell_states: Sequence[Any],
    encoder_units_per_layer: Sequence[int],
    vocab_size: int,
    embeddings: Any,
    embedding_size: int,
    attention_type: str,
    forward_only: bool,
    num_gpus: int = 0,
    scope: str | None = None,
    is_test: bool = False,
) -> tuple[Any, int]:
    """Add a decoder that reads the words of the right translation.

    Args:
        model: The model.
        decoder_layer_configs: For each layer its ``num_units`` and, if wanted, its ``dropout_keep_prob``.
        inputs: The numbers of words, int32 of shape (length, batch).
        input_lengths: The length of each sentence, int32 of shape (batch,).
        encoder_lengths: The same of those that the encoder read.
        encoder_outputs: What `build_embedding_encoder` gave, as the next four.
        weighted_encoder_outputs: The same.
        final_encoder_hidden_states: The same.
        final_encoder_cell_states: The same.
        encoder_units_per_layer: The same.
        vocab_size: Not used.
        embeddings: A row for each word.
        embedding_size: The size of a row.
        attention_type: See `LSTMWithAttentionDecoder`.
        forward_only: Whether there will be no backward pass.
        num_gpus: The number of devices that the model is built for; 0: the processor alone.
        scope: The scope of its blobs.
        is_test: Whether dropouts let all pass.

    Returns:
        The outputs of all steps and sentences as rows, and their size.
    """
    sequence = embedded(model, embeddings, inputs, "embedded_decoder_inputs", num_gpus, scope)
    cells = decoder_layers(decoder_layer_configs, embedding_size, forward_only, is_test, scope)
    units = [config["num_units"] for config in decoder_layer_configs]
    states = build_initial_rnn_decoder_states(
        model=model,
        encoder_units_per_layer=encoder_units_per_layer,
        decoder_units_per_layer=units,
        final_encoder_hidden_states=final_encoder_hidden_states,
        final_encoder_cell_states=final_encoder_cell_states,
        use_attention=attention_type != "none",
    )
    decoder = LSTMWithAttentionDecoder(
        encoder_outputs=encoder_outputs,
        encoder_output_dim=encoder_units_per_layer[-1],
        encoder_lengths=encoder_lengths,
        vocab_size=vocab_size,
        attention_type=attention_type,
        embedding_size=embedding_size,
        decoder_num_units=units[-1],
        decoder_cells=cells,
        weighted_encoder_outputs=weighted_encoder_outputs,
        name=scope,
    )
    outputs, _ = decoder.apply_over_sequence(
        model=model, inputs=sequence, seq_lengths=input_lengths, initial_states=states
    )
    return flattened_outputs(model, outputs, decoder.get_output_dim()), decoder.get_output_dim()


def output_projection(
    model: Any,
    decoder_outputs: Any,
    decoder_output_size: int,
    target_vocab_size: int,
    decoder_softmax_size: int | None,
) -> Any:
    """Add the scores of all words, of a decoder's outputs as rows.

    Args:
        model: The model.
        decoder_outputs: The rows.
        decoder_output_size: Their size.
        target_vocab_size: The number of words.
        decoder_softmax_size: The size that rows are brought to first; None: they stay as they are.

    Returns:
        The scores, (rows, words).
    """
    if decoder_softmax_size is not None:
        decoder_outputs = brew.fc(
            model,
            decoder_outputs,
            "decoder_outputs_scaled",
            dim_in=decoder_output_size,
            dim_out=decoder_softmax_size,
        )
        decoder_output_size = decoder_softmax_size
    shapes = {
        "output_projection_w": [target_vocab_size, decoder_output_size],
        "output_projection_b": [target_vocab_size],
    }
    fills = [model.param_init_net.XavierFill([], name, shape=shape) for name, shape in shapes.items()]
    model.params.extend(fills)
    return model.net.FC([decoder_outputs, *fills], ["output_logits"])
