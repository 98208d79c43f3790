"""Composite operators and their definitions give the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx.reference import ReferenceEvaluator

from netgrad.onnx.constants import FLOATS
from netgrad.onnx.expand import EXPANDED_FROM, expand, has_definition
from netgrad.onnx.prepare import prepare
from netgrad.onnx.weights import weight_names
from tests.onnx.models import Array, model, node, normal, operators, run_proto

X = normal(1, 3, 4)
LABELS = np.array([1, 2, 0])
F32 = np.float32

ROWS: list[tuple[str, list[Array], dict[str, Any], int, int]] = [
    # operator, inputs, attributes, opset, outputs
    ("AffineGrid", [normal(1, 2, 2, 3), np.array([2, 3, 4, 5])], {"align_corners": 1}, 20, 1),
    (
        "Attention",
        [normal(1, 2, 3, 4, 8), normal(2, 2, 3, 5, 8), normal(3, 2, 3, 5, 6)],
        {"is_causal": 1},
        23,
        1,
    ),
    (
        "Attention",
        [normal(1, 2, 4, 4, 8), normal(2, 2, 2, 5, 8), normal(3, 2, 2, 5, 6)],
        {"scale": 0.3},
        23,
        1,
    ),
    (
        "Attention",
        [normal(1, 2, 3, 4, 8), normal(2, 2, 3, 5, 8), normal(3, 2, 3, 5, 6), normal(4, 4, 5)],
        {},
        24,
        1,
    ),
    (
        "Attention",
        [normal(1, 2, 4, 16), normal(2, 2, 5, 16), normal(3, 2, 5, 16)],
        {"q_num_heads": 4, "kv_num_heads": 4},
        23,
        1,
    ),
    ("CastLike", [X, np.zeros(1)], {}, 18, 1),
    ("Celu", [X], {"alpha": 1.5}, 18, 1),
    ("Celu", [X], {}, 12, 1),
    ("CenterCropPad", [X, np.array([2, 6])], {}, 18, 1),
    ("Clip", [X, np.array(-0.5, F32)], {}, 18, 1),
    ("DynamicQuantizeLinear", [X], {}, 18, 3),
    ("Elu", [X], {"alpha": 0.7}, 22, 1),
    ("Gelu", [X], {"approximate": "tanh"}, 20, 1),
    ("Gelu", [X], {}, 20, 1),
    ("GreaterOrEqual", [X, normal(2, 4)], {}, 18, 1),
    ("GroupNormalization", [normal(1, 2, 4, 3), normal(2, 2), normal(3, 2)], {"num_groups": 2}, 18, 1),
    ("GroupNormalization", [normal(1, 2, 4, 3), normal(2, 4), normal(3, 4)], {"num_groups": 2}, 21, 1),
    ("HardSigmoid", [X], {}, 18, 1),
    ("HardSwish", [X], {}, 18, 1),
    ("LayerNormalization", [normal(1, 2, 3, 4), normal(2, 3, 4), normal(3, 3, 4)], {"axis": 1}, 18, 3),
    ("LayerNormalization", [normal(1, 2, 3, 4), normal(2, 4)], {"epsilon": 0.1}, 17, 1),
    ("LessOrEqual", [X, normal(2, 4)], {}, 18, 1),
    ("LogSoftmax", [X], {"axis": 0}, 18, 1),
    ("MeanVarianceNormalization", [normal(1, 2, 3, 4, 5)], {}, 13, 1),
    ("MeanVarianceNormalization", [normal(1, 2, 3, 4, 5)], {"axes": [1, -1]}, 18, 1),
    ("Mish", [X], {}, 18, 1),
    ("NegativeLogLikelihoodLoss", [X, LABELS], {"reduction": "sum", "ignore_index": 2}, 18, 1),
    ("PRelu", [X, normal(2, 4)], {}, 18, 1),
    ("RMSNormalization", [X, normal(2, 4)], {}, 23, 1),
    ("Range", [np.array(0.5, F32), np.array(5, F32), np.array(2, F32)], {}, 18, 1),
    ("ReduceL1", [X], {}, 18, 1),
    ("ReduceL2", [X, np.array([1])], {}, 18, 1),
    ("ReduceLogSum", [np.abs(X), np.array([0])], {}, 18, 1),
    ("ReduceLogSumExp", [X, np.array([1])], {"keepdims": 0}, 18, 1),
    ("ReduceSumSquare", [X], {"keepdims": 0}, 18, 1),
    ("Relu", [X], {}, 18, 1),
    (
        "RotaryEmbedding",
        [normal(1, 2, 3, 4, 8), normal(2, 50, 4), normal(3, 50, 4), np.arange(8).reshape(2, 4)],
        {},
        23,
        1,
    ),
    ("Selu", [X], {}, 18, 1),
    ("Shrink", [X], {"lambd": 0.4, "bias": 0.1}, 18, 1),
    ("Softmax", [X], {}, 18, 1),
    ("SoftmaxCrossEntropyLoss", [X, LABELS, np.abs(normal(2, 4))], {}, 18, 2),
    ("SoftmaxCrossEntropyLoss", [X, LABELS], {"reduction": "none"}, 18, 1),
    ("Softplus", [X], {}, 18, 1),
    ("Softsign", [X], {}, 18, 1),
    ("Swish", [X], {"alpha": 0.7}, 24, 1),
    ("ThresholdedRelu", [X], {"alpha": 0.3}, 18, 1),
]


def _names(count: int, prefix: str) -> list[str]:
    return [f"{prefix}{index}" for index in range(count)]


def _expected(proto: onnx.ModelProto, feeds: dict[str, Array], operator: str) -> list[Array]:
    if operator in ("Swish", "AffineGrid"):  # ONNX Runtime has no kernel of its own
        return [np.asarray(result) for result in ReferenceEvaluator(proto).run(None, feeds)]
    return run_proto(proto, feeds)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0]}-{index}" for index, row in enumerate(ROWS)])
def test_a_definition_computes_what_the_operator_computes(
    row: tuple[str, list[Array], dict[str, Any], int, int], symbolic: bool
) -> None:
    operator, arrays, attributes, opset, count = row
    feeds = dict(zip(_names(len(arrays), "x"), arrays, strict=True))
    outputs = _names(count, "y")
    composite = node(operator, list(feeds), outputs, "composite", **attributes)
    proto = model([composite], feeds, outputs, opset=opset, symbolic=symbolic, ir_version=10)
    prepared = prepare(proto).model
    actions = expand(prepared, lambda n: n.op_type == operator)
    assert actions == [f"expanded 1 {operator} into its definition"]
    assert operator not in operators(prepared)
    assert prepared.opset_imports[""] == max(18, opset)
    for n in prepared.graph:
        assert n.metadata_props[EXPANDED_FROM] == f"{operator} 'composite'"
        assert n.name is not None
        assert n.name.startswith("composite_")
    assert [value.name for value in prepared.graph.outputs] == outputs
    names = [output.name for n in prepared.graph for output in n.outputs]
    assert len(set(names)) == len(names)
    assert weight_names(prepared) == []
    for one, other in zip(
        _expected(proto, feeds, operator), run_proto(onnx_ir.to_proto(prepared), feeds), strict=True
    ):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


def test_expansion_goes_on_while_something_is_wanted() -> None:
    # NegativeLogLikelihoodLoss and LogSoftmax stand in the definition, Softmax in that of LogSoftmax.
    nodes = [node("SoftmaxCrossEntropyLoss", ["x", "l"], ["y"], "loss")]
    feeds = {"x": X, "l": LABELS}
    proto = model(nodes, feeds)
    prepared = prepare(proto).model
    unwanted = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "LogSoftmax", "Softmax"}
    actions = expand(prepared, lambda n: n.op_type in unwanted)
    assert actions == [
        "expanded 1 LogSoftmax into its definition",
        "expanded 1 NegativeLogLikelihoodLoss into its definition",
        "expanded 1 SoftmaxCrossEntropyLoss into its definition",
    ]
    assert unwanted.isdisjoint(operators(prepared))
    np.testing.assert_allclose(
        run_proto(onnx_ir.to_proto(prepared), feeds)[0], run_proto(proto, feeds)[0], rtol=1e-5
    )


def test_only_wanted_nodes_are_expanded_each_under_its_own_name() -> None:
    nodes = [
        node("Softplus", ["x"], ["a"], "one"),
        node("Softplus", ["a"], ["b"], "two"),
        node("Softplus", ["b"], ["y"], "three"),
    ]
    proto = model(nodes, {"x": X})
    prepared = prepare(proto).model
    expand(prepared, lambda n: n.name in ("one", "three"))
    softplus = [n.name for n in prepared.graph if n.op_type == "Softplus"]
    assert softplus == ["two"]
    assert {n.metadata_props.get(EXPANDED_FROM) for n in prepared.graph} == {
        "Softplus 'one'",
        "Softplus 'three'",
        None,
    }
    assert {"a", "b", "y"} <= {n.outputs[0].name for n in prepared.graph}
    np.testing.assert_allclose(
        run_proto(onnx_ir.to_proto(prepared), {"x": X})[0], run_proto(proto, {"x": X})[0], rtol=1e-5
    )


def test_operators_inside_branches_are_expanded() -> None:
    branches = {
        name: onnx.helper.make_graph(
            [node(operator, ["h"], [f"{name}_y"], f"{name}_n")],
            name,
            [],
            [onnx.helper.make_value_info(f"{name}_y", onnx.TypeProto())],
        )
        for name, operator in (("then_branch", "HardSwish"), ("else_branch", "Mish"))
    }
    nodes = [node("Neg", ["x"], ["h"]), node("If", ["c"], ["y"], "choice", **branches)]
    for choice in (True, False):
        feeds = {"x": X, "c": np.array(choice)}
        proto = model(nodes, feeds)
        prepared = prepare(proto).model
        assert len(expand(prepared, lambda n: n.op_type in ("HardSwish", "Mish"))) == 2
        np.testing.assert_allclose(
            run_proto(onnx_ir.to_proto(prepared), feeds)[0], run_proto(proto, feeds)[0], rtol=1e-5
        )


def test_what_has_no_definition_stays_as_it_is() -> None:
    proto = model(
        [node("Conv", ["x", "k"], ["h"]), node("Erf", ["h"], ["y"])],
        {"x": normal(1, 1, 2, 5)},
        initializers={"k": normal(2, 3, 2, 2)},
    )
    prepared = prepare(proto).model
    before = onnx_ir.to_proto(prepared).SerializeToString()
    assert expand(prepared, lambda n: True) == []
    assert onnx_ir.to_proto(prepared).SerializeToString() == before
    assert not any(has_definition(n, 18) for n in prepared.graph)


def test_a_name_to_keep_survives_expansion() -> None:
    nodes = [
        node("Constant", [], ["c"], value_float=2.0),
        node("Mul", ["x", "c"], ["h"]),
        node("Softplus", ["h"], ["y"]),
    ]
    prepared = prepare(model(nodes, {"x": X}), keep=["c"]).model
    expand(prepared, lambda n: n.op_type == "Softplus", keep=["c"])
    assert "c" in prepared.graph.initializers
    assert prepared.graph.initializers["c"].dtype in FLOATS
