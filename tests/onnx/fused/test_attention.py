"""Attention and MultiHeadAttention against ONNX Runtime's kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import MICROSOFT, Row, check_row, drawn, forward, fused_model, single
from tests.onnx.rules.table import runner

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


def _buffered(new: int, past: int, *, bias: bool = False, beams: bool = False, **options: Any) -> Row:
    """Four sequences (pairs of two beams), two heads of size 4, ``past`` of 6 places of the cache count."""
    shapes = (4, new, 8), (4, 2, 6, 4)
    query, key, value, offset, past_key, past_value = drawn(
        *[shapes[0]] * 3, (24,) if bias else None, *[shapes[1]] * 2
    )
    mask = options.pop("mask", None)
    table = np.random.default_rng(1).integers(0, 2, size=(2, 2, 6)).astype(np.int32)
    integers = None if mask is None else np.array(mask, np.int32)
    inputs = [query, key, value, offset, integers, None, past_key, past_value, np.array([past], np.int32)]
    outputs = options.pop("outputs", ("y", "k", "v"))
    note = f"{past} of the buffer" + (", beams" if beams else "")
    return Row(
        "MultiHeadAttention",
        [*inputs, table] if beams else inputs,
        {"num_heads": 2, **options},
        outputs,
        note=note,
    )


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


SCORES = ("y", "", "", "scores")
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
    _multi([Q, (2, 2, 5, 4), (2, 2, 5, 4), (24,)]),
    _multi([Q, K, V, None, (2, 1, 3, 4)], mask=[[1, 1, 1, 0], [0, 1, 1, 1]], outputs=SCORES),
    _multi([Q, Q, Q, None, None, (2, 2, 2, 4), (2, 2, 2, 4)], outputs=("y", "k", "v", "scores")),
    _buffered(1, 2),
    _buffered(3, 2, bias=True, unidirectional=1),
    _buffered(3, 3, outputs=("y", "k", "v", "scores"), scale=0.4),
    _buffered(1, 2, mask=[[1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 1]]),
    _buffered(1, 4, beams=True),
    _buffered(1, 3, beams=True, bias=True, outputs=("y", "k", "v", "scores")),
    _multi([(2, 3, 2, 3, 4)], formula=_packed),
    _multi([(2, 3, 2, 3, 4), None, None, (24,)], formula=_packed),
    _multi([Q, (2, 5, 2, 2, 4)], formula=_packed),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


TWO = np.array([2], np.int32)


def _without(row: Row, index: int) -> list[np.ndarray | None]:
    return [None if k == index else array for k, array in enumerate(row.inputs)]


def test_scores_of_keys_that_a_query_must_not_see() -> None:
    """They are the lowest number; no difference is taken of an output that holds it."""
    row = _multi([Q, Q, Q, (24,)], scale=0.3, unidirectional=1, outputs=SCORES)
    want = forward(row)
    model = fused_model(row, np.float32, results=want)
    gradient = differentiate(model, wrt=["x0"], of=["y"])
    got = runner(ir.to_proto(gradient.model))({name: single(array) for name, array in row.point.items()})
    np.testing.assert_allclose(got["scores"], want["scores"], rtol=2e-5, atol=2e-6)
    assert want["scores"][0, 0, 0, 1] < -3e38


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_attention(do_rotary=1), "do_rotary = 1"),
        (_attention(past=2, past_present_share_buffer=1), "past_present_share_buffer = 1"),
        (_multi([Q, Q, Q, None, None, (2, 2, 2, 4)]), "one of past_key and past_value"),
        (replace(_buffered(1, 2), inputs=[*_buffered(1, 2).inputs[:6], None, None, TWO]), "without a past"),
        (replace(_buffered(1, 4, beams=True), inputs=_without(_buffered(1, 4, beams=True), 8)), "cache_ind"),
        (_multi([Q]), "its query has 3 axes"),
        (_multi([Q, K]), "its key has 3 axes"),
        (_multi([Q, None, K]), "a value, but no key"),
        (_multi([Q, K, (2, 2, 4, 4)]), "3 and 4 axes"),
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
