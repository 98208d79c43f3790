"""The encoder: embeddings of words, and layers of LSTMs over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU
from netgrad.caffe2.python import core, rnn_cell


def _inside(scope: str | None, name: str) -> str:
    return f"{scope}/{name}" if scope else name


def get_layer_scope(scope: str | None, layer_type: str, i: int) -> str:
    """The scope of a layer: ``scope/layer_type/layer<i>``."""
    return _inside(scope, f"{layer_type}/layer{i}")


def dropout_ratio_of(config: Mapping[str, Any]) -> float | None:
    """How much of a layer's output is dropped, which its description says by what is kept; None: nothing."""
    kept = config.get("dropout_keep_prob")
    return None if kept is None else 1.0 - kept


def rnn_unidirectional_layer(
    model: Any,
    inputs: Any,
    input_lengths: Any,
    input_size: int,
    num_units: int,
    dropout_keep_prob: float | None,
    forward_only: bool,
    return_sequence_output: bool,
    return_final_state: bool,
    scope: str | None = None,
    is_test: bool = False,
) -> tuple[Any, Any, Any]:
    """Add an LSTM that starts with zeros.

    Args:
        model: The model.
        inputs: The sequences, (length, batch, ``input_size``).
        input_lengths: The length of each, int32 of shape (batch,).
        input_size: The size of the input.
        num_units: The size of the states.
        dropout_keep_prob: How much of the output a ``Dropout`` keeps; None: there is none.
        forward_only: Whether there will be no backward pass, and with it no dropout.
        return_sequence_output: Whether the outputs of all steps have a gradient.
        return_final_state: Whether the last states have one.
        scope: The scope of its blobs.
        is_test: Whether the dropout lets all pass.

    Returns:
        The outputs of all steps, the last hidden state and the last cell state.
    """
    with core.NameScope(scope):
        cell_state, hidden_state = (
            model.param_init_net.ConstantFill([], name, shape=[num_units], value=0.0)
            for name in ("initial_cell_state", "initial_hidden_state")
        )
    cell: rnn_cell.RNNCell = rnn_cell.LSTMCell(
        input_size=input_size,
        hidden_size=num_units,
        forget_bias=0.0,
        memory_optimization=False,
        name=_inside(scope, "lstm"),
        forward_only=forward_only,
    )
    ratio = dropout_ratio_of({"dropout_keep_prob": dropout_keep_prob})
    if ratio is not None:
        cell = rnn_cell.DropoutCell(
            internal_cell=cell,
            dropout_ratio=ratio,
            name=_inside(scope, "dropout"),
            forward_only=forward_only,
            is_test=is_test,
        )
    outputs, (_, last_hidden, _, last_cell) = cell.apply_over_sequence(
        model=model,
        inputs=inputs,
        seq_lengths=input_lengths,
        initial_states=(hidden_state, cell_state),
        outputs_with_grads=[0] * return_sequence_output + [1, 3] * return_final_state,
    )
    return outputs, last_hidden, last_cell


def rnn_bidirectional_layer(
    model: Any,
    inputs: Any,
    input_lengths: Any,
    input_size: int,
    num_units: int,
    dropout_keep_prob: float | None,
    forward_only: bool,
    return_sequence_output: bool,
    return_final_state: bool,
    scope: str | None = None,
    is_test: bool = False,
) -> tuple[Any, Any, Any]:
    """Add two LSTMs, one of which reads from the end, and join what they give.

    Args:
        model: See `rnn_unidirectional_layer`, as all others.
        inputs: The same.
        input_lengths: The same.
        input_size: The same.
        num_units: The size of each one's states, so that results are twice as large.
        dropout_keep_prob: The same.
        forward_only: The same.
        return_sequence_output: Whether there are outputs of all steps.
        return_final_state: Whether there are last states.
        scope: The same.
        is_test: The same.

    Returns:
        The outputs of all steps, the last hidden state and the last cell state; None for what isn't wanted.
    """

    def layer(sequence: Any, direction: str) -> tuple[Any, Any, Any]:
        return rnn_unidirectional_layer(
            model,
            sequence,
            input_lengths,
            input_size,
            num_units,
            dropout_keep_prob,
            forward_only,
            return_sequence_output,
            return_final_state,
            scope=_inside(scope, direction),
            is_test=is_test,
        )

    def turned(sequence: Any, name: str) -> Any:
        with core.NameScope(scope):
            return model.net.ReversePackedSegs([sequence, input_lengths], [name])

    def joined(there: Any, back: Any, name: str) -> Any:
        with core.NameScope(scope):
            return model.net.Concat([there, back], [name, f"{name}_dim"], axis=2)[0]

    there, hidden_there, cell_there = layer(inputs, "fw")
    back, hidden_back, cell_back = layer(turned(inputs, "reversed_inputs"), "bw")
    back = turned(back, "outputs_bw")
    outputs = hidden = cell = None
    if return_sequence_output:
        outputs = joined(there, back, "outputs")
    if return_final_state:
        hidden = joined(hidden_there, hidden_back, "final_hidden_state")
        cell = joined(cell_there, cell_back, "final_cell_state")
    return outputs, hidden, cell


