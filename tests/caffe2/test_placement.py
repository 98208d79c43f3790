"""Plans from messages, devices of blobs, and nets bound to other blobs."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2 import caffe2_pb2
from netgrad.caffe2.python import control, core, workspace


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
    bound, names = core.clone_and_bind_net(net, "bound", "own/", {"y": "result"})
    assert [list(op.output) for op in bound.Proto().op] == [["own/h"], ["result"], ["own/y_cpu"]]
    assert list(bound.Proto().op[0].input) == ["x"]
    assert names == {"x": "x", "h": "own/h", "y": "result", "y_cpu": "own/y_cpu"}


GPU = core.DeviceOption(caffe2_pb2.CUDA, 1)


def _listed(net: core.Net) -> list[tuple[str, list[str], list[str]]]:
    return [(op.type, list(op.input), list(op.output)) for op in net.Proto().op]


def test_copies_where_an_operator_reads_from_another_device() -> None:
    init_net, net = core.Net("init"), core.Net("net")
    weight, bias = init_net.XavierFill([], "w", shape=[3, 4]), init_net.ConstantFill([], "b", shape=[3])
    with core.DeviceScope(GPU):
        net.FC(["data", weight, bias], "y")
        net.FC(["y", weight, bias], "z")
    net.Relu("z", "u")
    _, devices = core.InjectCrossDeviceCopies(init_net)
    placed, devices = core.InjectCrossDeviceCopies(net, devices)
    assert placed.Name() == f"{net.Name()}_cross_device"
    assert _listed(placed) == [
        ("CopyCPUToGPU", ["data"], ["data_cuda_1"]),
        ("CopyCPUToGPU", ["w"], ["w_cuda_1"]),
        ("CopyCPUToGPU", ["b"], ["b_cuda_1"]),
        ("FC", ["data_cuda_1", "w_cuda_1", "b_cuda_1"], ["y"]),
        ("FC", ["y", "w_cuda_1", "b_cuda_1"], ["z"]),
        ("CopyGPUToCPU", ["z"], ["z_cpu"]),
        ("Relu", ["z_cpu"], ["u"]),
    ]
    assert placed.Proto().op[0].device_option == GPU
    assert devices["w_cuda_1"] == GPU
    assert devices["w"] != GPU
    assert [op.type for op in net.Proto().op] == ["FC", "FC", "Relu"]


def test_nets_share_their_copies() -> None:
    init_net, first, second = core.Net("init"), core.Net("first"), core.Net("second")
    weight = init_net.XavierFill([], "w", shape=[3, 4])
    for net, name in ((first, "y"), (second, "z")):
        with core.DeviceScope(GPU):
            net.Sqr(weight, name)
    nets, devices = core.InjectDeviceCopiesAmongNets([init_net, first, second])
    assert _listed(nets[1]) == [
        ("CopyCPUToGPU", ["w"], ["w_cuda_1"]),
        ("Sqr", ["w_cuda_1"], ["y"]),
    ]
    assert _listed(nets[2]) == [("Sqr", ["w_cuda_1"], ["z"])]
    assert list(nets[2].Proto().external_input) == ["w", "w_cuda_1"]
    assert devices["z"] == GPU
    with pytest.raises(AssertionError, match="list of nets"):
        core.InjectDeviceCopiesAmongNets(first)  # type: ignore[arg-type]


def test_a_value_that_is_written_again_is_copied_again() -> None:
    """In one net and in its next run; what is written on a copy comes back."""
    net = core.Net("net")
    with core.DeviceScope(GPU):
        net.Scale("w", "a", scale=10.0)
    net.Scale("w", "w", scale=2.0)
    with core.DeviceScope(GPU):
        net.Scale("w", "b", scale=10.0)
        net.Scale("w", "w", scale=3.0)
    net.Scale("w", "c", scale=10.0)
    with core.DeviceScope(GPU):
        net.Scale("w", "w", scale=5.0)
    (placed,), _ = core.InjectDeviceCopiesAmongNets([net])
    for run, start in enumerate((1.0, 30.0)):
        if run == 0:
            workspace.FeedBlob("w", np.ones(1, np.float32))
            workspace.CreateNet(placed)
        workspace.RunNet(placed)
        found = [float(workspace.FetchBlob(name)[0]) for name in ("a", "b", "c", "w")]
        assert found == [10 * start, 20 * start, 60 * start, 30 * start]


def test_stand_ins_and_processors_get_no_copies() -> None:
    init_net, net = core.Net("init"), core.Net("net")
    with core.DeviceScope(0, node_name="node:0"):
        init_net.XavierFill([], "w", shape=[10, 100])
    net.Proto().external_input.append("w")
    with core.DeviceScope(0, node_name="node:0"):
        net.Proto().op.append(core.CreateOperator("Sends", ["w"], [], dst_node="node:1"))
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, 3), node_name="node:1"):
        net.Proto().op.append(core.CreateOperator("Receives", [], ["w_there"], src_node="node:0"))
        net.Sqr("w_there", "y")
    stand_ins = ["Sends", "Receives"]
    _, devices = core.InjectCrossDeviceCopies(init_net, placeHolderOps=stand_ins)
    placed, _ = core.InjectCrossDeviceCopies(net, devices, placeHolderOps=stand_ins)
    assert list(placed.Proto().op) == list(net.Proto().op)
    assert placed.Proto().op[0].device_option.node_name == "node:0"


def test_blobs_of_two_devices_are_refused() -> None:
    net = core.Net("net")
    net.Relu("x", "y")
    with core.DeviceScope(GPU):
        net.Relu("on_gpu", "y")
    with pytest.raises(RuntimeError, match="In-place blob: y"):
        core.InjectCrossDeviceCopies(net)


@pytest.mark.parametrize(
    ("op_type", "inputs", "outputs", "reads", "writes"),
    [
        ("EnsureCPUOutput", ["x"], ["y"], [GPU], [core.DeviceOption(0)]),
        ("CopyFromCPUInput", ["x"], ["y"], [core.DeviceOption(0)], [GPU]),
        ("Concat", ["x", "z"], ["y", "sizes"], [GPU, GPU], [GPU, core.DeviceOption(0)]),
        ("Split", ["x", "sizes"], ["y", "z"], [GPU, core.DeviceOption(0)], [GPU, GPU]),
        ("LearningRate", ["iteration"], ["rate"], [core.DeviceOption(0)], [GPU]),
    ],
)
def test_what_is_on_the_processor(
    op_type: str,
    inputs: list[str],
    outputs: list[str],
    reads: list[caffe2_pb2.DeviceOption],
    writes: list[caffe2_pb2.DeviceOption],
) -> None:
    op = core.CreateOperator(op_type, inputs, outputs, device_option=GPU)
    found = core.InferOpBlobDevices(op)
    for options, expected in zip(found, (reads, writes), strict=True):
        assert [option.device_type for option in options] == [option.device_type for option in expected]


def test_stand_ins_send_and_receive_copies() -> None:
    gpu = core.DeviceOption(caffe2_pb2.CUDA, 0)
    init_net, net = core.Net("init"), core.Net("net")
    with core.DeviceScope(gpu):
        init_net.XavierFill([], "w", shape=[10, 100])
    init_net.Proto().op.append(core.CreateOperator("Sends", ["w"], []))
    net.Proto().op.append(core.CreateOperator("Receives", [], ["w"]))
    net.Sqr("w", "y")
    with core.DeviceScope(gpu):
        net.Sqr("w", "z")
    stand_ins = ["Sends", "Receives"]
    sent, devices = core.InjectCrossDeviceCopies(init_net, placeHolderOps=stand_ins)
    assert _listed(sent)[1:] == [("CopyGPUToCPU", ["w"], ["w_cpu"]), ("Sends", ["w_cpu"], [])]
    received, _ = core.InjectCrossDeviceCopies(net, devices, placeHolderOps=stand_ins)
    assert _listed(received) == [
        ("Receives", [], ["w_cpu"]),
        ("Sqr", ["w_cpu"], ["y"]),
        ("CopyCPUToGPU", ["w_cpu"], ["w"]),
        ("Sqr", ["w"], ["z"]),
    ]
