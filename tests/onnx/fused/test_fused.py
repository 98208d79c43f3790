"""Fused activations, products, convolutions, normalizations and softmax against ONNX Runtime's kernels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import netgrad
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import MICROSOFT, Row, check_row, drawn, fused_model, single
from tests.onnx.rules.table import on_onnxruntime


def _embedded(ids: Any, kinds: Any, segments: bool, places: Any = None) -> list[np.ndarray | None]:
    """The inputs of EmbedLayerNormalization."""
    word, position, segment, gamma, beta = drawn((5, 4), (6, 4), (2, 4), (4,), (4,))
    integers = [None if given is None else np.array(given, np.int32) for given in (ids, kinds, places)]
    inputs = [*integers[:2], word, position, segment if segments else None, gamma, beta, None, integers[2]]
    return inputs if places is not None else inputs[:7]


def _leaky(x: np.ndarray, slope: float) -> np.ndarray:
    return np.where(x < 0, slope * x, x)


def _tanh_gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _split_gelu(x: np.ndarray) -> np.ndarray:
    left, right = np.split(x, 2, axis=-1)
    return left * right * 0.5 * (1 + np.vectorize(math.erf)(right / np.sqrt(2)))


def _bias_softmax(axis: int) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def formula(x: np.ndarray, bias: np.ndarray) -> np.ndarray:
        exponential = np.exp(x + bias)
        return exponential / exponential.sum(axis=tuple(range(axis, x.ndim)), keepdims=True)

    return formula


def _group_norm(
    groups: int, epsilon: float, *, last: bool = True, active: bool = False
) -> Callable[..., np.ndarray]:
    def formula(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        axis = x.ndim - 1 if last else 1
        parts = []
        for part in np.split(x, groups, axis=axis):
            rest = tuple(range(1, x.ndim))
            spread = np.sqrt(part.var(axis=rest, keepdims=True) + epsilon)
            parts.append((part - part.mean(axis=rest, keepdims=True)) / spread)
        shape = [-1 if k == axis else 1 for k in range(x.ndim)]
        y = np.concatenate(parts, axis) * gamma.reshape(shape) + beta.reshape(shape)
        return y / (1 + np.exp(-y)) if active else y

    return formula


def _skip_group_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, skip: np.ndarray, bias: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    total = x + (skip[:, None, None] if skip.ndim == 2 else skip) + bias
    return _group_norm(2, 1e-5, active=True)(total, gamma, beta), total


def _nhwc_conv(**attributes: Any) -> Callable[..., np.ndarray]:
    """By ONNX Runtime's Conv, the layout changed in NumPy; `fusion_nhwc_conv` turns the kernel alike."""

    def formula(x: np.ndarray, w: np.ndarray, *bias: np.ndarray) -> np.ndarray:
        moved = [np.moveaxis(array, -1, 1).astype(np.float32) for array in (x, w)]
        kernel = on_onnxruntime(fused_model(Row("Conv", [*moved, *bias], attributes, domain=""), np.float32))
        assert kernel is not None
        feeds = {f"x{k}": single(np.ascontiguousarray(array)) for k, array in enumerate([*moved, *bias])}
        return np.moveaxis(kernel(feeds)["y"], 1, -1)

    return formula


