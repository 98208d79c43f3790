"""Attention and MultiHeadAttention against ONNX Runtime's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import MICROSOFT, Row, check_row, drawn, fused_model

BOTH = ("y", "present")
SHOWN = np.array([[1, 1, 0], [1, 1, 1]])


def _attention(
    *,
    mask: Any = None,
    past: int = 0,
    bias: bool = True,
    added: tuple[int, ...] | None = None,
    width: int = 12,
    outputs: Sequence[str] = ("y",),
    **attributes: Any,
) -> Row:
    """Two sequences of 3 elements of width 5, two heads; the parts are ``width`` wide in all."""
    x, w, b, state, add = drawn((2, 3, 5), (5, width), (width,), (2, 2, 2, past, width // 6), added)
    integers = None if mask is None else np.array(mask, np.int32)
    inputs = [x, w, b if bias else None, integers, state if past else None, add]
    while inputs[-1] is None:
        inputs.pop()
    return Row("Attention", inputs, {"num_heads": 2, **attributes}, outputs)


def _multi(
    shapes: Sequence[tuple[int, ...] | None],
    *,
    mask: Any = None,
    outputs: Sequence[str] = ("y",),
    formula: Any = None,
    **attributes: Any,
) -> Row:
    """The shapes of query, key, value, bias, attention_bias, past_key, past_value."""
    arrays = [*drawn(*shapes), *[None] * (4 - len(shapes))]
    arrays.insert(4, None if mask is None else np.array(mask, np.int32))
    while arrays[-1] is None:
        arrays.pop()
    return Row("MultiHeadAttention", arrays, {"num_heads": 2, **attributes}, outputs, formula=formula)


def _heads(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Plain attention of q, k, v[b, s, n, h]."""
    scores = np.exp(np.einsum("bsnh,btnh->bnst", q, k) / np.sqrt(q.shape[-1]))
    y = np.einsum("bnst,btnh->bsnh", scores / scores.sum(-1, keepdims=True), v)
    return y.reshape(*y.shape[:2], -1)


def _packed(query: np.ndarray, *rest: np.ndarray | None) -> np.ndarray:
    """The two packed forms, for which there is no kernel on the CPU."""
    if query.ndim == 5:
        bias = rest[2] if len(rest) > 2 else None
        if bias is not None:
            query = query + bias.reshape(3, *query.shape[2:3], -1).transpose(1, 0, 2)
        return _heads(*(query[:, :, :, part] for part in range(3)))
    (key,) = rest
    assert key is not None
    return _heads(query.reshape(*query.shape[:2], key.shape[2], -1), key[:, :, :, 0], key[:, :, :, 1])


