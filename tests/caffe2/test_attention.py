"""Decoders with attention against NumPy, and their gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, rnn_cell, workspace
from netgrad.caffe2.python.attention import AttentionType
from netgrad.caffe2.python.model_helper import ModelHelper

STEPS, BATCH, INPUT, STATE, LENGTH, OUTPUT = 3, 2, 3, 4, 5, 4
Array = Any

KINDS = {
    "regular": AttentionType.Regular,
    "recurrent": AttentionType.Recurrent,
    "dot": AttentionType.Dot,
    "soft_coverage": AttentionType.SoftCoverage,
}


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def decoded(kind: str, v: dict[str, Array], encoder_lengths: Array | None) -> list[Array]:
    """All states after each step; those of the context last."""

    def linear(x: Array, name: str) -> Array:
        return x @ v[f"att/{name}_w"].T + v[f"att/{name}_b"]

    outputs = v["encoder"]  # (length, batch, size)
    h, c, context = v["h0"][0], v["c0"][0], v["context0"][0]
    covered = np.zeros((BATCH, LENGTH))
    found: list[list[Array]] = [[], [], []]
    for row in v["x"]:
        gates = linear(row, "decoder/i2h") + linear(np.concatenate([h, context], -1), "decoder/gates_t")
        i, f, o, g = np.split(gates, 4, axis=-1)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = logistic(o) * np.tanh(c)
        if kind == "dot":
            state = h if OUTPUT == STATE else linear(h, "weighted_decoder_hidden_state")
            logits = np.einsum("lbd,bd->bl", outputs, state)
        else:
            total = linear(outputs, "weighted_encoder_outputs") + linear(h, "weighted_decoder_hidden_state")
            if kind == "recurrent":
                total = total + linear(context, "weighted_prev_attention_context")
            if kind == "soft_coverage":
                total = total + linear(outputs, "coverage_weights") * covered.T[:, :, np.newaxis]
            logits = (np.tanh(total) @ v["att/attention_logits_w"].T)[..., 0].T + v["att/attention_logits_b"]
        if encoder_lengths is not None:
            logits = np.where(np.arange(LENGTH) < encoder_lengths[:, np.newaxis], logits, -np.inf)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        weights = weights / weights.sum(-1, keepdims=True)
        covered = covered + weights
        context = np.einsum("lbd,bl->bd", outputs, weights)
        for collected, state in zip(found, (h, c, context), strict=True):
            collected.append(state)
    return [np.array(collected) for collected in found]


def decoder(model: ModelHelper, kind: str, recomputed: bool, masked: bool) -> Any:
    """The decoder as a recurrent net."""
    return rnn_cell.LSTMWithAttention(
        model,
        *map(core.BlobReference, ("x", "lengths", "h0", "c0", "context0")),
        OUTPUT,
        core.BlobReference("encoder"),
        core.BlobReference("encoder_lengths") if masked else None,
        INPUT,
        STATE,
        "att",
        attention_type=KINDS[kind],
        lstm_memory_optimization=recomputed,
        attention_memory_optimization=recomputed,
    )


def unrolled(model: ModelHelper, kind: str) -> Any:
    """The decoder step by step."""
    cell = rnn_cell.LSTMWithAttentionCell(
        encoder_output_dim=OUTPUT,
        encoder_outputs=core.BlobReference("encoder"),
        encoder_lengths=None,
        decoder_input_dim=INPUT,
        decoder_state_dim=STATE,
        name="att",
        attention_type=KINDS[kind],
        weighted_encoder_outputs=None,
        forget_bias=0.0,
        lstm_memory_optimization=False,
        attention_memory_optimization=False,
    )
    return rnn_cell.UnrolledCell(cell, STEPS).apply_over_sequence(
        model,
        core.BlobReference("x"),
        core.BlobReference("lengths"),
        [core.BlobReference(blob) for blob in ("h0", "c0", "context0")],
        outputs_with_grads=(0, 4),
    )[1]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_attention(kind: str, recomputed: bool, masked: bool) -> None:
    check(kind, lambda model: decoder(model, kind, recomputed, masked), masked)


@pytest.mark.parametrize("kind", ["regular", "recurrent", "dot"])
def test_unrolled_attention(kind: str) -> None:
    check(kind, lambda model: unrolled(model, kind), masked=False)


@pytest.mark.parametrize("kind", KINDS)
def test_attention_operator_by_operator(kind: str) -> None:
    """Where less is known of what the gradient reads than if the net is compiled as a whole."""
    core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=1"])
    try:
        check(kind, lambda model: decoder(model, kind, recomputed=False, masked=False), masked=False)
    finally:
        core.GlobalInit(["caffe2", "--caffe2_operator_throw_if_fp_exceptions=0"])


def check(kind: str, build: Callable[[ModelHelper], Any], masked: bool) -> None:
    """The states and the gradients by all parameters and inputs."""
    model = ModelHelper(name="decoder")
    blobs = ["x", "encoder", "h0", "c0", "context0", "lengths", "encoder_lengths"]
    model.net.AddExternalInput(*blobs)
    result = build(model)
    workspace.RunNetOnce(model.param_init_net)
    rng = np.random.default_rng(2)
    shapes = {
        "x": (STEPS, BATCH, INPUT),
        "encoder": (LENGTH, BATCH, OUTPUT),
        "h0": (1, BATCH, STATE),
        "c0": (1, BATCH, STATE),
        "context0": (1, BATCH, OUTPUT),
        **{blob: workspace.FetchBlob(blob).shape for blob in map(str, model.GetAllParams())},
    }
    values = {blob: rng.normal(0, 0.5, shape) for blob, shape in shapes.items()}
    encoder_lengths = np.array([LENGTH, 2])
    for blob, value in values.items():
        workspace.FeedBlob(blob, value.astype(np.float32))
    workspace.FeedBlob("lengths", np.full(BATCH, STEPS, np.int32))
    workspace.FeedBlob("encoder_lengths", encoder_lengths.astype(np.int32))

    hidden, context = result[0], result[4]
    seeds = {str(blob): rng.normal(size=(STEPS, BATCH, 4)) for blob in (hidden, context)}
    for blob, seed in seeds.items():
        workspace.FeedBlob(f"{blob}_seed", seed.astype(np.float32))
        model.net.AddExternalInput(f"{blob}_seed")
    gradients = model.net.AddGradientOperators({blob: f"{blob}_seed" for blob in seeds})
    workspace.RunNetOnce(model.net)

    lengths = encoder_lengths if masked else None
    for blob, expected in zip((result[0], result[2], result[4]), decoded(kind, values, lengths), strict=True):
        np.testing.assert_allclose(workspace.FetchBlob(blob), expected, rtol=1e-4, atol=1e-5)

    def objective() -> float:
        states = decoded(kind, values, lengths)
        return sum(
            float((state * seed).sum())
            for state, seed in zip((states[0], states[2]), seeds.values(), strict=True)
        )

    checked = [*map(str, model.params), "x", "encoder", "h0", "c0", "context0"]
    assert "att/attention_logits_b" not in checked or kind == "dot"  # it is left out of training
    for blob in checked:
        value, direction = values[blob], rng.normal(size=values[blob].shape)
        sides = []
        for sign in (1, -1):
            values[blob] = value + sign * 1e-5 * direction
            sides.append(objective())
        values[blob] = value
        gradient = workspace.FetchBlob(gradients[blob])
        slope = (sides[0] - sides[1]) / 2e-5
        assert np.isclose((gradient * direction).sum(), slope, rtol=1e-3, atol=1e-4), blob
