"""Folding: shape arithmetic and If nodes that are known go away, everything else stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

from netgrad.onnx import fold as fold_module
from netgrad.onnx.prepare import prepare
from tests.onnx.models import Array, model, node, normal, operators, run_proto

X = normal(1, 3, 4, 5)


def _ints(name: str, *values: int) -> onnx.NodeProto:
    return node("Constant", [], [name], value_ints=list(values))


def _flatten_by_shape() -> list[onnx.NodeProto]:
    """What exporters write for x.reshape(x.shape[0], -1)."""
    return [
        node("Shape", ["x"], ["s"]),
        node("Constant", [], ["zero"], value_int=0),
        node("Gather", ["s", "zero"], ["n"], axis=0),
        _ints("axes", 0),
        node("Unsqueeze", ["n", "axes"], ["n1"]),
        _ints("rest", -1),
        node("Concat", ["n1", "rest"], ["shape"], axis=0),
        node("Reshape", ["x", "shape"], ["y"]),
    ]


def _prepared_same(proto: onnx.ModelProto, feeds: dict[str, Array]) -> onnx_ir.Model:
    prepared = prepare(proto).model
    after = onnx_ir.to_proto(prepared)
    onnx.checker.check_model(after, full_check=True)
    for one, other in zip(run_proto(proto, feeds), run_proto(after, feeds), strict=True):
        np.testing.assert_array_equal(other, one)
        assert other.dtype == one.dtype
    return prepared


def test_shape_arithmetic_of_static_dims_is_folded() -> None:
    proto = model(_flatten_by_shape(), {"x": X})
    prepared = _prepared_same(proto, {"x": X})
    assert operators(prepared) == ["Reshape"]
    assert list(prepared.graph.initializers) == ["shape"]  # nothing is left of what led to it
    assert "folded 4 nodes of constant shape arithmetic (1 Concat, 1 Gather, 1 Shape, 1 Unsqueeze)" in (
        prepare(proto).actions
    )


def test_a_number_in_the_type_of_a_value_is_folded() -> None:
    nodes = [
        _ints("two", 2),
        node("CastLike", ["two", "x"], ["factor"]),
        node("Mul", ["x", "factor"], ["y"]),
    ]
    prepared = _prepared_same(model(nodes, {"x": X}, symbolic=True), {"x": X})
    assert operators(prepared) == ["Mul"]


def test_shape_arithmetic_of_symbolic_dims_stays() -> None:
    proto = model(_flatten_by_shape(), {"x": X}, symbolic=True)
    prepared = _prepared_same(proto, {"x": X})
    assert operators(prepared) == ["Shape", "Gather", "Unsqueeze", "Concat", "Reshape"]


def test_one_static_dim_is_picked_out_of_a_shape_with_symbols() -> None:
    proto = model(_flatten_by_shape(), {"x": X}, symbolic=True)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 3
    assert operators(_prepared_same(proto, {"x": X})) == ["Reshape"]


def test_a_scale_computed_from_a_shape_is_folded_and_no_parameter() -> None:
    nodes = [
        node("Shape", ["x"], ["s"], start=2),
        node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Sqrt", ["f"], ["r"]),
        node("Constant", [], ["one"], value_float=1.0),
        node("Div", ["one", "r"], ["scale"]),
        node("Mul", ["x", "scale"], ["y"]),
    ]
    prepared = prepare(model(nodes, {"x": X})).model
    assert operators(prepared) == ["Mul"]
    (y,) = run_proto(onnx_ir.to_proto(prepared), {"x": X})
    np.testing.assert_allclose(y, X / np.sqrt(5), rtol=1e-6)


def test_what_depends_on_a_parameter_is_not_folded() -> None:
    nodes = [
        node("Exp", ["logit_scale"], ["e"]),
        node("Mul", ["w", "e"], ["we"]),
        node("Identity", ["w"], ["tied"]),
        node("Reshape", ["tied", "shape"], ["flat"]),
        node("Add", ["we", "flat"], ["sum"]),
        node("Mul", ["x", "sum"], ["y"]),
    ]
    initializers = {"logit_scale": np.array(0.5, np.float32), "w": normal(2, 5), "shape": np.array([5])}
    prepared = _prepared_same(model(nodes, {"x": X}, initializers=initializers), {"x": X})
    assert operators(prepared) == ["Exp", "Mul", "Identity", "Reshape", "Add", "Mul"]


@pytest.mark.parametrize("keep", ["scalar", "doubled"])
def test_names_to_keep_are_not_folded_away(keep: str) -> None:
    nodes = [
        node("Constant", [], ["scalar"], value_float=0.5),
        node("Add", ["scalar", "scalar"], ["doubled"]),
        node("Mul", ["doubled", "doubled"], ["squared"]),
        node("Mul", ["x", "squared"], ["y"]),
    ]
    proto = model(nodes, {"x": X})
    assert operators(prepare(proto).model) == ["Mul"]
    kept = prepare(proto, keep=[keep]).model
    expected = {"scalar": ["Add", "Mul", "Mul"], "doubled": ["Add", "Mul", "Mul"]}
    assert operators(kept) == expected[keep]
    assert keep in kept.graph.initializers or keep in {n.outputs[0].name for n in kept.graph}


def test_what_an_output_needs_stays() -> None:
    nodes = [node("Shape", ["x"], ["s"]), node("Gather", ["s", "one"], ["n"]), node("Neg", ["x"], ["y"])]
    proto = model(nodes, {"x": X}, ["y", "n"], initializers={"one": np.array(1)})
    prepared = _prepared_same(proto, {"x": X})
    assert [value.name for value in prepared.graph.outputs] == ["y", "n"]
    assert operators(prepared) == ["Gather", "Neg"]


def test_a_large_result_is_not_folded() -> None:
    nodes = [node("ConstantOfShape", ["shape"], ["c"], value=numpy_helper.from_array(np.array([3])))]
    nodes += [node("Gather", ["x", "c"], ["y"], axis=1)]
    for size, expected in ((10, ["Gather"]), (10**12, ["ConstantOfShape", "Gather"])):
        proto = model(nodes, {"x": X}, initializers={"shape": np.array([size])})
        assert operators(prepare(proto).model) == expected


def test_an_operator_that_cannot_be_evaluated_stays() -> None:
    nodes = [node("Gather", ["s", "nine"], ["n"]), node("Expand", ["x", "n"], ["y"])]
    initializers = {"s": np.array([1, 2, 3]), "nine": np.array([9])}
    assert operators(prepare(model(nodes, {"x": X}, initializers=initializers)).model) == ["Gather", "Expand"]


INTEGERS = np.array([-7, 7, -8, 5])
DIVISORS = np.array([2, -2, 3, 5])
FOLDABLE: list[tuple[str, list[Array], dict[str, Any]]] = [
    *((op, [INTEGERS, DIVISORS], {}) for op in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min")),
    *((op, [INTEGERS, DIVISORS], {}) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")),
    *((op, [INTEGERS > 0, DIVISORS > 0], {}) for op in ("And", "Or", "Xor")),
    *((op, [INTEGERS], {}) for op in ("Abs", "Neg", "Sign", "Identity")),
    ("Not", [INTEGERS > 0], {}),
    ("Pow", [DIVISORS, np.array(2)], {}),
    ("Cast", [INTEGERS], {"to": onnx.TensorProto.INT32}),
    ("Cast", [INTEGERS > 0], {"to": onnx.TensorProto.INT64}),
    ("CastLike", [INTEGERS, np.zeros(1, np.float32)], {}),
    ("Concat", [INTEGERS, DIVISORS], {"axis": 0}),
    ("Expand", [INTEGERS, np.array([2, 4])], {}),
    ("Flatten", [INTEGERS.reshape(2, 1, 2)], {"axis": 2}),
    ("Gather", [INTEGERS, np.array([[-1, 0]])], {}),
    ("GatherElements", [INTEGERS, np.array([-1, 2])], {}),
    ("GatherND", [INTEGERS.reshape(2, 2), np.array([[1, 0]])], {}),
    ("Range", [np.array(7), np.array(-2), np.array(-3)], {}),
    ("ReduceMax", [INTEGERS, np.array([0])], {}),
    ("ReduceMin", [INTEGERS], {"keepdims": 0}),
    ("ReduceProd", [INTEGERS, np.array([-1])], {"keepdims": 0}),
    ("ReduceSum", [INTEGERS.reshape(2, 2), np.array([0])], {}),
    ("Reshape", [INTEGERS, np.array([2, -1])], {}),
    ("ScatterElements", [INTEGERS, np.array([1, -1]), np.array([70, 80])], {"reduction": "add"}),
    ("ScatterND", [INTEGERS, np.array([[1], [3]]), np.array([70, 80])], {}),
    ("Shape", [INTEGERS.reshape(1, 2, 2)], {"start": 1, "end": -1}),
    ("Size", [INTEGERS.reshape(1, 2, 2)], {}),
    ("Slice", [INTEGERS, np.array([-1]), np.array([-(2**62)]), np.array([0]), np.array([-2])], {}),
    ("Squeeze", [INTEGERS.reshape(1, 4, 1), np.array([0, -1])], {}),
    ("Tile", [INTEGERS, np.array([3])], {}),
    ("Transpose", [INTEGERS.reshape(2, 1, 2)], {"perm": [2, 0, 1]}),
    ("Unsqueeze", [INTEGERS, np.array([0, -1])], {}),
    ("Where", [INTEGERS > 0, INTEGERS, DIVISORS], {}),
    ("ConstantOfShape", [np.array([2, 3])], {"value": numpy_helper.from_array(np.array([4]))}),
]


@pytest.mark.parametrize(
    ("operator", "inputs", "attributes"), FOLDABLE, ids=[f"{row[0]}-{i}" for i, row in enumerate(FOLDABLE)]
)
def test_folding_gives_what_the_runtime_gives(
    operator: str, inputs: list[Array], attributes: dict[str, Any]
) -> None:
    names = [f"c{index}" for index in range(len(inputs))]
    folded = model(
        [node(operator, names, ["r"], **attributes), node("Identity", ["r"], ["y"])],
        {},
        initializers=dict(zip(names, inputs, strict=True)),
    )
    prepared = prepare(folded).model
    assert operators(prepared) == ["Identity"]
    fed = model([node(operator, names, ["y"], **attributes)], dict(zip(names, inputs, strict=True)))
    (expected,) = run_proto(fed, dict(zip(names, inputs, strict=True)))
    (actual,) = run_proto(onnx_ir.to_proto(prepared), {})
    np.testing.assert_array_equal(actual, expected)
    assert actual.dtype == expected.dtype


FLOAT_ONLY = {"Ceil", "Floor", "Reciprocal", "Round", "Sqrt"}


def test_every_foldable_operator_has_a_row() -> None:
    assert {row[0] for row in FOLDABLE} | FLOAT_ONLY == fold_module._FOLDED


@pytest.mark.parametrize("operator", sorted(FLOAT_ONLY))
def test_folding_of_numbers_computed_from_dims_gives_what_the_runtime_gives(operator: str) -> None:
    halves = [
        node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
        node("Constant", [], ["half"], value_float=0.5),
        node("Mul", ["f", "half"], ["h"]),
        node(operator, ["h"], ["r"]),
        node("Identity", ["r"], ["y"]),
    ]
    s = np.array([1, 3, 5, 8])
    prepared = prepare(model(halves, {}, initializers={"s": s})).model
    assert operators(prepared) == ["Identity"]
    (actual,) = run_proto(onnx_ir.to_proto(prepared), {})
    (expected,) = run_proto(model(halves, {"s": s}), {"s": s})
    np.testing.assert_allclose(actual, expected, rtol=1e-6)


# If


def _branch(name: str, nodes: list[onnx.NodeProto], outputs: list[str]) -> onnx.GraphProto:
    return helper.make_graph(
        nodes, name, [], [helper.make_value_info(output, onnx.TypeProto()) for output in outputs]
    )


def _squeeze_if_one() -> list[onnx.NodeProto]:
    """What exporters write for x.squeeze(1): both branches, and a test of the size."""
    # The runtime refuses a Squeeze of another size even in a branch that it never takes.
    squeezed = [node("ReduceMax", ["x", "one"], ["t"], keepdims=0), node("Relu", ["t"], ["then_y"])]
    return [
        node("Shape", ["x"], ["s"]),
        _ints("one", 1),
        node("Gather", ["s", "one"], ["n"]),
        node("Equal", ["n", "one"], ["is_one"]),
        node(
            "If",
            ["is_one"],
            ["h"],
            then_branch=_branch("then", squeezed, ["then_y"]),
            else_branch=_branch("else", [node("Identity", ["x"], ["else_y"])], ["else_y"]),
        ),
        node("Neg", ["h"], ["y"]),
    ]


def test_an_if_of_known_condition_is_replaced_by_its_branch() -> None:
    for shape, expected in (((3, 1, 5), ["ReduceMax", "Relu", "Neg"]), ((3, 4, 5), ["Identity", "Neg"])):
        x = normal(1, *shape)
        proto = model(_squeeze_if_one(), {"x": x})
        prepared = _prepared_same(proto, {"x": x})
        assert operators(prepared) == expected
        values = {n.outputs[0].name: n.outputs[0] for n in prepared.graph}
        assert values["h"].shape is not None
        assert values["h"].shape.is_static()
        assert "replaced 1 If nodes of constant condition by their branch" in prepare(proto).actions


def test_an_if_of_unknown_condition_stays() -> None:
    x = normal(1, 3, 1, 5)
    proto = model(_squeeze_if_one(), {"x": x}, symbolic=True)
    prepared = prepare(proto).model
    assert operators(prepared)[-2:] == ["If", "Neg"]
    np.testing.assert_array_equal(
        run_proto(onnx_ir.to_proto(prepared), {"x": x})[0], run_proto(proto, {"x": x})[0]
    )


def test_nested_ifs_outer_values_and_repeated_results() -> None:
    inner = node(
        "If",
        ["no"],
        ["i"],
        then_branch=_branch("it", [node("Exp", ["a"], ["it_y"])], ["it_y"]),
        else_branch=_branch("ie", [node("Tanh", ["a"], ["ie_y"])], ["ie_y"]),
    )
    outer = node(
        "If",
        ["yes"],
        ["p", "q", "r"],
        then_branch=_branch(
            "ot", [node("Abs", ["x"], ["a"]), inner, node("Neg", ["i"], ["m"])], ["m", "m2", "o"]
        ),
        else_branch=_branch("oe", [node("Abs", ["x"], ["a"])], ["a", "a2", "a3"]),
    )
    for attribute in outer.attribute:  # one result twice, and one that is a value from outside
        last = attribute.g.output[0].name
        attribute.g.node.append(node("Identity", [last], [attribute.g.output[1].name]))
        attribute.g.node.append(node("Identity", ["x"], [attribute.g.output[2].name]))
    nodes = [outer, node("Sum", ["p", "q", "r"], ["y"])]
    initializers = {"yes": np.array(True), "no": np.array(False)}
    proto = model(nodes, {"x": X}, ["y", "q"], initializers=initializers)
    prepared = _prepared_same(proto, {"x": X})
    assert "If" not in operators(prepared)
    assert [value.name for value in prepared.graph.outputs] == ["y", "q"]
    names = [output.name for n in prepared.graph for output in n.outputs]
    assert {"p", "q", "r"} <= set(names)
    assert len(set(names)) == len(names)


def test_names_of_a_branch_that_exist_elsewhere_are_changed() -> None:
    def choice(condition: str, output: str) -> onnx.NodeProto:
        return node(
            "If",
            [condition],
            [output],
            then_branch=_branch("t", [node("Exp", ["x"], ["v"]), node("Neg", ["v"], ["w"])], ["w"]),
            else_branch=_branch("e", [node("Tanh", ["x"], ["v"]), node("Abs", ["v"], ["w"])], ["w"]),
        )

    nodes = [choice("yes", "a"), choice("no", "b"), node("Add", ["a", "b"], ["y"])]
    initializers = {"yes": np.array(True), "no": np.array(False)}
    prepared = _prepared_same(model(nodes, {"x": X}, initializers=initializers), {"x": X})
    assert operators(prepared) == ["Exp", "Neg", "Tanh", "Abs", "Add"]
    names = [output.name for n in prepared.graph for output in n.outputs]
    assert len(set(names)) == 5
