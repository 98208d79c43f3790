"""Nets, references, scopes and plans of the Python interface."""

from __future__ import annotations

from inspect import currentframe

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CUDA, IDEEP, NetDef
from netgrad.caffe2.python import brew, core, model_helper, scope, utils, workspace


@pytest.fixture
def net() -> core.Net:
    return core.Net("net_of_a_test")


def test_references_are_like_their_names() -> None:
    blob = core.BlobReference("a/x")
    assert blob == "a/x"
    assert blob == b"a/x"
    assert hash(blob) == hash("a/x")
    assert {blob: 1}["a/x"] == 1
    assert blob + "_grad" == "a/x_grad"
    assert "pre_" + blob == "pre_a/x"
    assert (blob.GetNameScope(), blob.GetUnscopedName(), repr(blob)) == ("a/", "x", 'BlobReference("a/x")')
    with pytest.raises(RuntimeError):
        blob + 1


def test_raw_names_get_the_scope_and_references_do_not() -> None:
    with core.NameScope("a"), core.NameScope("b"):
        op = core.CreateOperator("FC", ["x", core.BlobReference("w")], "y", axis=2, missing=None)
    assert list(op.input) == ["a/b/x", "w"]
    assert list(op.output) == ["a/b/y"]
    assert [(argument.name, argument.i) for argument in op.arg] == [("axis", 2)]
    with core.NameScope("a"), core.NameScope("c", reset=True):
        assert core.CurrentNameScope() == "c/"
    assert core.CurrentNameScope() == ""


def test_device_scopes_replace_each_other_but_keep_the_node() -> None:
    outer = core.DeviceOption(CUDA, 1, node_name="n0")
    with core.DeviceScope(outer), core.DeviceScope(core.DeviceOption(CUDA, 2)):
        op = core.CreateOperator("Relu", "x", "y")
        assert (op.device_option.device_id, op.device_option.node_name) == (2, "n0")
        with core.EmptyDeviceScope():
            assert not core.CreateOperator("Relu", "x", "y").HasField("device_option")
    assert core.CurrentDeviceScope() is None


@pytest.mark.parametrize(
    ("outputs", "expected"),
    [
        (None, ["net/Sum", "net/Sum_2", "net/Sum_3"]),
        (2, [("net/Sum:0", "net/Sum:1"), ("net/Sum_2:0", "net/Sum_2:1")]),
        (1, ["net/Sum:0", "net/Sum_2:0"]),
    ],
)
def test_automatic_names(net: core.Net, outputs: int | None, expected: list[object]) -> None:
    def name(given: object) -> object:
        return tuple(map(name, given)) if isinstance(given, tuple) else str(given).replace(net.Name(), "net")

    assert [name(net.Sum("x", outputs)) for _ in expected] == expected
    assert name(net.NextName()) == "net_blob_0"
    assert name(net.NextName("p", 3)) == "net/p:3"


def test_automatic_names_under_a_scope(net: core.Net) -> None:
    with core.NameScope("s"):
        assert net.Sum("x") == f"s/{net.Name()}/Sum"


def test_numbers_of_automatic_names_go_on(net: core.Net) -> None:
    """Recorded from the original: scopes share the numbers, and a name that was only asked for takes one."""
    net.Relu("x")
    assert [net.NextName("Relu")[-2:] for _ in range(2)] == ["_2", "_3"]
    with core.NameScope("a"):
        assert [str(net.Relu("x")).split("/")[-1] for _ in range(2)] == ["Relu", "Relu_4"]
    with core.NameScope("b"):
        assert [str(net.Relu("x")).split("/")[-1] for _ in range(2)] == ["Relu", "Relu_5"]
    assert str(net.Relu("x")).endswith("/Relu_6")


