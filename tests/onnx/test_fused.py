"""Fused operators of optimized models: their definitions against ONNX Runtime's own kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import central_differences, disagreement, on_onnxruntime, runner

_MICROSOFT = "com.microsoft"


def _model(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    outputs: Sequence[str],
    domain: str,
    *,
    symbolic: bool = False,
) -> onnx.ModelProto:
    names = ["" if array is None else f"x{k}" for k, array in enumerate(arrays)]
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}_{axis}" for axis in range(array.ndim)]
            if symbolic and (op_type != "EmbedLayerNormalization" or array.dtype.kind == "i")
            else array.shape,  # its kernel asks for tables of known size
        )
        for name, array in zip(names, arrays, strict=True)
        if array is not None
    ]
    node = helper.make_node(op_type, names, outputs, name="node", domain=domain, **attributes)
    floating = [array for array in arrays if array is not None and array.dtype.kind == "f"]
    kind = helper.np_dtype_to_tensor_dtype(floating[0].dtype)
    rank = (
        3
        if op_type == "EmbedLayerNormalization"
        else max(array.ndim for array in arrays if array is not None)
    )
    given = [
        helper.make_tensor_value_info(name, kind, [f"{name}_{axis}" for axis in range(rank)])
        for name in outputs
        if name
    ]
    graph = helper.make_graph([node], "row", inputs, given)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _drawn(*shapes: tuple[int, ...] | None) -> list[np.ndarray | None]:
    rng = np.random.default_rng(7)
    return [None if shape is None else np.round(rng.normal(size=shape), 3) for shape in shapes]


def _embedded(ids: Any, kinds: Any, segments: bool, places: Any = None) -> list[np.ndarray | None]:
    """The inputs of EmbedLayerNormalization."""
    word, position, segment, gamma, beta = _drawn((5, 4), (6, 4), (2, 4), (4,), (4,))
    integers = [None if given is None else np.array(given, np.int32) for given in (ids, kinds, places)]
    inputs = [*integers[:2], word, position, segment if segments else None, gamma, beta, None, integers[2]]
    return inputs if places is not None else inputs[:7]


S = (2, 3, 4)
ROWS: list[tuple[str, list[np.ndarray | None], dict[str, Any], list[str]]] = [
    ("Gelu", _drawn(S), {}, ["y"]),
    ("BiasGelu", _drawn(S, (4,)), {}, ["y"]),
    ("FastGelu", _drawn(S), {}, ["y"]),
    ("FastGelu", _drawn(S, (4,)), {}, ["y"]),
    ("QuickGelu", _drawn(S), {}, ["y"]),
    ("QuickGelu", _drawn(S), {"alpha": 0.9}, ["y"]),
    ("FusedMatMul", _drawn((2, 3, 4), (2, 4, 5)), {}, ["y"]),
    ("FusedMatMul", _drawn((2, 3, 4), (2, 5, 4)), {"transB": 1, "alpha": 0.25}, ["y"]),
    ("FusedMatMul", _drawn((4, 3), (4, 5)), {"transA": 1}, ["y"]),
    ("FusedMatMul", _drawn((2, 4, 3), (5, 4)), {"transA": 1, "transB": 1, "alpha": -2.0}, ["y"]),
    ("FusedGemm", _drawn((3, 4), (4, 5), (5,)), {"activation": "Tanh", "alpha": 0.5, "beta": 2.0}, ["y"]),
    (
        "FusedGemm",
        _drawn((4, 3), (5, 4)),
        {"activation": "LeakyRelu", "activation_alpha": 0.3, "transA": 1, "transB": 1},
        ["y"],
    ),
    (
        "FusedConv",
        _drawn((1, 2, 5, 4), (3, 2, 3, 2), (3,)),
        {"activation": "Sigmoid", "strides": [2, 1]},
        ["y"],
    ),
    ("FusedConv", _drawn((1, 2, 4, 4), (2, 1, 3, 3)), {"group": 2, "pads": [1, 0, 1, 0]}, ["y"]),
    (
        "FusedConv",
        _drawn((1, 1, 4, 4), (2, 1, 3, 3), (2,), (1, 2, 2, 2)),
        {"activation": "LeakyRelu", "activation_params": [0.2]},
        ["y"],
    ),
    (
        "FusedConv",
        _drawn((1, 1, 4, 4), (2, 1, 3, 3), (2,)),
        {"activation": "Clip", "activation_params": [-2.5, 3.5]},
        ["y"],
    ),
    (
        "EmbedLayerNormalization",
        _embedded([[0, 4, 4], [1, 0, 3]], [[0, 0, 1], [1, 0, 1]], True),
        {},
        ["y", ""],
    ),
    ("EmbedLayerNormalization", _embedded([[2, 4, 1]], None, False), {"epsilon": 0.01}, ["y", ""]),
    (
        "EmbedLayerNormalization",
        _embedded([[0, 4], [1, 0]], [[0, 1], [1, 1]], True, [[5, 0], [2, 2]]),
        {},
        ["y", "", "sum"],
    ),
    ("SkipLayerNormalization", _drawn(S, S, (4,)), {}, ["y"]),
    ("SkipLayerNormalization", _drawn(S, S, (4,), (4,), (4,)), {"epsilon": 0.01}, ["y"]),
    ("SkipLayerNormalization", _drawn(S, S, (4,), (4,), (4,)), {}, ["y", "", "", "sum"]),
    ("SkipLayerNormalization", _drawn(S, (3, 4), (4,), None, (4,)), {}, ["y"]),
    ("SkipSimplifiedLayerNormalization", _drawn(S, S, (4,)), {"epsilon": 0.01}, ["y"]),
    ("SkipSimplifiedLayerNormalization", _drawn(S, S, (4,), (4,)), {}, ["y", "", "", "sum"]),
    ("SimplifiedLayerNormalization", _drawn(S, (4,)), {}, ["y"]),
    ("SimplifiedLayerNormalization", _drawn(S, (4,)), {"epsilon": 0.01, "axis": 2}, ["y"]),
]


def _names(row: tuple[str, list[np.ndarray | None], dict[str, Any], list[str]]) -> str:
    shapes = ["_" if array is None else "x".join(map(str, array.shape)) for array in row[1]]
    return "-".join([row[0], ",".join(shapes), *(f"{k}={v}" for k, v in row[2].items()), ",".join(row[3])])


def _single(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float32) if array.dtype.kind == "f" else array


@pytest.mark.parametrize("row", ROWS, ids=_names)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(
    row: tuple[str, list[np.ndarray | None], dict[str, Any], list[str]], symbolic: bool
) -> None:
    """The kernel's result in float32, and the gradient of the definition in float64."""
    op_type, arrays, attributes, outputs = row
    domain = "" if op_type == "SimplifiedLayerNormalization" else _MICROSOFT
    point = {f"x{k}": array for k, array in enumerate(arrays) if array is not None}
    of = [name for name in outputs if name]
    wrt = [name for name, array in point.items() if array.dtype.kind == "f"]

    single = [None if array is None else _single(array) for array in arrays]
    model = _model(op_type, single, attributes, outputs, domain, symbolic=symbolic)
    kernel = on_onnxruntime(model)
    assert kernel is not None, "ONNX Runtime has a float32 kernel for each of these rows"
    feed = {name: _single(array) for name, array in point.items()}
    want = kernel(feed)
    first = differentiate(model, wrt=wrt, of=of, cotangent="input")
    proto = ir.to_proto(first.model)
    onnx.checker.check_model(proto, full_check=True)
    seeds = {first.seeds[name]: np.ones(want[name].shape, np.float32) for name in of}
    got = runner(proto)({**feed, **seeds})
    for name in of:
        np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-6)

    model = _model(op_type, arrays, attributes, outputs, domain, symbolic=symbolic)
    gradient = differentiate(model, wrt=wrt, of=of, cotangent="input")
    rng = np.random.default_rng(11)
    cotangents = {name: np.round(rng.normal(size=want[name].shape), 3) for name in of}
    given = {gradient.seeds[name]: array for name, array in cotangents.items()}
    run = runner(ir.to_proto(gradient.model))
    differences = central_differences(lambda at: run({**at, **given}), point, cotangents, wrt)
    found = run({**point, **given})
    for name in wrt:
        assert np.any(differences[name])
        wrong = disagreement(differences[name], found[gradient.outputs[name]], 1e-6)
        assert not wrong, f"{op_type}, gradient of input {name}: {wrong}"


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (("FusedMatMul", _drawn(S, S), {"transBatchA": 1}, ["y"]), "batch axes"),
        (("FusedGemm", _drawn((3, 4), (4, 5)), {"activation": "Foo"}, ["y"]), "activation 'Foo'"),
        (("QuickGelu", _drawn(S), {"beta": 1.0}, ["y"]), "attribute 'beta'"),
    ],
    ids=["batch", "activation", "attribute"],
)
def test_other_forms_are_refused(
    row: tuple[str, list[np.ndarray | None], dict[str, Any], list[str]], why: str
) -> None:
    op_type, arrays, attributes, outputs = row
    model = _model(op_type, arrays, attributes, outputs, _MICROSOFT)
    with pytest.raises(UnsupportedOperatorError, match=rf"{op_type} 'node'.*{why}"):
        differentiate(model, wrt=["x0"], of=outputs)
