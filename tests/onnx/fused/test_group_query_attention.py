"""GroupQueryAttention against ONNX Runtime's kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import Row, check_row, drawn, forward, fused_model


def _row(
    lengths: Sequence[int],
    *,
    new: int = 3,
    total: int | None = None,
    past: int = 0,
    packed: bool = False,
    bias: tuple[int, ...] | None = None,
    sink: bool = False,
    norms: bool = False,
    positions: Any = None,
    outputs: Sequence[str] = ("y", "k", "v"),
    **attributes: Any,
) -> Row:
    """4 heads of queries, 2 of keys,; after the node, sequence i has ``lengths[i]`` keys."""
    batch = len(lengths)
    size = 16 if attributes.get("do_rotary") else 8  # the kernel turns heads of a multiple of 16
    query, key, value, past_key, past_value, cosines, sines, added, sinks, q_norm, k_norm = drawn(
        (batch, new, (8 if packed else 4) * size),
        None if packed else (batch, new, 2 * size),
        None if packed else (batch, new, 2 * size),
        (batch, 2, past, size) if past else None,
        (batch, 2, past, size) if past else None,
        *[(8, size // 2) if attributes.get("do_rotary") else None] * 2,
        bias,
        (4,) if sink else None,
        *[(size,) if norms else None] * 2,
    )
    seqlens = np.array(lengths, np.int32) - np.int32(1)
    whole = np.array(max(lengths) if total is None else total, np.int32)
    places = None if positions is None else np.array(positions, np.int64)
    inputs = [query, key, value, past_key, past_value, seqlens, whole, cosines, sines, places, added, sinks]
    inputs += [None, None, q_norm, k_norm]
    while inputs[-1] is None:
        inputs.pop()
    given = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    note = f"lengths {','.join(map(str, lengths))}"
    return Row("GroupQueryAttention", inputs, given, outputs, kept=(7, 8), note=note)


SHOWN = ("y", "k", "v", "scores")
ROWS = [
    _row([3, 3]),
    _row([3, 3], packed=True),
    _row([3, 3], scale=0.3),
    _row([3, 3], softcap=1.5),
    _row([3, 3], do_rotary=1),
    _row([3, 3], do_rotary=1, rotary_interleaved=1, packed=True),
    _row([4, 4], new=4, local_window_size=2),
    _row([3, 3], smooth_softmax=1),
    _row([3, 3], sink=True),
    _row([3, 3], bias=(2, 4, 3, 3)),
    _row([3, 3], bias=(1, 1, 3, 3), softcap=2.0),
    _row([3, 3], causal=0),
    _row([4, 4], new=1, past=3),
    _row([5], new=2, past=3),
    _row([5], new=2, past=3, do_rotary=1, packed=True),
    _row([5], new=2, past=6, do_rotary=1),
    _row([6], new=1, past=8, local_window_size=3, do_rotary=1),
    _row([4, 6], new=1, past=6),
    _row([4, 6], new=1, past=6, do_rotary=1, sink=True, bias=(2, 4, 1, 6)),
    _row([3, 3], do_rotary=1, positions=[[2, 0, 1], [3, 4, 5]]),
    _row([4, 4], new=1, past=3, do_rotary=1, positions=[[3], [6]]),
    _row([5], new=2, past=3, do_rotary=1, positions=[[6, 2]]),
    # rows behind the end of a shorter sequence
    _row([2, 3]),
    _row([2, 3], do_rotary=1, smooth_softmax=1),
    _row([2, 4], new=4, local_window_size=2),
    _row([2, 4], new=4, local_window_size=2, bias=(1, 4, 4, 4), packed=True),
    _row([2, 4], new=4, local_window_size=2, softcap=1.0),
    _row([2, 4], new=4, local_window_size=2, sink=True),
    replace(_row([2, 4], new=4, past=6, do_rotary=1), wrt=[0, 1, 2, 7, 8]),  # nothing of the past is left
    _row([3, 3], outputs=SHOWN, qk_output=1),
    _row([2, 3], outputs=SHOWN, qk_output=2),
    _row([3, 3], outputs=SHOWN, qk_output=1, softcap=1.5, bias=(1, 4, 3, 3)),
    _row([2, 4], new=4, outputs=SHOWN, qk_output=2, local_window_size=2),
    _row([2, 4], new=4, outputs=SHOWN, qk_output=1, local_window_size=2),
    _row([5], new=2, past=6, outputs=SHOWN, qk_output=1),
    _row([4, 6], new=1, past=6, outputs=SHOWN, qk_output=2, sink=True),
    _row([3, 3], outputs=SHOWN, qk_output=2, smooth_softmax=1, causal=0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


def test_heads_that_are_normalized_first() -> None:
    """There is no kernel for them on the CPU: against a model that normalizes before the operator."""
    row = _row([3, 3], norms=True, do_rotary=1, outputs=["y"], qk_norm_epsilon=0.01, k_norm_epsilon=0.1)
    gamma = row.inputs[14:16]

    def normalized(x: np.ndarray, gamma: np.ndarray, epsilon: float) -> np.ndarray:
        heads = x.reshape(*x.shape[:2], -1, 16)
        length = np.sqrt((heads**2).mean(-1, keepdims=True) + epsilon)
        return (heads / length * gamma).reshape(x.shape)

    def formula(*inputs: np.ndarray) -> np.ndarray:
        query, key = (
            normalized(x, weight, epsilon)
            for x, weight, epsilon in zip(inputs[:2], gamma, (0.01, 0.1), strict=True)
        )
        plain = {key: value for key, value in row.attributes.items() if "norm" not in key}
        kernel_row = replace(row, inputs=[query, key, *inputs[2:9]], attributes=plain)
        return forward(kernel_row)["y"]

    check_row(replace(row, formula=formula), symbolic=False)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_row([3, 3], k_quant_type="PER_TENSOR"), "k_quant_type = 'PER_TENSOR'"),
        (
            _row([4, 4], new=1, past=3, sliding_window_cache=1, local_window_size=3),
            "sliding_window_cache = 1",
        ),
        (_row([3, 3], local_window_size=2, causal=0), "window of 2 keys"),
        (_row([3, 3], outputs=["y", "", "", "qk"], qk_output=0), "output 3, 'output_qk'"),
        (replace(_row([3, 3]), inputs=drawn((2, 3, 32), (2, 3, 16))), "one of key and value"),
    ],
    ids=["quantized", "cache", "window", "scores", "value"],
)
def test_other_forms_are_refused(row: Row, why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"{row.type} 'node'.*{why}"):
        differentiate(fused_model(row, np.float64), wrt=["x0"], of=row.of)
