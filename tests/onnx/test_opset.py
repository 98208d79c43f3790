"""Each change of an operator's definition: the old form and the prepared one give the same numbers."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest

from netgrad.core.errors import InvalidModelError, UnsupportedOperatorError
from netgrad.onnx.opset import ADAPTERS, REVIEWED_OPSET, changes, lift, only_grows
from netgrad.onnx.prepare import prepare
from netgrad.onnx.shapes import infer_shapes
from tests.onnx.models import Array, model, node, normal, operators, run_proto
from tests.onnx.opset_cases import CASES, CHANNELS, IMAGE, Case, X


def _model(case: Case, symbolic: bool) -> tuple[onnx.ModelProto, dict[str, Array]]:
    names = [f"x{index}" for index in range(len(case.inputs))]
    outputs = ["y", *(f"y{index}" for index in range(1, case.outputs))]
    feeds = {
        name: array
        for i, (name, array) in enumerate(zip(names, case.inputs, strict=True))
        if i not in case.constants
    }
    constants = {names[index]: case.inputs[index] for index in case.constants}
    proto = model(
        [node(case.operator, names, outputs, "node", **case.attributes)],
        feeds,
        outputs,
        opset=case.opset,
        initializers=constants,
        symbolic=symbolic,
    )
    return proto, feeds


FORMS = [
    (case, symbolic) for case in CASES for symbolic in (False, True) if not (symbolic and case.static_only)
]


@pytest.mark.parametrize(
    ("case", "symbolic"), FORMS, ids=[f"{case.id}-{'symbolic' if s else 'static'}" for case, s in FORMS]
)
def test_lifted_operator_computes_the_same(case: Case, symbolic: bool) -> None:
    proto, feeds = _model(case, symbolic)
    before = proto.SerializeToString()
    prepared = prepare(proto).model
    if case.target > 18:
        infer_shapes(prepared)
        assert lift(prepared, case.target)
    assert proto.SerializeToString() == before
    assert prepared.opset_imports[""] == case.target
    lifted = onnx_ir.to_proto(prepared)
    if all(value.shape is not None for value in prepared.graph.outputs):  # the checker asks for a rank
        onnx.checker.check_model(lifted, full_check=True)
    assert [value.name for value in lifted.graph.output] == [value.name for value in proto.graph.output]
    expected = [case.expected(*case.inputs)] if case.expected else run_proto(proto, feeds)
    actual = run_proto(lifted, feeds)
    for one, other in zip(expected, actual, strict=case.expected is None):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def test_every_change_of_a_definition_has_an_adapter_or_only_adds() -> None:
    operators_seen = 0
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain != "":
            continue
        operators_seen += 1
        for change in changes(schema.name):
            if change <= REVIEWED_OPSET:
                assert (schema.name, change) in ADAPTERS or only_grows(schema.name, change), (
                    schema.name,
                    change,
                )
    assert operators_seen > 400


def test_every_adapter_is_of_a_change_that_exists() -> None:
    for operator, change in ADAPTERS:
        assert change in changes(operator), (operator, change)


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [
        ((2, 3, 4), 2, ["Softmax"]),
        ((2, 3, 4), -1, ["Softmax"]),
        ((2, 5, 1, 1), 1, ["Softmax"]),
        ((5,), 0, ["Softmax"]),
        ((2, 3, 4), 1, ["Flatten", "Softmax", "Reshape"]),
    ],
)
def test_softmax_of_old_meaning_gets_nodes_only_where_it_differs(
    shape: tuple[int, ...], axis: int, expected: list[str]
) -> None:
    proto = model([node("Softmax", ["x"], ["y"], axis=axis)], {"x": normal(1, *shape)}, opset=11)
    assert operators(prepare(proto).model) == expected


def test_softmax_of_old_meaning_keeps_the_name_of_its_output_inside_the_graph() -> None:
    x = normal(1, 2, 3, 4)
    nodes = [node("Softmax", ["x"], ["p"], axis=1), node("Relu", ["p"], ["y"]), node("Neg", ["p"], ["z"])]
    proto = model(nodes, {"x": x}, ["y", "z"], opset=11, symbolic=True)
    prepared = prepare(proto).model
    assert operators(prepared) == ["Shape", "Flatten", "Softmax", "Reshape", "Relu", "Neg"]
    (reshape,) = [n for n in prepared.graph if n.op_type == "Reshape"]
    assert reshape.outputs[0].name == "p"
    for one, other in zip(
        run_proto(proto, {"x": x}), run_proto(onnx_ir.to_proto(prepared), {"x": x}), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_batch_normalization_in_training_mode_keeps_its_new_statistics() -> None:
    names = ["x", "scale", "bias", "mean", "var"]
    outputs = ["y", "new_mean", "new_var", "saved_mean", "saved_var"]
    feeds = dict(zip(names, [normal(2, 3, 2, 3, 4), *CHANNELS], strict=True))
    proto = model([node("BatchNormalization", names, outputs, momentum=0.75)], feeds, outputs[:3], opset=9)
    prepared = prepare(proto).model
    y, new_mean, new_var = run_proto(onnx_ir.to_proto(prepared), feeds)
    x, axes = feeds["x"], (0, 2, 3)
    mean, var = x.mean(axis=axes), x.var(axis=axes)
    expected = (x - mean[:, None, None]) / np.sqrt(var[:, None, None] + 1e-5)
    expected = expected * feeds["scale"][:, None, None] + feeds["bias"][:, None, None]
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(new_mean, 0.75 * feeds["mean"] + 0.25 * mean, rtol=1e-5)
    np.testing.assert_allclose(new_var, 0.75 * feeds["var"] + 0.25 * var, rtol=1e-5)


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (
            model([node("Mystery", ["x"], ["y"], "n")], {"x": X}, opset=11),
            r"\(the default domain has no such operator\) for Mystery, node 'n' \(x -> y\)",
        ),
        (
            model(
                [node("Tile", ["x", "t", "a"], ["y"], "n")],
                {"x": X, "t": np.array(2), "a": np.array(1)},
                opset=5,
            ),
            "its tiles and axis have no equivalent",
        ),
        (
            model(
                [node("Resize", ["x", "s"], ["y"], "n")],
                {"x": IMAGE, "s": np.array([1, 1, 2, 2], np.float32)},
                opset=10,
            ),
            "its scales are not constant",
        ),
        (
            model(
                [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "", "", "z", "unread"], "n")],
                dict(zip("xsbmv", [IMAGE, *CHANNELS], strict=True)),
                ["y", "z"],
                opset=9,
            ),
            "saved_mean and saved_var have no equivalent",
        ),
        (
            model([node("Dropout", ["x"], ["y", "mask"], "n")], {"x": X}, ["y", "mask"], opset=10),
            "what its mask held outside of training was not defined",
        ),
        (
            model(
                [
                    node("Add", ["h", "b"], ["y"], "n", broadcast=1, axis=1),
                    node("Mystery", ["x"], ["h"], domain="d"),
                ],
                {"x": X, "b": normal(2, 3)},
                opset=6,
                imports={"d": 1},
            ),
            "the rank of its input 'h' is unknown",
        ),
    ],
    ids=["unknown", "tile", "resize", "batchnorm", "dropout", "add"],
)
def test_what_has_no_equivalent_is_refused_by_name(proto: onnx.ModelProto, text: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=text):
        prepare(proto)


def test_all_operators_that_cannot_be_lifted_are_named_at_once() -> None:
    nodes = [node("Mystery", ["x"], ["h"], "one"), node("Riddle", ["h"], ["y"], "two")]
    with pytest.raises(UnsupportedOperatorError) as caught:
        prepare(model(nodes, {"x": X}, opset=11))
    assert [missing.operator.name for missing in caught.value.operators] == ["one", "two"]


def test_an_opset_that_the_onnx_package_does_not_know_is_refused() -> None:
    proto = model([node("Relu", ["x"], ["y"])], {"x": X}, opset=17)
    proto.opset_import[0].version = 900
    with pytest.raises(
        InvalidModelError, match="needs opset 900, but the installed onnx package knows opset"
    ):
        prepare(proto)


def test_a_later_opset_is_never_lowered() -> None:
    proto = model([node("Gelu", ["x"], ["y"])], {"x": X}, opset=21, ir_version=10)
    prepared = prepare(proto)
    assert prepared.model.opset_imports[""] == 21
    assert prepared.model.ir_version == 10
    assert not any("opset" in action for action in prepared.actions)


def test_operators_of_inner_graphs_are_lifted() -> None:
    branches = {
        name: onnx.helper.make_graph(
            [
                node("Squeeze", ["h"], [f"{name}_s"], axes=[1]),
                node(last, [f"{name}_s"], [f"{name}_y"], axes=[0]),
            ],
            name,
            [],
            [onnx.helper.make_value_info(f"{name}_y", onnx.TypeProto())],
        )
        for name, last in (("then_branch", "ReduceSum"), ("else_branch", "ReduceMax"))
    }
    nodes = [node("Relu", ["x"], ["h"]), node("If", ["c"], ["y"], "choice", **branches)]
    for choice in (True, False):
        feeds = {"x": normal(1, 3, 1, 4), "c": np.array(choice)}
        proto = model(nodes, feeds, opset=11)
        prepared = prepare(proto).model
        lifted = onnx_ir.to_proto(prepared)
        onnx.checker.check_model(lifted, full_check=True)
        np.testing.assert_array_equal(run_proto(lifted, feeds)[0], run_proto(proto, feeds)[0])
