"""The backward pass over operator definitions."""

from __future__ import annotations

from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.caffe2_pb2 import DeviceOption, OperatorDef
from netgrad.caffe2.python import core


def test_gradient_operators_are_marked_and_carry_arguments_engine_and_device() -> None:
    forward = OperatorDef(type="FC", input=["x", "w", "b"], output=["y"], engine="DEFAULT")
    forward.arg.add(name="axis", i=1)
    forward.device_option.CopyFrom(DeviceOption(device_type=1, device_id=2))
    operators, result = differentiate([forward], {"y": "y_grad"})

    expected = OperatorDef(
        type="FCGradient",
        name="",
        input=["x", "w", "y_grad"],
        output=["w_grad", "b_grad", "x_grad"],
        is_gradient_op=True,
        engine="DEFAULT",
    )
    expected.arg.add(name="axis", i=1)
    expected.device_option.CopyFrom(DeviceOption(device_type=1, device_id=2))
    assert operators == [expected]
    assert dict(result.gradients) == {"y": "y_grad", "x": "x_grad", "w": "w_grad", "b": "b_grad"}


def test_an_operator_in_place_reads_its_own_output() -> None:
    forward = [
        OperatorDef(type="FC", input=["x", "w", "b"], output=["y"]),
        OperatorDef(type="Relu", input=["y"], output=["y"]),
    ]
    operators, _ = differentiate(forward, ["y"])
    assert [op.type for op in operators] == ["ConstantFill", "ReluGradient", "FCGradient"]
    assert list(operators[1].input) == ["y", "y_autogen_grad"]


def test_a_maker_that_ends_gradients_silently_can_be_asked_by_itself() -> None:
    for outputs in (["x"], ["y"]):
        op = core.CreateOperator("StopGradient", ["x"], outputs)
        assert core.GradientRegistry.GetGradientForOp(op, ["g"]) == ([], [None])


def test_gradients_of_a_blob_that_is_read_twice_come_as_they_are_written() -> None:
    forward = OperatorDef(type="FC", input=["w", "x", "w"], output=["y"])
    operators, result = differentiate([forward], {"y": "y_grad"})
    assert list(operators[0].output) == ["x_grad", "w_grad", "_w_grad_autosplit_0"]
    assert list(operators[1].input) == ["w_grad", "_w_grad_autosplit_0"]
    assert dict(result.gradients) == {"y": "y_grad", "w": "w_grad", "x": "x_grad"}


def test_sums_and_differences_may_overwrite_what_they_add() -> None:
    for type_, inputs in (("Add", ["x", "y"]), ("Sub", ["y", "x"]), ("Add", ["x", "x"])):
        operators, _ = differentiate([OperatorDef(type=type_, input=inputs, output=["x"])], {"x": "g"})
        assert operators[0].type == f"{type_}Gradient"
        assert list(operators[0].input) == ["g", *inputs]
