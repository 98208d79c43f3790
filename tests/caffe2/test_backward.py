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