S = (2, 3, 4)
TABLES = (2, 3, 4, 5, 6)  # the kernel of EmbedLayerNormalization asks for tables of known size
ROWS = [
    Row("Gelu", drawn(S)),
    Row("BiasGelu", drawn(S, (4,))),
    Row("FastGelu", drawn(S)),
    Row("FastGelu", drawn(S, (4,))),
    Row("QuickGelu", drawn(S)),
    Row("QuickGelu", drawn(S), {"alpha": 0.9}),
    Row("FusedMatMul", drawn((2, 3, 4), (2, 4, 5))),
    Row("FusedMatMul", drawn((2, 3, 4), (2, 5, 4)), {"transB": 1, "alpha": 0.25}),
    Row("FusedMatMul", drawn((4, 3), (4, 5)), {"transA": 1}),
    Row("FusedMatMul", drawn((2, 4, 3), (5, 4)), {"transA": 1, "transB": 1, "alpha": -2.0}),
    Row("FusedMatMul", drawn((3, 2, 5, 4), (2, 5, 4, 2)), {"transBatchA": 1}),
    Row("FusedMatMul", drawn((3, 2, 5, 4), (2, 5, 3, 2)), {"transBatchA": 1, "transA": 1, "alpha": 0.5}),
    Row("FusedMatMul", drawn((2, 6, 3), (3, 2, 5)), {"transBatchB": 1}),
    Row("FusedMatMul", drawn((3, 2, 4), (5, 2, 4)), {"transBatchA": 1, "transBatchB": 1, "transB": 1}),
    Row("FusedGemm", drawn((3, 4), (4, 5), (5,)), {"activation": "Tanh", "alpha": 0.5, "beta": 2.0}),
    Row(
        "FusedGemm",
        drawn((4, 3), (5, 4)),
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transA": 1, "transB": 1},
    ),
    Row(
        "FusedConv",
        drawn((1, 2, 5, 4), (3, 2, 3, 2), (3,)),
        {"activation": "Sigmoid", "strides": [2, 1]},
    ),
    Row("FusedConv", drawn((1, 2, 4, 4), (2, 1, 3, 3)), {"group": 2, "pads": [1, 0, 1, 0]}),
    Row(
        "FusedConv",
        drawn((1, 1, 4, 4), (2, 1, 3, 3), (2,), (1, 2, 2, 2)),
        {"activation": "LeakyRelu", "activation_params": [0.2]},
    ),
    Row(
        "FusedConv",
        drawn((1, 1, 4, 4), (2, 1, 3, 3), (2,)),
        {"activation": "Clip", "activation_params": [-2.5, 3.5]},
    ),
    Row(
        "EmbedLayerNormalization",
        _embedded([[0, 4, 4], [1, 0, 3]], [[0, 0, 1], [1, 0, 1]], True),
        {},
        ["y", ""],
        kept=TABLES,
    ),
    Row(
        "EmbedLayerNormalization",
        _embedded([[2, 4, 1]], None, False),
        {"epsilon": 0.01},
        ["y", ""],
        kept=TABLES,
    ),
    Row(
        "EmbedLayerNormalization",
        _embedded([[0, 4], [1, 0]], [[0, 1], [1, 1]], True, [[5, 0], [2, 2]]),
        {},
        ["y", "", "sum"],
        kept=TABLES,
    ),
    Row("SkipLayerNormalization", drawn(S, S, (4,))),
    Row("SkipLayerNormalization", drawn(S, S, (4,), (4,), (4,)), {"epsilon": 0.01}),
    Row("SkipLayerNormalization", drawn(S, S, (4,), (4,), (4,)), {}, ["y", "", "", "sum"]),
    Row("SkipLayerNormalization", drawn(S, (3, 4), (4,), None, (4,))),
    Row("SkipSimplifiedLayerNormalization", drawn(S, S, (4,)), {"epsilon": 0.01}),
    Row("SkipSimplifiedLayerNormalization", drawn(S, S, (4,), (4,)), {}, ["y", "", "", "sum"]),
    Row("SimplifiedLayerNormalization", drawn(S, (4,)), domain=""),
    Row("SimplifiedLayerNormalization", drawn(S, (4,)), {"epsilon": 0.01, "axis": 2}, domain=""),
    Row("TransposeMatMul", drawn((2, 4, 3), (5, 4)), {"transA": 1, "transB": 1, "alpha": 0.5}),
    # from here on there is no kernel for the CPU
    Row(
        "FusedMatMulActivation",
        drawn((3, 4), (5, 4)),
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transB": 1, "alpha": 2.0},
        formula=lambda a, b: _leaky(2 * a @ b.T, 0.3),
    ),
    Row("GemmFastGelu", drawn((2, 3), (3, 4)), formula=lambda x, w: _tanh_gelu(x @ w)),
    Row("GemmFastGelu", drawn((2, 3), (3, 4), (4,)), formula=lambda x, w, b: _tanh_gelu(x @ w + b)),
    Row("BiasAdd", drawn(S, (4,), S), formula=lambda x, bias, skip: x + bias + skip),
    Row("BiasSplitGelu", drawn((2, 3, 6), (6,)), formula=lambda x, b: _split_gelu(x + b)),
    Row("BiasDropout", drawn(S, (4,)), formula=lambda x, b: x + b),
    Row("BiasDropout", drawn(S, (4,), S), {"seed": 3}, formula=lambda x, b, r: x + b + r),
    Row(
        "BiasDropout",
        [*drawn(S, (4,), None), np.array(0.0), np.array(True)],
        wrt=[0, 1],
        formula=lambda x, b, *_: x + b,
        note="in training",
    ),
    Row("BiasSoftmax", drawn(S, S), {"axis": -1, "is_inner_broadcast": 1}, formula=_bias_softmax(2)),
    Row("BiasSoftmax", drawn(S, (2, 1, 4)), {"axis": 1, "is_inner_broadcast": 1}, formula=_bias_softmax(1)),
    Row(
        "BiasSoftmax",
        drawn((2, 3, 4, 5), (2, 1, 1, 5)),
        {"axis": 3, "is_inner_broadcast": 1},
        formula=_bias_softmax(3),
    ),
    Row(
        "BiasSoftmax",
        drawn((2, 3, 2, 2), (3, 2, 2)),
        {"axis": -2, "is_inner_broadcast": 0},
        formula=_bias_softmax(2),
    ),
    Row(
        "GroupNorm",
        drawn((2, 3, 2, 4), (4,), (4,)),
        {"groups": 2, "activation": 0, "epsilon": 0.01},
        formula=_group_norm(2, 0.01),
    ),
    Row(
        "GroupNorm",
        drawn((2, 6, 2, 3), (6,), (6,)),
        {"groups": 3, "activation": 1, "channels_last": 0},
        formula=_group_norm(3, 1e-5, last=False, active=True),
    ),
    Row(
        "SkipGroupNorm",
        drawn((2, 3, 2, 4), (4,), (4,), (2, 3, 2, 4), (4,)),
        {"groups": 2, "activation": 1},
        ["y", "s"],
        formula=_skip_group_norm,
    ),
    Row(
        "SkipGroupNorm",
        drawn((2, 3, 2, 4), (4,), (4,), (2, 1, 1, 4)),
        {"groups": 2, "activation": 1, "channels_last": 1},
        formula=lambda *inputs: _skip_group_norm(*inputs)[0],
    ),
    Row(
        "SkipGroupNorm",
        drawn((2, 3, 2, 4), (4,), (4,), (2, 4), (4,)),
        {"groups": 2, "activation": 1},
        formula=lambda *inputs: _skip_group_norm(*inputs)[0],
    ),
    Row(
        "SkipGroupNorm",
        drawn((2, 4, 3, 2), (4,), (4,), (2, 4), (4,)),
        {"groups": 2, "activation": 0, "channels_last": 0, "epsilon": 0.1},
        formula=lambda x, g, b, skip, bias: _group_norm(2, 0.1, last=False)(
            x + skip[:, :, None, None] + bias[:, None, None], g, b
        ),
    ),
    Row(
        "NhwcConv",
        drawn((2, 5, 4, 3), (2, 3, 2, 3), (2,)),
        {"strides": [2, 1], "pads": [1, 0, 1, 0]},
        formula=_nhwc_conv(strides=[2, 1], pads=[1, 0, 1, 0]),
    ),
    Row(
        "NhwcConv",
        drawn((1, 4, 4, 4), (6, 3, 3, 2)),
        {"group": 2, "auto_pad": "SAME_UPPER"},
        formula=_nhwc_conv(group=2, auto_pad="SAME_UPPER"),
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (Row("FusedGemm", drawn((3, 4), (4, 5)), {"activation": "Foo"}), "activation 'Foo'"),
        (Row("QuickGelu", drawn(S), {"beta": 1.0}), "attribute 'beta'"),
        (Row("Gelu", drawn(S, S)), "2 inputs, 1 are"),
        (Row("GroupNorm", drawn((1, 2, 2, 4), (4,), (4,)), {"groups": 2, "activation": 2}), "activation 2"),
        (
            Row(
                "FusedMatMulActivation",
                drawn((3, 4), (4, 5)),
                {"activation": "Softmax", "activation_axis": 1},
            ),
            "along an axis",
        ),
        (
            Row("SkipSimplifiedLayerNormalization", drawn(S, S, (4,)), outputs=["y", "", "inverse"]),
            "output 2, 'inv_std_var'",
        ),
    ],
    ids=lambda part: part.id if isinstance(part, Row) else "",
)
def test_other_forms_are_refused(row: Row, why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"{row.type} 'node'.*{why}"):
        differentiate(fused_model(row, np.float64), wrt=["x0"], of=row.of)


