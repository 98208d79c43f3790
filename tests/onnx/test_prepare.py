"""Preparing: functions, constants, names, stale shapes; the numbers stay."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper, numpy_helper

from netgrad.core.errors import InvalidModelError, NetgradError
from netgrad.onnx.edit import CONSTANT_MARK
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import load
from netgrad.onnx.weights import weight_names
from tests.onnx.models import Array, model, node, normal, operators, run_proto
from tests.onnx.zoo import zoo_path

X = normal(1, 3, 4)


def _same(proto: onnx.ModelProto, feeds: dict[str, Array]) -> onnx_ir.Model:
    """Prepare, compare with the original on ONNX Runtime, check, and see that the original did not change."""
    before = proto.SerializeToString()
    prepared = prepare(proto).model
    assert proto.SerializeToString() == before
    after = onnx_ir.to_proto(prepared)
    onnx.checker.check_model(after, full_check=True)
    for one, other in zip(run_proto(proto, feeds), run_proto(after, feeds), strict=True):
        np.testing.assert_array_equal(other, one)
    return prepared


def _function(
    name: str,
    inputs: list[str],
    outputs: list[str],
    nodes: list[onnx.NodeProto],
    opset: int = 18,
    attributes: list[str] | None = None,
    domain: str = "local",
    calls: bool = False,
) -> onnx.FunctionProto:
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid("local", 1)] if calls else [])
    return helper.make_function(domain, name, inputs, outputs, nodes, imports, attributes or [])


def _call(name: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(name, inputs, outputs, domain="local", name=f"call_{outputs[0]}", **attributes)


def _reference(name: str, parameter: str) -> onnx.AttributeProto:
    """A float attribute inside a function that takes the value of a parameter of the function."""
    return onnx.AttributeProto(name=name, ref_attr_name=parameter, type=onnx.AttributeProto.FLOAT)


# Faults


def test_nodes_that_do_not_fit_their_operator_are_named_together() -> None:
    nodes = [
        node("Cast", ["x"], ["a"], "no type"),
        node("Relu", ["a", "a"], ["b"], "two inputs"),
        node("Softmax", ["b"], ["y"], "axes", axes=1),
    ]
    with pytest.raises(InvalidModelError) as caught:
        prepare(model(nodes, {"x": X}, infer=False))
    lines = str(caught.value).split("\n")
    assert lines[0] == "the model is not valid"
    assert "'no type'" in lines[1]
    assert "Required attribute 'to' is missing" in lines[1]
    assert "'two inputs'" in lines[2]
    assert "has input size 2 not in range [min=1, max=1]" in lines[2]
    assert "'axes'" in lines[3]
    assert "Unrecognized attribute: axes" in lines[3]
    assert len(lines) == 4


def test_nodes_inside_branches_are_checked() -> None:
    branches = {
        name: helper.make_graph(
            [node("Cast", ["x"], [f"{name}_y"], f"cast {name}")],
            name,
            [],
            [helper.make_value_info(f"{name}_y", onnx.TypeProto())],
        )
        for name in ("then_branch", "else_branch")
    }
    proto = model([node("If", ["c"], ["y"], **branches)], {"x": X, "c": np.array(True)}, infer=False)
    with pytest.raises(InvalidModelError, match=r"'cast else_branch'(.|\n)*'cast then_branch'"):
        prepare(proto)


@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_model_is_refused_or_prepared_and_nothing_else(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = [
        node("Slice", ["x"], ["s"], "slice", starts=[0], ends=[2], axes=[1]),
        node("BatchNormalization", ["s", "g", "b", "m", "v"], ["n"], "norm", epsilon=0.1),
        node("Softmax", ["n"], ["p"], "softmax", axis=1),
        node("Constant", [], ["c"], value=numpy_helper.from_array(normal(3, 1, 2))),
        node("Mul", ["p", "c"], ["y"], "product"),
    ]
    initializers = {name: np.ones(2, np.float32) for name in "gbmv"}
    content = model(nodes, {"x": normal(1, 3, 4, 5)}, initializers=initializers, opset=9).SerializeToString()
    outcomes = {"prepared": 0, "refused": 0}
    for _ in range(100):
        damaged = bytearray(content)
        for position in random.integers(0, len(content), random.integers(1, 4)):
            damaged[position] = random.integers(0, 256)
        try:
            weight_names(prepare(bytes(damaged)).model)
            outcomes["prepared"] += 1
        except NetgradError:
            outcomes["refused"] += 1
    assert min(outcomes.values()) > 0, outcomes


# Functions


def test_a_function_is_inlined_and_the_outputs_of_its_calls_keep_their_names() -> None:
    body = [node("Mul", ["a", "b"], ["m"]), node("Tanh", ["m"], ["t"]), node("Add", ["t", "a"], ["r"])]
    calls = [_call("F", ["x", "w"], ["h"]), _call("F", ["h", "w"], ["y"])]
    proto = model(
        calls,
        {"x": X},
        initializers={"w": normal(2, 4)},
        functions=[_function("F", ["a", "b"], ["r"], body)],
        imports={"local": 1},
    )
    prepared = _same(proto, {"x": X})
    assert operators(prepared) == ["Mul", "Tanh", "Add"] * 2
    assert not prepared.functions
    assert [n.outputs[0].name for n in prepared.graph if n.op_type == "Add"] == ["h", "y"]
    assert "inlined 2 calls of model-local functions" in prepare(proto).actions


def test_a_function_that_calls_another_is_inlined_with_its_attributes() -> None:
    leaky = node("LeakyRelu", ["a"], ["r"])
    leaky.attribute.append(_reference("alpha", "slope"))
    inner_call = _call("Inner", ["a"], ["i"])
    inner_call.attribute.append(_reference("slope", "outer_slope"))
    functions = [
        _function(
            "Outer",
            ["a"],
            ["r"],
            [inner_call, node("Neg", ["i"], ["r"])],
            attributes=["outer_slope"],
            calls=True,
        ),
        _function("Inner", ["a"], ["r"], [leaky], attributes=["slope"]),
    ]
    proto = model(
        [_call("Outer", ["x"], ["y"], outer_slope=0.3)], {"x": X}, functions=functions, imports={"local": 1}
    )
    prepared = _same(proto, {"x": X})
    assert operators(prepared) == ["LeakyRelu", "Neg"]
    assert next(iter(prepared.graph)).attributes["alpha"].as_float() == pytest.approx(0.3)


def test_a_function_that_gives_its_input_or_one_value_twice_keeps_all_names() -> None:
    function = _function(
        "Twice", ["a"], ["a", "r", "r2"], [node("Relu", ["a"], ["r"]), node("Identity", ["r"], ["r2"])]
    )
    function.output[2] = "r"
    proto = model(
        [_call("Twice", ["x"], ["p", "q", "s"]), node("Sum", ["p", "q", "s"], ["y"])],
        {"x": X},
        ["y", "s"],
        functions=[function],
        imports={"local": 1},
    )
    prepared = prepare(proto).model
    assert prepared.graph.inputs[0].name == "x"
    names = {n.outputs[0].name for n in prepared.graph}
    assert {"p", "q", "s", "y"} <= names
    y, s = run_proto(onnx_ir.to_proto(prepared), {"x": X})
    np.testing.assert_array_equal(s, np.maximum(X, 0))
    np.testing.assert_allclose(y, X + 2 * np.maximum(X, 0), rtol=1e-6)


@pytest.mark.parametrize(("model_opset", "function_opset"), [(11, 18), (18, 11), (21, 11), (12, 11)])
def test_a_function_of_another_opset_is_lifted_from_its_own(model_opset: int, function_opset: int) -> None:
    # Softmax means another thing in opset 11; ReduceSum has its axes as an attribute there.
    if function_opset == 11:
        body = [node("Softmax", ["a"], ["p"], axis=0), node("ReduceSum", ["p"], ["r"], axes=[1])]
    else:
        body = [
            node("Constant", [], ["i"], value_ints=[1]),
            node("Softmax", ["a"], ["p"], axis=0),
            node("ReduceSum", ["p", "i"], ["r"]),
        ]
    proto = model(
        [_call("F", ["x"], ["y"])],
        {"x": X},
        opset=model_opset,
        functions=[_function("F", ["a"], ["r"], body, function_opset)],
        imports={"local": 1},
        ir_version=10,
    )
    e = np.exp(X)
    p = e / e.sum() if function_opset == 11 else e / e.sum(axis=0)
    prepared = prepare(proto).model
    assert prepared.opset_imports[""] == max(18, model_opset)
    (y,) = run_proto(onnx_ir.to_proto(prepared), {"x": X})
    np.testing.assert_allclose(y, p.sum(axis=1, keepdims=True), rtol=1e-5)


def test_functions_inside_branches_get_names_of_their_own() -> None:
    body = [node("Neg", ["a"], ["t"]), node("Exp", ["t"], ["r"])]
    branches = {
        name: helper.make_graph(
            [_call("F", ["h"], [f"{name}_h"]), node(last, [f"{name}_h"], [f"{name}_y"])],
            name,
            [],
            [helper.make_value_info(f"{name}_y", onnx.TypeProto())],
        )
        for name, last in (("then_branch", "Relu"), ("else_branch", "Tanh"))
    }
    nodes = [_call("F", ["x"], ["h"]), node("If", ["c"], ["y"], **branches), node("Identity", ["h"], ["z"])]
    for choice in (True, False):
        feeds = {"x": X, "c": np.array(choice)}
        proto = model(
            nodes, feeds, ["y", "z"], functions=[_function("F", ["a"], ["r"], body)], imports={"local": 1}
        )
        prepared = _same(proto, feeds)
        names = [output.name for graph in prepared.graphs() for n in graph for output in n.outputs]
        assert len(set(names)) == len(names)


def test_a_function_that_calls_itself_is_refused() -> None:
    function = _function("F", ["a"], ["r"], [_call("F", ["a"], ["r"])], calls=True)
    with pytest.raises(InvalidModelError, match=r"the model's functions cannot be inlined: .*local::F"):
        prepare(
            model(
                [_call("F", ["x"], ["y"])], {"x": X}, functions=[function], imports={"local": 1}, infer=False
            )
        )


# Constants


def test_every_form_of_constant_becomes_an_initializer() -> None:
    forms: dict[str, tuple[Any, Array]] = {
        "value": (numpy_helper.from_array(normal(2, 4)), normal(2, 4)),
        "value_float": (2.5, np.array(2.5, np.float32)),
        "value_floats": ([1.0, 2.0, 3.0, 4.0], np.arange(1, 5, dtype=np.float32)),
    }
    nodes = [node("Constant", [], [f"c_{form}"], **{form: value}) for form, (value, _) in forms.items()]
    nodes.append(node("Sum", ["x", *(f"c_{form}" for form in forms)], ["y"]))
    nodes.append(node("Constant", [], ["axes"], value_ints=[1]))
    nodes.append(node("Constant", [], ["k"], value_int=1))
    nodes += [node("ReduceSum", ["y", "axes"], ["z"]), node("Gather", ["y", "k"], ["g"])]
    prepared = _same(model(nodes, {"x": X}, ["y", "z", "g"]), {"x": X})
    assert operators(prepared) == ["Sum", "ReduceSum", "Gather"]
    for form, (_, array) in forms.items():
        tensor = prepared.graph.initializers[f"c_{form}"].const_value
        assert tensor is not None
        np.testing.assert_array_equal(tensor.numpy(), array)
        assert (CONSTANT_MARK in tensor.metadata_props) == (array.size == 1)


def test_marking_a_constant_leaves_the_tensor_of_the_source_alone() -> None:
    c = numpy_helper.from_array(np.array(2.5, np.float32), "c")  # the name that its initializer will have
    proto = model([node("Constant", [], ["c"], value=c), node("Mul", ["x", "c"], ["y"])], {"x": X})
    source = onnx_ir.from_proto(proto)
    _same(proto, {"x": X})
    prepare(source)
    assert onnx_ir.to_proto(source).SerializeToString() == onnx_ir.to_proto(load(proto)).SerializeToString()


def test_a_constant_of_a_shape_becomes_an_initializer_without_taking_memory() -> None:
    fill = numpy_helper.from_array(np.array([0.25], np.float32))
    shape = numpy_helper.from_array(np.array([300_000, 400_000], np.int64), "shape")
    proto = model(
        [node("ConstantOfShape", ["shape"], ["w"], value=fill), node("MatMul", ["x", "w"], ["y"])], {"x": X}
    )
    proto.graph.initializer.append(shape)
    prepared = prepare(proto).model
    tensor = prepared.graph.initializers["w"].const_value
    assert tensor is not None
    assert tensor.nbytes == 480_000_000_000
    assert tensor.numpy()[299_999, 1] == 0.25
    assert list(prepared.graph.initializers) == ["w"]


def test_constants_that_are_outputs_stay_outputs() -> None:
    c = numpy_helper.from_array(normal(2, 4))
    proto = model(
        [node("Constant", [], ["c"], value=c), node("Add", ["x", "c"], ["y"])], {"x": X}, ["y", "c"]
    )
    prepared = _same(proto, {"x": X})
    assert sorted(operators(prepared)) == ["Add", "Identity"]


def test_constants_of_branches_move_to_the_main_graph_and_keep_their_names_where_they_can() -> None:
    def branch(name: str, own: str, seed: int) -> onnx.GraphProto:
        return helper.make_graph(
            [
                node("Constant", [], [own], value=numpy_helper.from_array(normal(seed, 4))),
                node("Constant", [], ["shared"], value=numpy_helper.from_array(normal(seed + 1, 4))),
                node("Add", ["x", own], [f"{name}_h"]),
                node("Mul", [f"{name}_h", "shared"], [f"{name}_m"]),
                node("Add", [f"{name}_m", "extra"], [f"{name}_y"]),
            ],
            name,
            [],
            [helper.make_value_info(f"{name}_y", onnx.TypeProto())],
            [numpy_helper.from_array(normal(seed + 2, 4), "extra")],
        )

    choice = node("If", ["c"], ["y"], then_branch=branch("t", "a", 10), else_branch=branch("e", "b", 20))
    for value in (True, False):
        feeds = {"x": X, "c": np.array(value)}
        prepared = _same(model([choice], feeds), feeds)
        assert all(not graph.initializers for graph in list(prepared.graphs())[1:])
        assert len(prepared.graph.initializers) == 6
        assert {"a", "b"} <= set(prepared.graph.initializers)
        assert not any(n.op_type == "Constant" for graph in prepared.graphs() for n in graph)


def test_constants_that_are_the_outputs_of_branches_stay_their_outputs() -> None:
    c, d = (numpy_helper.from_array(normal(seed, 4), "d") for seed in (2, 3))
    info = helper.make_tensor_value_info("d", onnx.TensorProto.FLOAT, [4])
    choice = node(
        "If",
        ["c"],
        ["h"],
        then_branch=helper.make_graph([node("Constant", [], ["d"], value=c)], "t", [], [info]),
        else_branch=helper.make_graph([], "e", [], [info], [d]),
    )
    for value in (True, False):
        feeds = {"x": X, "c": np.array(value)}
        prepared = _same(model([choice, node("Add", ["x", "h"], ["y"])], feeds), feeds)
        assert [[n.op_type for n in graph] for graph in list(prepared.graphs())[1:]] == [["Identity"]] * 2
        assert len(prepared.graph.initializers) == 2


# Names, inputs, shapes


def test_nodes_get_names_of_their_own_and_values_keep_theirs() -> None:
    nodes = [
        node("Relu", ["x"], ["a"], "same"),
        node("Relu", ["a"], ["b"], "same"),
        node("Relu", ["b"], ["c"]),
        node("Relu", ["c"], ["y"], "Relu"),
    ]
    result = prepare(model(nodes, {"x": X}))
    names = [n.name for n in result.model.graph]
    assert names[0] == "same"
    assert names[3] == "Relu"
    assert all(names)
    assert len(set(names)) == 4
    assert [n.outputs[0].name for n in result.model.graph] == ["a", "b", "c", "y"]
    assert "named 1 nodes that had no name" in result.actions
    assert "renamed 1 nodes that had the name of another node" in result.actions


def test_initializers_among_the_inputs_are_taken_out() -> None:
    proto = model(
        [node("Add", ["x", "w"], ["y"])], {"x": X, "w": normal(2, 4)}, initializers={"w": normal(2, 4)}
    )
    proto.ir_version = 3
    proto.opset_import[0].version = 9
    result = prepare(proto)
    assert [value.name for value in result.model.graph.inputs] == ["x"]
    assert "took 1 initializers out of the inputs" in result.actions


def test_stale_shapes_are_not_believed() -> None:
    proto = model([node("Relu", ["x"], ["h"]), node("Neg", ["h"], ["y"])], {"x": X})
    for value in (*proto.graph.value_info, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    prepared = prepare(proto).model
    for n in prepared.graph:
        assert n.outputs[0].shape == onnx_ir.Shape(["batch", 4])


def test_what_is_said_of_an_unknown_operator_is_believed() -> None:
    proto = model(
        [helper.make_node("Odd", ["x"], ["h"], domain="d"), node("Neg", ["h"], ["y"])],
        {"x": X},
        imports={"d": 1},
    )
    proto.graph.value_info.append(helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, [5, "n"]))
    prepared = prepare(proto).model
    assert [n.outputs[0].shape for n in prepared.graph] == [onnx_ir.Shape([5, "n"])] * 2


def test_symbols_that_inference_invents_are_unknown_dims() -> None:
    proto = model([node("NonZero", ["x"], ["i"]), node("Cast", ["i"], ["y"], to=1)], {"x": X})
    shape = prepare(proto).model.graph.outputs[0].shape
    assert shape is not None
    assert shape[0] == 2
    assert shape.is_unknown_dim(1)


def test_ranks_follow_from_those_who_read_a_value() -> None:
    odd = helper.make_node("Odd", ["x"], ["h"], domain="d")
    nodes = [odd, node("Relu", ["h"], ["r"]), node("Conv", ["r", "k"], ["y"])]
    proto = model(nodes, {"x": X}, initializers={"k": normal(3, 5, 2, 3)}, imports={"d": 1})
    proto.graph.value_info.append(helper.make_value_info("h", helper.make_tensor_type_proto(1, None)))
    shapes = {n.outputs[0].name: n.outputs[0].shape for n in prepare(proto).model.graph}
    assert shapes["h"] is not None
    assert shapes["h"].rank() == 3
    assert shapes["y"] is not None
    assert shapes["y"][1] == 5


def test_a_reader_in_a_branch_implies_no_rank() -> None:
    odd = helper.make_node("Odd", ["x"], ["h"], domain="d")
    branches = {
        name: helper.make_graph(nodes, name, [], [helper.make_value_info(f"{name}_y", onnx.TypeProto())])
        for name, nodes in (
            ("then_branch", [node("Conv", ["h", "k"], ["then_branch_y"])]),
            ("else_branch", [node("Relu", ["h"], ["else_branch_y"])]),
        )
    }
    feeds = {"x": X, "c": np.array(True)}
    proto = model(
        [odd, node("If", ["c"], ["y"], **branches)],
        feeds,
        initializers={"k": normal(3, 5, 2, 3)},
        imports={"d": 1},
    )
    proto.graph.value_info.append(helper.make_value_info("h", helper.make_tensor_type_proto(1, None)))
    assert next(iter(prepare(proto).model.graph)).outputs[0].shape is None


def test_the_largest_zoo_graph_is_prepared_in_seconds() -> None:
    prepare(zoo_path("squeezenet"))  # imports and caches
    start = time.process_time()
    prepare(zoo_path("densenet121"))
    assert time.process_time() - start < 5.0  # seconds; about 0.7 on an idle machine
