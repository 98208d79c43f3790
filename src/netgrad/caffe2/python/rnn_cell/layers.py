"""Functions that add recurrent layers to a model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.attention import AttentionType
from netgrad.caffe2.python.rnn_cell.attention_cells import LSTMWithAttentionCell
from netgrad.caffe2.python.rnn_cell.cell import RNNCell
from netgrad.caffe2.python.rnn_cell.composite import MultiRNNCell, UnrolledCell
from netgrad.caffe2.python.rnn_cell.units import (
    BasicRNNCell,
    LayerNormLSTMCell,
    LayerNormMILSTMCell,
    LSTMCell,
    MILSTMCell,
)


def _LSTM(
    cell_class: Any,
    model: Any,
    input_blob: Any,
    seq_lengths: Any,
    initial_states: Sequence[Any] | None,
    dim_in: int,
    dim_out: int | Sequence[int],
    scope: str | None = None,
    outputs_with_grads: Sequence[int] = (0,),
    return_params: bool = False,
    memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
    drop_states: bool = False,
    return_last_layer_only: bool = True,
    static_rnn_unroll_size: int | None = None,
    **cell_kwargs: Any,
) -> tuple[Any, ...]:
    """Add a recurrent layer, or several on top of each other.

    Args:
        cell_class: The kind of cell.
        model: The model.
        input_blob: The sequence, (steps, batch, ``dim_in``).
        seq_lengths: The length of each sequence of the batch, int32 of shape (batch,); None: all steps.
        initial_states: The states of all layers before the first step, each (batch, size), (1, batch, size)
            or, for the whole batch, (size,); None: parameters.
        dim_in: The size of the input.
        dim_out: The size of the layer's states, or of those of each layer.
        scope: What its blobs' names begin with.
        outputs_with_grads: Which of the last layer's outputs have a gradient.
        return_params: Whether the names of the parameters come behind the outputs.
        memory_optimization: Whether the backward pass computes the gates again.
        forget_bias: Added to the gate of forgetting.
        forward_only: Whether there will be no backward pass.
        drop_states: Whether states past the end of a sequence are zero, rather than the last ones.
        return_last_layer_only: Whether the states of the other layers are left out.
        static_rnn_unroll_size: The number of steps, for a layer that is written step by step.
        **cell_kwargs: Further arguments of the cell, such as ``activation`` of a basic one.

    Returns:
        For each state two blobs: after each step, and after the last one. An LSTM has its hidden state first,
        and then its cell state.
    """
    sizes = list(dim_out) if isinstance(dim_out, list | tuple) else [dim_out]
    cells = [
        cell_class(
            input_size=size_in,
            hidden_size=size,
            forget_bias=forget_bias,
            memory_optimization=memory_optimization,
            name=scope if len(sizes) == 1 else None,
            forward_only=forward_only,
            drop_states=drop_states,
            **cell_kwargs,
        )
        for size_in, size in zip([dim_in, *sizes], sizes, strict=False)
    ]
    cell: RNNCell = (
        cells[0] if len(cells) == 1 else MultiRNNCell(cells, name=scope, forward_only=forward_only)
    )
    if static_rnn_unroll_size is not None:
        cell = UnrolledCell(cell, static_rnn_unroll_size)
    first = sum(2 * len(one.get_state_names()) for one in cells[:-1])  # of the last layer's outputs
    _, found = cell.apply_over_sequence(
        model=model,
        inputs=input_blob,
        seq_lengths=seq_lengths,
        initial_states=initial_states,
        outputs_with_grads=[first + at for at in outputs_with_grads],
    )
    result = list(found[first:] if return_last_layer_only else found)
    if return_params:
        if len(cells) > 1:
            raise NotImplementedError(
                "return_params is for one layer: several have no list of their parameters"
            )
        named: Any = cell
        result.append({"input": named.get_input_params(), "recurrent": named.get_recurrent_params()})
    return tuple(result)


LSTM = functools.partial(_LSTM, LSTMCell)
BasicRNN = functools.partial(_LSTM, BasicRNNCell)
MILSTM = functools.partial(_LSTM, MILSTMCell)
LayerNormLSTM = functools.partial(_LSTM, LayerNormLSTMCell)
LayerNormMILSTM = functools.partial(_LSTM, LayerNormMILSTMCell)


def GetLSTMParamNames() -> dict[str, list[str]]:
    """What the parts of an LSTM's parameters are called, in the order of its gates."""
    gates = ("input_gate", "forget_gate", "output_gate", "cell")
    return {"weights": [f"{gate}_w" for gate in gates], "biases": [f"{gate}_b" for gate in gates]}


def InitFromLSTMParams(
    lstm_pblobs: Mapping[str, Mapping[str, Any]], param_values: Mapping[str, Mapping[str, Any]]
) -> None:
    """Feed an LSTM's parameters from their parts.

    Args:
        lstm_pblobs: The names of the parameters, as a layer returns them with ``return_params``.
        param_values: For ``input`` and ``recurrent`` the parts by the names of `GetLSTMParamNames`.
    """
    for source, parts in param_values.items():
        for kind, names in GetLSTMParamNames().items():
            blob = lstm_pblobs[source][kind]
            joined = np.concatenate([np.asarray(parts[name]).ravel() for name in names])
            workspace.FeedBlob(blob, joined.reshape(workspace.FetchBlob(blob).shape).astype(np.float32))


