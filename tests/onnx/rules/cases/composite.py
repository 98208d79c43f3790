"""Rows of operators without a rule of their own, differentiated through the standard's definition."""

import numpy as np

from tests.onnx.rules.table import Case, constant, normal, uniform


def rotary(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    """x (B, heads, S, D), cos and sin (B, S, D/2); the halves of the last axis are rotated."""
    first, second = np.split(x, 2, axis=-1)
    cos, sin = cos[:, None], sin[:, None]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)


def interleaved_rotary(x: np.ndarray, cos: np.ndarray, sin: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """x (B, S, 2 heads x 4), cos and sin (positions, 2); neighbours are rotated."""
    batch, length, _ = x.shape
    pairs = x.reshape(batch, length, 2, 2, 2)
    c, s = cos[ids][:, :, None], sin[ids][:, :, None]
    even, odd = pairs[..., 0], pairs[..., 1]
    return np.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


def causal_conv(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None, past: np.ndarray | None) -> tuple:
    """Each channel of x (B, C, L) with its own kernel (C, 1, k); the sums and the last k - 1 positions."""
    k = weight.shape[2]
    before = np.zeros((*x.shape[:2], k - 1)) if past is None else past
    padded = np.concatenate([before, x], axis=2)
    sums = sum(padded[:, :, i : i + x.shape[2]] * weight[None, :, 0, i : i + 1] for i in range(k))
    return sums + (0 if bias is None else bias[None, :, None]), padded[:, :, x.shape[2] :]


def silu_causal_conv(x: np.ndarray, weight: np.ndarray, bias: None, past: np.ndarray) -> tuple:
    sums, state = causal_conv(x, weight, bias, past)
    return sums / (1 + np.exp(-sums)), state


def linear_attention(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    past: np.ndarray | None = None,
    decay: np.ndarray | None = None,
    beta: np.ndarray | None = None,
) -> tuple:
    """Token by token, with one key and value head per two query heads of size 2; gated by what is given."""
    batch, length, _ = q.shape
    state = np.zeros((batch, 2, v.shape[2])) if past is None else past[:, 0]
    outputs = []
    for t in range(length):
        if decay is not None:
            state = state * np.exp(decay[:, t, :, None])
        new = v[:, t]
        if beta is not None:
            new = beta[:, t] * (new - np.einsum("bkv,bk->bv", state, k[:, t]))
        state = state + k[:, t, :, None] * new[:, None, :]
        heads = q[:, t].reshape(batch, 2, 2) / np.sqrt(2)
        outputs.append(np.einsum("bhk,bkv->bhv", heads, state).reshape(batch, -1))
    return np.stack(outputs, axis=1), state[:, None]


# RotaryEmbedding and CausalConvWithState exist up to float32 only.
CASES = [
    Case("CenterCropPad", [normal(4, 5), constant([2, 8])]),
    Case("CenterCropPad", [normal(2, 3, 5), constant([3])], {"axes": [-1]}),
    Case(
        "RotaryEmbedding",
        [normal(1, 2, 3, 4), uniform(-1, 1, 1, 3, 2), uniform(-1, 1, 1, 3, 2)],
        opset=23,
        forward=rotary,
        gradient_dtype="float32",
    ),
    Case(
        "RotaryEmbedding",
        [normal(1, 3, 8), uniform(-1, 1, 5, 2), uniform(-1, 1, 5, 2), constant([[4, 0, 2]])],
        {"num_heads": 2, "interleaved": 1},
        opset=23,
        forward=interleaved_rotary,
        gradient_dtype="float32",
    ),
    Case(
        "CausalConvWithState",
        [normal(1, 2, 5), normal(2, 1, 3), normal(2), None],
        outputs=2,
        opset=27,
        forward=causal_conv,
        gradient_dtype="float32",
    ),
    Case(
        "CausalConvWithState",
        [normal(1, 2, 5), normal(2, 1, 3), None, normal(1, 2, 2)],
        {"activation": "silu"},
        outputs=2,
        opset=27,
        forward=silu_causal_conv,
        gradient_dtype="float32",
    ),
    Case("SwiGLU", [normal(2, 3), normal(2, 3)], {"alpha": 1.5}, opset=28),
    Case("Attention", [normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 3)], opset=23),
    Case(
        "Attention",
        [normal(1, 3, 8), normal(1, 3, 4), normal(1, 3, 6)],
        {"q_num_heads": 4, "kv_num_heads": 2, "is_causal": 1, "scale": 0.5},
        opset=23,
        symbolic=False,  # the standard's inference gives Y a last dim of 0 where the inputs' are unknown
    ),
    Case(
        "Attention",
        [normal(1, 2, 3, 4), normal(1, 2, 5, 4), normal(1, 2, 5, 3), normal(3, 5)],
        {"softcap": 2.0},
        opset=23,
    ),
    *(
        Case(
            "LinearAttention",
            [normal(2, 3, 4), normal(2, 3, 2), normal(2, 3, 3), *more],
            {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": update},
            outputs=2,
            opset=27,
            forward=linear_attention,
            gradient_dtype="float32",
        )
        for update, more in [
            ("linear", []),
            ("gated", [normal(2, 1, 2, 3), uniform(-1, 0, 2, 3, 2)]),
            ("delta", [None, None, uniform(0, 1, 2, 3, 1)]),
            ("gated_delta", [normal(2, 1, 2, 3), uniform(-1, 0, 2, 3, 1), uniform(0, 1, 2, 3, 1)]),
        ]
    ),
]
