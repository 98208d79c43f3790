"""Plans from messages, devices of blobs, and nets bound to other blobs."""

from __future__ import annotations

import pytest

from netgrad.caffe2 import caffe2_pb2
from netgrad.caffe2.python import control, core


def _net(name: str, read: str, written: str) -> core.Net:
    net = core.Net(name)
    net.Relu(read, written)
    return net


def test_plans_from_messages() -> None:
    plan = core.Plan("p")
    plan.AddStep(control.For("loop", [_net("a", "x", "y")], 3))
    again = core.Plan.create_from_proto(plan.Proto())
    assert [step.Name() for step in again.Steps()] == [step.Name() for step in plan.Steps()]
    assert again.Proto().execution_step[0].num_iter == 3
    assert again.Nets()[0].Proto().op == plan.Nets()[0].Proto().op
    message = plan.Proto()
    del message.network[:]
    with pytest.raises(AssertionError, match="is not there"):
        core.Plan.create_from_proto(message)


def test_devices_and_bound_copies() -> None:
    cpu, gpu = core.DeviceOption(0), core.DeviceOption(1, 2)
    net = core.Net("placed")
    with core.DeviceScope(gpu):
        net.Relu("x", "h")
    net.Relu("h", "y")
    assert core.InferBlobDevices(net)["h"] == gpu
    assert core.InferOpBlobDevicesAsDict(
        core.CreateOperator("CopyGPUToCPU", "a", "b", device_option=gpu)
    ) == (
        {"a": gpu},
        {"b": caffe2_pb2.DeviceOption(device_type=0)},
    )
    assert core.copy_func_between_devices(cpu, cpu) is None
    copy = core.copy_func_between_devices(gpu, cpu)
    assert copy is not None
    copy(net, "y", "y_cpu")
    assert net.Proto().op[-1].type == "CopyGPUToCPU"
    assert net.Proto().op[-1].device_option == gpu
    bound = core.clone_and_bind_net(net, "bound", "own/", {"y": "result"})
    assert [list(op.output) for op in bound.Proto().op] == [["own/h"], ["result"], ["own/y_cpu"]]
    assert list(bound.Proto().op[0].input) == ["x"]