def cudnn_LSTM(
    model: Any,
    input_blob: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int,
    scope: str,
    recurrent_params: Any = None,
    input_params: Any = None,
    num_layers: int = 1,
    return_params: bool = False,
) -> NoReturn:
    """Refuse: it is made of cuDNN's own operators, with all parameters in one blob.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"cudnn_LSTM (scope '{scope}') needs cuDNN's operators Recurrent, RecurrentParamSet and "
        "RecurrentParamGet, which netgrad does not have; rnn_cell.LSTM is the same layer with parameters of "
        "its own"
    )


def LSTMWithAttention(
    model: Any,
    decoder_inputs: Any,
    decoder_input_lengths: Any,
    initial_decoder_hidden_state: Any,
    initial_decoder_cell_state: Any,
    initial_attention_weighted_encoder_context: Any,
    encoder_output_dim: int,
    encoder_outputs: Any,
    encoder_lengths: Any,
    decoder_input_dim: int,
    decoder_state_dim: int,
    scope: str,
    attention_type: int = AttentionType.Regular,
    outputs_with_grads: Sequence[int] = (0, 4),
    weighted_encoder_outputs: Any = None,
    lstm_memory_optimization: bool = False,
    attention_memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
) -> Any:
    """Add an LSTM that attends to the outputs of an encoder.

    Args:
        model: The model.
        decoder_inputs: The sequence, (steps, batch, ``decoder_input_dim``).
        decoder_input_lengths: The length of each sequence of the batch.
        initial_decoder_hidden_state: The hidden state before the first step.
        initial_decoder_cell_state: The cell state before it.
        initial_attention_weighted_encoder_context: The context before it.
        encoder_output_dim: See `LSTMWithAttentionCell`, as most others.
        encoder_outputs: The same.
        encoder_lengths: The same.
        decoder_input_dim: The same.
        decoder_state_dim: The same.
        scope: What its blobs' names begin with.
        attention_type: See `LSTMWithAttentionCell`.
        outputs_with_grads: Which outputs have a gradient.
        weighted_encoder_outputs: See `LSTMWithAttentionCell`.
        lstm_memory_optimization: The same.
        attention_memory_optimization: The same.
        forget_bias: The same.
        forward_only: Whether there will be no backward pass.

    Returns:
        For the hidden state, the cell state, the context, and with soft coverage what was covered, two blobs
        each: after each step, and after the last one.
    """
    cell = LSTMWithAttentionCell(
        encoder_output_dim=encoder_output_dim,
        encoder_outputs=encoder_outputs,
        encoder_lengths=encoder_lengths,
        decoder_input_dim=decoder_input_dim,
        decoder_state_dim=decoder_state_dim,
        name=scope,
        attention_type=attention_type,
        weighted_encoder_outputs=weighted_encoder_outputs,
        forget_bias=forget_bias,
        lstm_memory_optimization=lstm_memory_optimization,
        attention_memory_optimization=attention_memory_optimization,
        forward_only=forward_only,
    )
    initial = [
        initial_decoder_hidden_state,
        initial_decoder_cell_state,
        initial_attention_weighted_encoder_context,
    ]
    if attention_type == AttentionType.SoftCoverage:
        initial.append(cell.build_initial_coverage(model))
    return cell.apply_over_sequence(
        model=model,
        inputs=decoder_inputs,
        seq_lengths=decoder_input_lengths,
        initial_states=initial,
        outputs_with_grads=outputs_with_grads,
    )[1]


def _layered_LSTM(
    model: Any,
    input_blob: Any,
    seq_lengths: Any,
    initial_states: Any,
    dim_in: int,
    dim_out: int | list[int],
    scope: str,
    outputs_with_grads: Sequence[int] = (0,),
    return_params: bool = False,
    memory_optimization: bool = False,
    forget_bias: float = 0.0,
    forward_only: bool = False,
    drop_states: bool = False,
    create_lstm: Callable[..., Any] = LSTM,
) -> Any:
    """Layers that are recurrent nets of their own; each starts with the last states of the one below."""
    layer = functools.partial(
        create_lstm,
        model,
        seq_lengths=seq_lengths,
        outputs_with_grads=outputs_with_grads,
        return_params=return_params,
        memory_optimization=memory_optimization,
        forget_bias=forget_bias,
        forward_only=forward_only,
        drop_states=drop_states,
    )
    sizes = dim_out if isinstance(dim_out, list) else [dim_out]
    assert sizes, "there is no layer: dim_out is empty"
    assert len(sizes) == 1 or not return_params, "layers on top of each other don't return their parameters"
    found: Any = None
    for number, size in enumerate(sizes):
        name = scope if number == 0 else f"{scope}_layer_{number}"
        found = layer(
            input_blob=input_blob, initial_states=initial_states, dim_in=dim_in, dim_out=size, scope=name
        )
        if len(sizes) > 1:
            input_blob, last_hidden, _, last_cell = found
            initial_states, dim_in = (last_hidden, last_cell), size
    return found


layered_LSTM = functools.partial(_layered_LSTM, create_lstm=LSTM)  # noqa: N816  scripts know it by this name
