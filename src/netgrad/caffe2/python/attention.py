"""Attention of a decoder's step over the outputs of an encoder.

Shapes: encoder outputs are (length, batch, dim), transposed ones (batch, dim, length), a state is
(1, batch, size). Each function returns the context, (1, batch, dim), the weights, (batch, length, 1), and the
blobs that the backward pass may compute again.
"""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import brew


class AttentionType:
    """How a state is matched with the encoder's outputs."""

    Regular, Recurrent, Dot, SoftCoverage = range(4)


def _product(model: Any, blob: Any, dim_in: int, dim_out: int, name: str) -> Any:
    """The product of a state with weights, (batch, dim)."""
    product = brew.fc(model, blob, name, dim_in=dim_in, dim_out=dim_out, axis=2)
    return model.net.Squeeze(product, product, dims=[0])


def _logits(model: Any, total: Any, dim: int, scope: str) -> Any:
    """v.tanh(sums), (batch, length, 1), of sums (length, batch, dim), which become their tanh."""
    total = model.net.Tanh(total, total)
    logits = brew.fc(
        model, total, f"{scope}/attention_logits", dim_in=dim, dim_out=1, axis=2, freeze_bias=True
    )
    return brew.transpose(model, logits, f"{scope}/attention_logits_transposed", axes=[1, 0, 2])


def _attended(
    model: Any, logits: Any, transposed: Any, dim: int, scope: str, encoder_lengths: Any
) -> tuple[Any, Any]:
    """The context and the weights, of logits (batch, length, 1)."""
    if encoder_lengths is not None:
        logits = model.net.SequenceMask(
            [logits, encoder_lengths], ["masked_attention_logits"], mode="sequence"
        )
    weights = brew.softmax(model, logits, f"{scope}/attention_weights_3d", engine="CUDNN", axis=1)
    context = brew.batch_mat_mul(model, [transposed, weights], f"{scope}/attention_weighted_encoder_context")
    old_shape = f"{scope}/attention_weighted_encoder_context_old_shape"
    return model.net.Reshape(context, [context, old_shape], shape=[1, -1, dim])[0], weights


def apply_recurrent_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    attention_weighted_encoder_context_t_prev: Any,
    scope: str,
    encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Sum match with the state and the context of the step before."""
    dim = encoder_output_dim
    before = _product(
        model, attention_weighted_encoder_context_t_prev, dim, dim, f"{scope}/weighted_prev_attention_context"
    )
    state = _product(
        model, decoder_hidden_state_t, decoder_hidden_state_dim, dim, f"{scope}/weighted_decoder_hidden_state"
    )
    both = model.net.Add([before, state], f"{scope}/decoder_hidden_encoder_outputs_sum_tmp")
    total = model.net.Add(
        [weighted_encoder_outputs, both], f"{scope}/decoder_hidden_encoder_outputs_sum", broadcast=1
    )
    logits = _logits(model, total, dim, scope)
    return *_attended(model, logits, encoder_outputs_transposed, dim, scope, encoder_lengths), [total]


def apply_regular_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: str,
    encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Sum match with the state."""
    dim = encoder_output_dim
    state = _product(
        model, decoder_hidden_state_t, decoder_hidden_state_dim, dim, f"{scope}/weighted_decoder_hidden_state"
    )
    total = model.net.Add(
        [weighted_encoder_outputs, state],
        f"{scope}/decoder_hidden_encoder_outputs_sum",
        broadcast=1,
        use_grad_hack=1,
    )
    logits = _logits(model, total, dim, scope)
    return *_attended(model, logits, encoder_outputs_transposed, dim, scope, encoder_lengths), [total]


def apply_dot_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: str,
    encoder_lengths: Any = None,
) -> tuple[Any, Any, list[Any]]:
    """Products with the state, which is made as large as the outputs first."""
    dim = encoder_output_dim
    state = decoder_hidden_state_t
    if decoder_hidden_state_dim != dim:
        name = f"{scope}/weighted_decoder_hidden_state"
        state = brew.fc(model, state, name, dim_in=decoder_hidden_state_dim, dim_out=dim, axis=2)
    flat = model.net.Squeeze(state, f"{scope}/squeezed_weighted_decoder_hidden_state", dims=[0])
    column = model.net.ExpandDims(flat, flat, dims=[2])
    logits = model.net.BatchMatMul(
        [encoder_outputs_transposed, column], f"{scope}/attention_logits", trans_a=1
    )
    return *_attended(model, logits, encoder_outputs_transposed, dim, scope, encoder_lengths), []


def apply_soft_coverage_attention(
    model: Any,
    encoder_output_dim: int,
    encoder_outputs_transposed: Any,
    weighted_encoder_outputs: Any,
    decoder_hidden_state_t: Any,
    decoder_hidden_state_dim: int,
    scope: str,
    encoder_lengths: Any,
    coverage_t_prev: Any,
    coverage_weights: Any,
) -> tuple[Any, Any, list[Any], Any]:
    """Sum match with the state and with what each output was given before; returns the new coverage too."""
    dim = encoder_output_dim
    state = _product(
        model, decoder_hidden_state_t, decoder_hidden_state_dim, dim, f"{scope}/weighted_decoder_hidden_state"
    )
    both = model.net.Add(
        [weighted_encoder_outputs, state], f"{scope}/decoder_hidden_encoder_outputs_sum_tmp", broadcast=1
    )
    flat = model.net.Squeeze(coverage_t_prev, f"{scope}/coverage_t_prev_2d", dims=[0])
    covered = brew.transpose(model, flat, f"{scope}/coverage_t_prev_transposed")
    scaled = model.net.Mul(
        [coverage_weights, covered], f"{scope}/scaled_coverage_weights", broadcast=1, axis=0
    )
    total = model.net.Add([both, scaled], f"{scope}/decoder_hidden_encoder_outputs_sum")
    logits = _logits(model, total, dim, scope)
    context, weights = _attended(model, logits, encoder_outputs_transposed, dim, scope, encoder_lengths)
    row = model.net.Squeeze(weights, f"{scope}/attention_weights_2d", dims=[2])
    coverage = model.net.Add([coverage_t_prev, row], f"{scope}/coverage_t", broadcast=1)
    return context, weights, [total], coverage