Q, K, V = (2, 3, 8), (2, 4, 8), (2, 4, 6)
ROWS = [
    _attention(),
    _attention(bias=False),
    _attention(scale=0.4),
    _attention(outputs=BOTH),
    _attention(width=16, qkv_hidden_sizes=[4, 4, 8]),
    _attention(unidirectional=1),
    _attention(mask=[2, 3]),
    _attention(mask=[3, 2, 1, 0]),
    _attention(mask=[2, 3], mask_filter_value=-1.5),
    _attention(mask=SHOWN),
    _attention(mask=[[1], [1]]),
    _attention(mask=SHOWN, unidirectional=1),
    _attention(mask=[[0, 1, 1], [1, 1, 1]], unidirectional=1),
    _attention(mask=np.tril(np.ones((2, 3, 3)))),
    _attention(past=2, outputs=BOTH),
    _attention(past=2, outputs=BOTH, unidirectional=1),
    _attention(past=2, outputs=BOTH, unidirectional=1, mask=[[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]]),
    _attention(added=(2, 2, 3, 3)),
    _attention(added=(1, 2, 3, 3), mask=SHOWN),
    _attention(added=(1, 1, 3, 3), unidirectional=1),
    _multi([Q, K, V]),
    _multi([Q, K, K], scale=0.7),
    _multi([Q, K, V, (22,)]),
    _multi([Q, Q, Q, (24,)], unidirectional=1),
    _multi([Q, K, V], mask=[[1, 1, 1, 0], [0, 1, 1, 1]]),
    _multi([Q, K, V], mask=[3, 4]),
    _multi([Q, K, V], mask=[3, 2], mask_filter_value=-2.0),
    _multi([Q, K, V], mask=np.tril(np.ones((2, 3, 4)), 1)),
    _multi([Q, K, V, None, (1, 2, 3, 4)]),
    _multi([Q, K, V, None, (2, 1, 3, 4)], mask=[[1, 1, 1, 0], [0, 1, 1, 1]]),
    _multi([Q, (2, 2, 5, 4), (2, 2, 5, 4)]),
    _multi([Q, Q, Q], outputs=("y", "k", "v")),
    _multi([Q, Q, Q, None, None, (2, 2, 2, 4), (2, 2, 2, 4)], outputs=("y", "k", "v")),
    _multi(
        [Q, Q, Q, (24,), (1, 1, 3, 5), (2, 2, 2, 4), (2, 2, 2, 4)], outputs=("y", "k", "v"), unidirectional=1
    ),
    _multi(
        [Q, Q, Q, None, None, (2, 2, 2, 4), (2, 2, 2, 4)],
        outputs=("y", "k", "v"),
        mask=[[0, 1, 1, 1, 1], [1, 1, 1, 1, 0]],
    ),
    _multi(
        [(2, 1, 8), (2, 1, 8), (2, 1, 8), None, None, (2, 2, 2, 4), (2, 2, 2, 4)],
        outputs=("y", "k", "v"),
        unidirectional=1,
    ),
    _multi([(2, 3, 2, 3, 4)], formula=_packed),
    _multi([(2, 3, 2, 3, 4), None, None, (24,)], formula=_packed),
    _multi([Q, (2, 5, 2, 2, 4)], formula=_packed),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_attention(do_rotary=1), "do_rotary = 1"),
        (_attention(past=2, past_present_share_buffer=1), "past_present_share_buffer = 1"),
        (_multi([Q, Q, Q, None, None, (2, 2, 2, 4)]), "one of past_key and past_value"),
        (_multi([Q, Q, Q], outputs=("y", "", "", "scores")), "output 3, 'qk'"),
        (_multi([Q]), "its query has 3 axes"),
        (_multi([Q, K]), "its key has 3 axes"),
        (_multi([Q, None, K]), "a value, but no key"),
        (_multi([Q, K, (2, 2, 4, 4)]), "3 and 4 axes"),
        (_multi([Q, (2, 2, 5, 4), (2, 2, 5, 4), (24,)]), "split into heads"),
        (_multi([Q, (2, 5, 2, 2, 4), None, (24,)]), "packed keys and values"),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_other_forms_are_refused(row: Row, why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"{row.type} 'node'.*{why}"):
        differentiate(fused_model(row, np.float64), wrt=["x0"], of=row.of)


def test_a_rank_that_another_expansion_makes_known() -> None:
    """The key of the second node has no rank before the first is expanded."""
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["B", "S", 8])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", "S", 8])
    nodes = [
        helper.make_node("QuickGelu", ["x"], ["h"], domain=MICROSOFT),
        helper.make_node("MultiHeadAttention", ["x", "h", "h"], ["y"], domain=MICROSOFT, num_heads=2),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph(nodes, "two", [x], [y])
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    gradient = differentiate(model, wrt=["x"], of=["y"])
    assert "expanded 1 MultiHeadAttention into its definition" in gradient.actions

    unknown = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)
    model.graph.input[0].CopyFrom(unknown)
    with pytest.raises(UnsupportedOperatorError, match="the rank of its input 1 is unknown"):
        differentiate(model, wrt=["x"], of=["y"])