@pytest.mark.parametrize("masked", [True, False])
def test_the_mask_index_of_embeddings_that_attention_reads(masked: bool) -> None:
    """As in optimized BERT: the attention sees as many keys as the mask has ones."""
    ids, kinds, *floats = _embedded([[0, 4, 4], [1, 0, 3]], [[0, 0, 1], [1, 0, 1]], True)
    weights, bias = drawn((4, 12), (12,))
    arrays = {"ids": ids, "kinds": kinds, **{f"t{k}": array for k, array in enumerate(floats)}}
    arrays |= {"weights": weights, "bias": bias, "mask": np.array([[1, 1, 0], [1, 0, 0]], np.int32)}
    point = {name: single(array) for name, array in arrays.items() if array is not None}
    names = ["ids", "kinds", "t0", "t1", "t2", "t3", "t4", *(["mask"] if masked else [])]
    nodes = [
        helper.make_node("EmbedLayerNormalization", names, ["h", "index"], "embed", domain=MICROSOFT),
        helper.make_node(
            "Attention", ["h", "weights", "bias", "index"], ["y"], "node", domain=MICROSOFT, num_heads=2
        ),
    ]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in point.items()
    ]
    outputs = [
        helper.make_tensor_value_info("y", 1, [2, 3, 4]),
        helper.make_tensor_value_info("index", onnx.TensorProto.INT32, [2]),
    ]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    want = netgrad.run(model, point)
    np.testing.assert_array_equal(want["index"], [2, 1] if masked else [0, 0])
    got = netgrad.run(netgrad.grad(model, wrt="t0", of="y"), point)
    np.testing.assert_array_equal(got["index"], want["index"])
    np.testing.assert_allclose(got["y"], want["y"], rtol=2e-5, atol=2e-6)
    assert np.any(got["t0_grad"])