def test_an_automatic_name_is_found_in_few_looks(net: core.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the time to build a net grows linearly with its operators."""
    looks: list[object] = []
    look = core.Net.BlobIsDefined
    monkeypatch.setattr(core.Net, "BlobIsDefined", lambda own, blob: looks.append(blob) or look(own, blob))
    for _ in range(100):
        net.Relu("x")
    assert len(looks) <= 3 * 100


def test_new_blobs_never_repeat(net: core.Net) -> None:
    assert [str(net.NextBlob("b")) for _ in range(3)] == ["b", "b_auto_0", "b_auto_1"]


def test_what_nothing_writes_becomes_an_external_input(net: core.Net) -> None:
    net.Relu("x", "y")
    net.Mul(["y", "w"], "z")
    assert net.external_inputs == ["x", "w"]
    with pytest.raises(AssertionError):
        net.AddExternalInput("x")
    with pytest.raises(AttributeError, match="there is Relu"):
        net.Rellu("x", "y")


def test_names_of_nets_are_unique() -> None:
    first, second = core.Net("unique_name"), core.Net("unique_name")
    assert (first.Name(), second.Name()) == ("unique_name", "unique_name_1")
    assert core.Net(NetDef(name="unique_name")).Name() == "unique_name_2"


def test_gradients_are_appended(net: core.Net) -> None:
    loss = net.AveragedLoss(net.Relu("x", "y"), "loss")
    gradients = net.AddGradientOperators([loss])
    assert gradients["x"] == "x_grad"
    assert [op.type for op in net.Proto().op] == [
        "Relu",
        "AveragedLoss",
        "ConstantFill",
        "AveragedLossGradient",
        "ReluGradient",
    ]


def test_overwritten_values_are_kept_if_wanted(net: core.Net) -> None:
    net.Tanh("x", "h")
    net.Sqr("h", "s")
    net.Relu("q", "h")
    loss = net.SumElements("s", "loss")
    with pytest.raises(RuntimeError, match=r"(?s)version.*or pass overwritten='keep'"):
        net.AddGradientOperators([loss])
    gradients = net.AddGradientOperators([loss], overwritten="keep")
    x = np.array([0.5, -1.0], np.float32)
    for name in ("x", "q"):
        workspace.FeedBlob(name, x)
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("h"), [0.5, 0])
    slope = 2 * np.tanh(x) * (1 - np.tanh(x) ** 2)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), slope, rtol=1e-5)


def test_clones_rename_also_inside() -> None:
    net = core.Net("to_clone")
    net.Relu("x", "y")
    net.Sigmoid("y", "z")
    clone = net.Clone("cloned", {"x": "x2", "y": "y2"}, op_id_mask=[0])
    assert [(list(op.input), list(op.output)) for op in clone.Proto().op] == [(["x2"], ["y2"])]
    part, outputs = net.ClonePartial("part", {"y": "given"}, ["z"])
    assert [op.type for op in part.Proto().op] == ["Sigmoid"]
    assert outputs == ["part/z"]
    assert list(part.Proto().external_input) == ["given"]


def test_versions_as_scripts_count_them() -> None:
    net = core.Net("ssa")
    net.Relu("x", "x")
    net.Relu("x", "y")
    ssa, versions = core.get_ssa(net)
    assert ssa == [([("x", 0)], [("x", 1)]), ([("x", 1)], [("y", 1)])]
    assert versions == {"x": 1, "y": 1}
    assert core.get_undefined_blobs(ssa) == {"x"}
    assert core.get_op_ids_in_path(ssa, versions, [], ["x"]) == [0]
    assert core.get_op_ids_in_path(ssa, versions, ["x"], ["y"]) == [1]


def test_plans_collect_nets_in_the_order_of_use() -> None:
    first, second = core.Net("first_of_plan"), core.Net("second_of_plan")
    step = core.execution_step("s", [second, first], num_iter=3)
    plan = core.Plan("p")
    plan.AddStep(step)
    plan.AddStep(core.ExecutionStep("empty"))
    assert [net.Name() for net in plan.Nets()] == [second.Name(), first.Name()]
    assert len(plan.Proto().execution_step) == 1
    assert plan.Proto().execution_step[0].num_iter == 3
    with pytest.raises(AssertionError, match="may not be changed"):
        step.SetIter(4)


def test_makers_of_scripts_come_second() -> None:
    @core.GradientRegistry.RegisterGradient("OfATest")
    def _maker(op: object, g_output: list[object]) -> tuple[object, list[str]]:
        return core.CreateOperator("OfATestGradient", g_output, "x_grad"), ["x_grad"]

    @core.GradientRegistry.RegisterGradient("Relu")
    def _never(op: object, g_output: list[object]) -> tuple[object, list[str]]:
        raise AssertionError("netgrad has a maker for Relu")

    try:
        ops = [core.CreateOperator("OfATest", "x", "y"), core.CreateOperator("Relu", "y", "z")]
        written, gradients = core.GradientRegistry.GetBackwardPass(ops, {"z": "z_grad"})
    finally:
        del core.GradientRegistry.gradient_registry_["OfATest"]
        del core.GradientRegistry.gradient_registry_["Relu"]
    assert [op.type for op in written] == ["ReluGradient", "OfATestGradient"]
    assert not written[1].is_gradient_op
    assert gradients["x"] == "x_grad"


def test_operators_named_after_their_place() -> None:
    net = core.Net("net")
    net.Relu("x", "y")
    line = currentframe().f_lineno - 1  # type: ignore[union-attr]
    net.PopulateProtoWithFileName()
    assert net.Proto().op[0].name == f"{__file__}:{line}:test_operators_named_after_their_place"


def test_what_a_net_remembers_of_its_message() -> None:
    net = core.Net("net")
    net.Relu("x", "y")
    net._CheckLookupTables()
    net.Proto().op[0].output[0] = "z"
    net._CheckLookupTables()
    assert net.BlobIsDefined("z")
    assert not net.BlobIsDefined("y")
    net._net.op[0].output[0] = "u"
    with pytest.raises(AssertionError):
        net._CheckLookupTables()


def test_devices_of_a_net() -> None:
    net = core.Net("net")
    net.RunAllOnIDEEP()
    assert net.Proto().device_option.device_type == IDEEP


def test_a_part_that_would_produce_what_it_is_given() -> None:
    """What gives b is needed for c, and produces the given d too."""
    net = core.Net("net")
    net.Relu("a", "b")
    net.Relu("b", "c")
    net.Relu("b", "d")
    net.Sum(["c", "d"], "e")
    with pytest.raises(AssertionError, match="produce the inputs"):
        net.ClonePartial("part", ["a", "d"], ["e"])
    part, _ = net.ClonePartial("part", ["b"], ["e"])
    assert [op.type for op in part.Proto().op] == ["Relu", "Relu", "Sum"]


def test_an_operator_between_others() -> None:
    net = core.Net("rerouted")
    net.Conv(["image", "w", "b"], "conv")
    net.Relu("conv", "y")
    net.Sqr("conv", "z")
    net.AddExternalOutput(core.BlobReference("conv"))
    scaled = core.CreateOperator("Mul", ["conv", "scale"], ["scaled"])
    assert net.reroute_tensor("conv", scaled, [net.Proto().op[1]]) == 1
    assert [(op.type, list(op.input)) for op in net.Proto().op] == [
        ("Conv", ["image", "w", "b"]),
        ("Mul", ["conv", "scale"]),
        ("Relu", ["scaled"]),
        ("Sqr", ["conv"]),
    ]
    assert net.external_outputs == ["scaled"]
    assert net.external_inputs == ["image", "w", "b", "scale"]
    with pytest.raises(AssertionError, match="not taking in conv"):
        net.reroute_tensor("conv", core.CreateOperator("Relu", ["y"], ["u"]))
    net.Relu("y", "y")
    with pytest.raises(AssertionError, match="writes y more than once"):
        net.reroute_tensor("y", core.CreateOperator("Relu", ["y"], ["u"]))
    with pytest.raises(AssertionError, match="no place 9"):
        net.insert_op_at_idx(scaled, 9)


def test_texts_and_blobs_that_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    net = core.Net("net")
    number = net.Const(7)
    net.LogInfo("the number:", number)
    workspace.RunNetOnce(net)
    first, second = capsys.readouterr().out.strip().split("\n")
    assert first.endswith(": the number:")
    assert second.endswith(": 7")


def test_a_part_of_a_net_gets_the_ends_that_its_operators_have(net: core.Net) -> None:
    first, second = net.AddExternalInput("first", "second")
    joined, sizes = net.Concat([first, second], ["joined", "sizes"], axis=0)
    total = net.Sum([joined, "third"], "total")
    net.Sum([total, net.Copy(sizes, "copied")], "end")
    front = net.Clone("front", op_id_mask=[0, 1], update_external_list=True).Proto()
    assert list(front.external_input) == ["first", "second", "third"]
    assert list(front.external_output) == ["sizes", "total"]
    back = net.Clone("back", op_id_mask=[2, 3], update_external_list=True).Proto()
    assert list(back.external_input) == ["sizes", "total"]
    assert list(back.external_output) == ["end"]


def test_a_net_may_take_a_message_over() -> None:
    message = NetDef(name="taken", external_input=["x"])
    copied, taken = core.Net(message), core.Net(message, inplace=True)
    assert taken.Proto() is message
    taken.Relu("x", "y")
    assert [op.type for op in message.op] == ["Relu"]
    assert not copied.Proto().op


def test_step_nets_go_to_the_device_of_their_net(net: core.Net) -> None:
    step = core.Net("step")
    step.Relu("x", "h")
    net.RecurrentNetwork(["x"], ["h"], step_net=step.Proto())
    net.RunAllOnGPU(gpu_id=3, use_cudnn=True)
    inner = net.Proto().op[0].arg[0].n
    for each in (net.Proto(), inner):
        assert (each.device_option.device_type, each.device_option.device_id) == (CUDA, 3)
    assert inner.op[0].engine == "CUDNN"


def test_additions_of_gradients_may_leave_out_the_notes_of_their_device() -> None:
    for notes, kept in [
        (["shard:1"], ["shard:1", "is_auto_gen_sum_ops:1"]),
        (None, ["is_auto_gen_sum_ops:1"]),
    ]:
        notes = notes or ["shard:1", f"{core.IR.ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG}:1"]
        device = core.DeviceOption(CUDA, 2, extra_info=notes)
        operators = [
            core.CreateOperator("Relu", "x", "a", device_option=device),
            core.CreateOperator("Tanh", "x", "b", device_option=device),
            core.CreateOperator("Mul", ["a", "b"], "y", device_option=device),
        ]
        written, _ = core.GradientRegistry.GetBackwardPass(operators, {"y": "y_grad"})
        option = written[-1].device_option
        assert (written[-1].type, option.device_type, option.device_id) == ("Sum", CUDA, 2)
        assert list(option.extra_info) == kept


def test_scopes_inherit_notes_and_may_be_left() -> None:
    with core.DeviceScope(core.DeviceOption(0, extra_info=["b:2"])), core.NameScope("outer"):
        with core.DeviceScope(core.DeviceOption(CUDA, extra_info=["a:1", "b:2"])):
            option = scope.CurrentDeviceScope()
            assert option is not None
            assert (option.device_type, list(option.extra_info)) == (CUDA, ["a:1", "b:2"])
        with scope.EmptyNameScope():
            assert scope.CurrentNameScope() == ""
        assert scope.CurrentNameScope() == "outer/"


def test_a_model_is_one_net_and_two_again() -> None:
    model = model_helper.ModelHelper("whole")
    brew.fc(model, "x", "y", dim_in=3, dim_out=2)
    model.net.Proto().type = "dag"
    complete = model.GetCompleteNet()
    assert [op.type for op in complete.Proto().op] == ["XavierFill", "ConstantFill", "FC"]
    other = model_helper.ModelHelper("other")
    other.ConstructInitTrainNetfromNet(complete)
    assert [op.type for op in other.InitProto().op] == ["XavierFill", "ConstantFill"]
    assert list(other.InitProto().external_output) == ["y_w", "y_b"]
    assert list(other.net.Proto().op) == list(model.net.Proto().op)
    assert list(other.Proto().external_input) == ["x", "y_w", "y_b"]
    assert other.Proto().type == complete.Proto().type == "dag"


def test_parameters_may_be_appended_by_a_script() -> None:
    model = model_helper.ModelHelper("appended")
    weights = model.param_init_net.ConstantFill([], "w", shape=[2], value=0.0)
    model.params.append(weights)
    model.net.AveragedLoss(model.net.Mul([weights, "x"], "product"), "loss")
    model.AddGradientOperators(["loss"])
    (info,) = model.GetOptimizationParamInfo()
    assert (info.name, info.grad) == ("w", "w_grad")


def test_values_of_arguments_are_lists() -> None:
    arguments = [utils.MakeArgument("many", [3, 4]), utils.MakeArgument("one", 1.5)]
    assert utils.ArgsToDict(arguments) == {"many": [3, 4], "one": 1.5}


def test_the_counter_of_iterations_stays_on_the_processor() -> None:
    init, counted = core.Net("init"), core.Net("counted")
    with core.DeviceScope(core.DeviceOption(CUDA, 1)):
        utils.BuildUniqueMutexIter(init, counted)
    for op in [*init.Proto().op, *counted.Proto().op]:
        assert (op.device_option.device_type, list(op.device_option.extra_info)) == (
            0,
            ["device_type_override:cpu"],
        )