def build_embeddings(
    model: Any, vocab_size: int, embedding_size: int, name: str, freeze_embeddings: bool
) -> Any:
    """Add embeddings, a row for each word; they are trained unless they are frozen."""
    embeddings = model.param_init_net.GaussianFill([], name, shape=[vocab_size, embedding_size], std=0.1)
    if not freeze_embeddings:
        model.params.append(embeddings)
    return embeddings


def embedded(model: Any, embeddings: Any, words: Any, name: str, num_gpus: int, scope: str | None) -> Any:
    """The embeddings of words; where there are devices, looked up in the processor's memory and copied."""
    with core.NameScope(scope or ""):
        if num_gpus == 0:
            return model.net.Gather([embeddings, words], [name])
        with core.DeviceScope(core.DeviceOption(CPU)):
            rows = model.net.Gather([embeddings, words], [f"{name}_cpu"])
        return model.CopyCPUToGPU(rows, name)


def build_embedding_encoder(
    model: Any,
    encoder_params: Mapping[str, Any],
    num_decoder_layers: int,
    inputs: Any,
    input_lengths: Any,
    vocab_size: int,
    embeddings: Any,
    embedding_size: int,
    use_attention: bool,
    num_gpus: int = 0,
    forward_only: bool = False,
    scope: str | None = None,
    is_test: bool = False,
) -> tuple[Any, Any, list[Any], list[Any], list[int]]:
    """Add an encoder.

    Args:
        model: The model.
        encoder_params: ``encoder_layer_configs``, for each layer its ``num_units`` and, if wanted, its
            ``dropout_keep_prob``; ``use_bidirectional_encoder``, whether the first one reads both ways.
        num_decoder_layers: The decoder's layers: as many of the last layers give their last states.
        inputs: The numbers of words, int32 of shape (length, batch).
        input_lengths: The length of each sentence, int32 of shape (batch,).
        vocab_size: Not used.
        embeddings: A row for each word.
        embedding_size: The size of a row.
        use_attention: Whether the decoder reads the outputs of all steps.
        num_gpus: The number of devices that the model is built for; 0: the processor alone.
        forward_only: Whether there will be no backward pass.
        scope: The scope of its blobs.
        is_test: Whether dropouts let all pass.

    Returns:
        The last layer's outputs, what the attention matches instead of them (None), for each layer the last
        hidden state and the last cell state (None for those that the decoder doesn't need), and for each
        layer the size of its outputs.
    """
    outputs = embedded(model, embeddings, inputs, "embedded_encoder_inputs", num_gpus, scope)
    size = embedding_size
    configs = encoder_params["encoder_layer_configs"]
    hidden_states, cell_states, sizes = [], [], []
    for i, config in enumerate(configs):
        both_ways = i == 0 and encoder_params.get("use_bidirectional_encoder", False)
        layer = rnn_bidirectional_layer if both_ways else rnn_unidirectional_layer
        outputs, hidden, cell = layer(
            model=model,
            inputs=outputs,
            input_lengths=input_lengths,
            input_size=size,
            num_units=config["num_units"],
            dropout_keep_prob=config.get("dropout_keep_prob"),
            forward_only=forward_only,
            return_sequence_output=use_attention or i < len(configs) - 1,
            return_final_state=i >= len(configs) - num_decoder_layers,
            scope=get_layer_scope(scope, "encoder", i),
            is_test=is_test,
        )
        size = config["num_units"] * (2 if both_ways else 1)
        sizes.append(size)
        hidden_states.append(hidden)
        cell_states.append(cell)
    return outputs, None, hidden_states, cell_states, sizes
