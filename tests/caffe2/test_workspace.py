"""Blobs, nets and training in workspaces, through the interface of scripts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.python import core, utils, workspace
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.parts import LoweredPart

TYPES = ["float16", "float32", "float64", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16"]


# ---- blobs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(2, 3), (), (2, 0, 3)])
def test_what_is_fed_is_fetched(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.random.default_rng(0).normal(size=shape) * 5).astype(dtype)
    assert workspace.FeedBlob("x", array)
    fetched = workspace.FetchBlob("x")
    assert (fetched.dtype, fetched.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(fetched, array)


def test_feeding_and_fetching_copy() -> None:
    array = np.zeros(3, np.float32)
    workspace.FeedBlob("x", array)
    array[:] = 1
    workspace.FetchBlob("x")[:] = 2
    np.testing.assert_array_equal(workspace.FetchBlob("x"), np.zeros(3))


def test_texts() -> None:
    workspace.FeedBlob("one", b"a \0 text")
    assert workspace.FetchBlob("one") == b"a \0 text"
    workspace.FeedBlob("many", np.array([b"ab", b"cde"]))
    many = workspace.FetchBlob("many")
    assert many.dtype == object
    assert list(many) == [b"ab", b"cde"]
    assert workspace.GetBlobSizeBytes("many") - 5 == 2 * workspace.GetBlobSizeBytes("many") // 2 - 5


def test_numbers_as_texts() -> None:
    workspace.FeedBlob("x", np.array([[1, -20]], np.int32))
    workspace.RunOperatorOnce(core.CreateOperator("Cast", "x", "y", to=core.DataType.STRING))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), np.array([[b"1", b"-20"]], object))


@pytest.mark.parametrize("dtype", ["bool", "int8", "int16", "uint8", "uint16", "float16", "float64"])
def test_masks_of_all_types_are_undone(dtype: str) -> None:
    rows = np.array([[1, 0], [0, 3], [5, 1]]).astype(dtype)
    masks = np.array([[True, False, True], [False, True, False]])
    for name, array in {"m": masks[0], "x": rows[masks[0]], "o": masks[1], "w": rows[masks[1]]}.items():
        workspace.FeedBlob(name, array)
    workspace.RunOperatorOnce(core.CreateOperator("BooleanUnmask", ["m", "x", "o", "w"], "y"))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), rows)


def test_messages_can_be_fed() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    workspace.FeedBlob("x", utils.NumpyArrayToCaffe2Tensor(array))
    np.testing.assert_array_equal(workspace.FetchBlob("x"), array)


def test_unknown_blobs() -> None:
    assert not workspace.HasBlob("x")
    workspace.FeedBlob("weight", np.zeros(1))
    for error in (RuntimeError, KeyError):
        with pytest.raises(error, match="Can't find blob: weigth; did you mean 'weight'"):
            workspace.FetchBlob("weigth")
    with pytest.raises(RuntimeError, match="element type complex128"):
        workspace.FeedBlob("x", np.zeros(1, np.complex128))


def test_names_are_taken_as_they_are() -> None:
    with core.NameScope("scope"):
        workspace.FeedBlob("x", np.zeros(1))
        assert workspace.GetNameScope() == "scope/"
    assert workspace.Blobs() == ["x"]


def test_blobs_are_a_mapping() -> None:
    workspace.blobs["x"] = np.ones(2)
    workspace.CreateBlob("empty")
    assert "x" in workspace.blobs
    assert core.BlobReference("x") in workspace.blobs
    assert "y" not in workspace.blobs
    assert list(workspace.blobs) == ["empty", "x"]
    np.testing.assert_array_equal(workspace.blobs[core.BlobReference("x")], np.ones(2))
    assert workspace.FetchBlobs(["x", "empty"])[1] == (
        b"empty, a C++ native class of type nullptr (uninitialized)."
    )
    workspace.ResetBlob("x")
    assert b"nullptr" in workspace.FetchBlob("x")
    del workspace.blobs["x"]
    assert len(workspace.blobs) == 1


@pytest.mark.parametrize("value", [np.ones((2, 3), np.float32), np.array([b"a", b"bc"], object), b"text"])
def test_serialized_blobs(value: Any) -> None:
    workspace.FeedBlob("x", value)
    workspace.DeserializeBlob("y", workspace.SerializeBlob("x"))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), value)


# ---- workspaces --------------------------------------------------------------------------------------


def test_switching_workspaces() -> None:
    workspace.FeedBlob("x", np.zeros(1))
    workspace.SwitchWorkspace("another", True)
    assert not workspace.HasBlob("x")
    workspace.FeedBlob("y", np.zeros(1))
    assert workspace.CurrentWorkspace() == "another"
    workspace.SwitchWorkspace("default")
    assert workspace.Blobs() == ["x"]
    with workspace.WorkspaceGuard("another"):
        assert workspace.Blobs() == ["y"]
    assert workspace.CurrentWorkspace() == "default"
    assert {"default", "another"} <= set(workspace.Workspaces())
    with pytest.raises(RuntimeError, match=r"'anothr' does not exist; did you mean 'another'\?"):
        workspace.SwitchWorkspace("anothr")
    workspace.ResetWorkspace()
    assert workspace.Blobs() == []


def test_root_folder(tmp_path: Any) -> None:
    assert workspace.RootFolder() == "."
    assert workspace.ResetWorkspace(str(tmp_path / "new"))
    assert workspace.RootFolder() == str(tmp_path / "new")
    assert (tmp_path / "new").is_dir()


def test_workspaces_as_objects() -> None:
    own = workspace.C.Workspace()
    net = core.Net("own")
    net.ConstantFill([], "filled", shape=[2], value=3.0)
    own.run(net)
    np.testing.assert_array_equal(own.blobs["filled"].fetch(), [3, 3])
    tensor = own.create_blob("t").tensor if own.create_blob("t").feed(np.array([1.5, 2.5])) else None
    assert tensor is not None
    tensor().data[0] = 3.5
    np.testing.assert_array_equal(own.fetch_blob("t"), [3.5, 2.5])
    tensor().init([2, 3], core.DataType.INT32)
    assert own.fetch_blob("t").shape == (2, 3)
    with pytest.raises(RuntimeError):
        tensor().init([1], core.DataType.STRING)
    assert "filled" not in workspace.C.Workspace.current.blobs


# ---- nets --------------------------------------------------------------------------------------------


def _sum_net() -> core.Net:
    net = core.Net("sum")
    net.Sum(["x", "x"], "y")
    return net


def test_a_net_is_created_and_run() -> None:
    workspace.FeedBlob("x", np.ones(2, np.float32))
    net = _sum_net()
    workspace.CreateNet(net)
    assert workspace.HasBlob("y")
    assert workspace.RunNet(net.Name())
    workspace.FeedBlob("x", np.full(3, 2, np.float32))
    assert workspace.RunNet(net, 2)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), np.full(3, 4))
    with pytest.raises(RuntimeError, match="duplicate net"):
        workspace.CreateNet(net)
    assert workspace.CreateNet(net, overwrite=True)


def test_serialized_nets_and_operators_run() -> None:
    net = core.Net("serialized")
    net.ConstantFill([], "x", shape=[1, 2], value=1.0)
    assert workspace.RunOperatorOnce(net.Proto().op[0].SerializeToString())
    workspace.ResetWorkspace()
    assert workspace.RunNetOnce(net.Proto().SerializeToString())
    np.testing.assert_array_equal(workspace.FetchBlob("x"), np.ones((1, 2)))


def test_what_a_net_needs() -> None:
    net = _sum_net()
    with pytest.raises(RuntimeError, match="op Sum: Encountered a non-existing input blob: x"):
        workspace.CreateNet(net)
    workspace.CreateNet(net, input_blobs=["x"])
    with pytest.raises(RuntimeError, match="reads blob 'x', which nothing has been written to"):
        workspace.RunNet(net)
    with pytest.raises(RuntimeError, match="Can't find net: nothing"):
        workspace.RunNet("nothing")
    assert not workspace.RunNet(net, allow_fail=True)


def test_what_a_net_declares() -> None:
    proto = _sum_net().Proto()
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.FeedBlob("z", np.ones(2, np.float32))
    proto.external_output.append("nothing")
    with pytest.raises(RuntimeError, match="declares outputs that none of its operators writes: nothing"):
        workspace.RunNetOnce(proto)
    del proto.external_output[:]
    proto.op[0].input.append("z")
    with pytest.raises(RuntimeError, match="op Sum: Source for input z is unknown for net sum"):
        workspace.RunNetOnce(proto)


def test_errors_name_the_operator() -> None:
    with pytest.raises(RuntimeError, match="operator of type 'Summ'"):
        workspace.RunOperatorOnce(core.CreateOperator("Summ", [], "y"))
    workspace.FeedBlob("x", np.ones((2, 3), np.float32))
    workspace.FeedBlob("w", np.ones((4, 5), np.float32))
    with pytest.raises(RuntimeError, match=r"MatMul\(x, w\) -> \(y\)"):
        workspace.RunOperatorOnce(core.CreateOperator("MatMul", ["x", "w"], "y"))
    with pytest.raises(RuntimeError, match=r"Allreduce\(x\) -> \(y\).*no lowering"):
        workspace.RunOperatorOnce(core.CreateOperator("Allreduce", "x", "y"))
    workspace.FeedBlob("texts", np.array([b"a"]))
    with pytest.raises(RuntimeError, match="computes with numbers, and reads 'texts'"):
        workspace.RunOperatorOnce(core.CreateOperator("Relu", "texts", "y"))


def test_a_failing_operator_is_shown_where_it_was_created(capsys: pytest.CaptureFixture[str]) -> None:
    net = core.Net("failing")
    net.Copy("x", "y")
    net.MatMul(["y", "w"], "z")
    net.Copy("z", "u")
    workspace.FeedBlob("x", np.ones((2, 3), np.float32))
    workspace.FeedBlob("w", np.ones((4, 5), np.float32))
    with pytest.raises(RuntimeError, match=r"MatMul\(y, w\) -> \(z\)"):
        workspace.RunNetOnce(net)
    shown = capsys.readouterr().err
    assert f"operator 1 in network `{net.Name()}`" in shown
    assert shown.rstrip().endswith("in test_a_failing_operator_is_shown_where_it_was_created")
    files = [place[0] for place in workspace.operator_tracebacks[net.Name()][1]]
    assert files[0] == __file__


def test_in_place_operators_run_in_order() -> None:
    net = core.Net("in_place")
    net.Copy("x", "before")
    net.Scale("x", "x", scale=2.0)
    net.Sum(["x", "before"], "x")
    net.Relu("x", "after")
    workspace.FeedBlob("x", np.array([1.0, -1.0], np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [3, -3])
    np.testing.assert_array_equal(workspace.FetchBlob("before"), [1, -1])
    np.testing.assert_array_equal(workspace.FetchBlob("after"), [3, 0])


def test_batches_of_other_sizes_reuse_the_model() -> None:
    net = core.Net("batches")
    net.FC(["x", "w", "b"], "y")
    net.AddGradientOperators(["y"])
    workspace.FeedBlob("w", np.ones((2, 3), np.float32))
    workspace.FeedBlob("b", np.zeros(2, np.float32))
    for rows in (4, 7, 1):
        workspace.FeedBlob("x", np.ones((rows, 3), np.float32))
        if rows == 4:
            workspace.CreateNet(net)
        workspace.RunNet(net)
        np.testing.assert_array_equal(workspace.FetchBlob("w_grad"), np.full((2, 3), rows))
    (part,) = current().net(net.Name()).parts
    assert isinstance(part, LoweredPart)
    assert part.compiled == 1


def test_operators_that_need_shapes_of_computed_values() -> None:
    """The number of slopes is known only after Unique has run."""
    net = core.Net("slopes")
    rows, _ = net.Unique("i", ["rows", "places"])
    net.PRelu(["x", net.Gather(["w", rows], "slopes")], "y")
    x = np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32)
    w = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("w", w)
    for indices in ([3, 0, 1, 0], [2, 3, 2, 0]):
        workspace.FeedBlob("i", np.array(indices, np.int64))
        workspace.RunNetOnce(net)
        slopes = w[sorted(set(indices))][:, None]
        np.testing.assert_allclose(workspace.FetchBlob("y"), np.where(x > 0, x, x * slopes), rtol=1e-6)


@pytest.mark.parametrize("seed", [None, 7])
def test_draws_repeat_with_a_seed_only(seed: int | None) -> None:
    options = {} if seed is None else {"random_seed": seed}
    draw = core.CreateOperator("UniformFill", [], "x", shape=[20], **options)
    drawn = []
    for _ in range(2):
        workspace.RunOperatorOnce(draw)
        drawn.append(workspace.FetchBlob("x"))
    assert np.array_equal(*drawn) == (seed is not None)
    net = core.Net("draws")  # a net that is kept goes on with its numbers
    net.UniformFill([], "x", shape=[20], **options)
    workspace.CreateNet(net)
    for _ in range(2):
        workspace.RunNet(net)
        drawn.append(workspace.FetchBlob("x"))
    assert not np.array_equal(*drawn[2:])


def test_toy_regression() -> None:
    """The tutorial: y = w x + b with noise, learned by WeightedSum steps under a falling rate."""
    init = core.Net("toy_init")
    w = init.UniformFill([], "W", shape=[1, 2], min=-1.0, max=1.0)
    b = init.ConstantFill([], "B", shape=[1], value=0.0)
    w_true = init.GivenTensorFill([], "W_gt", shape=[1, 2], values=[2.0, 1.5])
    b_true = init.GivenTensorFill([], "B_gt", shape=[1], values=[0.5])
    one = init.ConstantFill([], "ONE", shape=[1], value=1.0)
    iteration = init.ConstantFill([], "ITER", shape=[1], value=0, dtype=core.DataType.INT64)

    train = core.Net("toy_train")
    x = train.GaussianFill([], "X", shape=[64, 2], mean=0.0, std=1.0)
    y_true = x.FC([w_true, b_true], "Y_gt")
    noise = train.GaussianFill([], "noise", shape=[64, 1], mean=0.0, std=0.01)
    y_noise = y_true.Add(noise, "Y_noise").StopGradient([], "Y_noise")
    prediction = x.FC([w, b], "Y_pred")
    distance = train.SquaredL2Distance([y_noise, prediction], "dist")
    loss = distance.AveragedLoss([], ["loss"])
    gradients = train.AddGradientOperators([loss])
    train.Iter(iteration, iteration)
    rate = train.LearningRate(iteration, "LR", base_lr=-0.1, policy="step", stepsize=20, gamma=0.9)
    for parameter in (w, b):
        train.WeightedSum([parameter, one, gradients[parameter], rate], parameter)

    workspace.RunNetOnce(init)
    workspace.CreateNet(train)
    for _ in range(100):
        workspace.RunNet(train)
    np.testing.assert_allclose(workspace.FetchBlob("W"), [[2.0, 1.5]], atol=0.02)
    np.testing.assert_allclose(workspace.FetchBlob("B"), [0.5], atol=0.02)
    assert workspace.FetchBlob("ITER") == 100
    np.testing.assert_allclose(workspace.FetchBlob("LR"), -0.1 * 0.9**5, rtol=1e-6)


def test_shapes_and_types() -> None:
    net = core.Net("shapes")
    net.FC(["x", "w", "b"], "y")
    net.Relu("y", "z")
    net.Cast("z", "n", to=core.DataType.INT32)
    dimensions = {"x": [5, 3], "w": [2, 3], "b": [2]}
    shapes, types = workspace.InferShapesAndTypes([net], dimensions)
    assert (shapes["y"], shapes["z"], shapes["n"]) == ([5, 2], [5, 2], [5, 2])
    assert (types["z"], types["n"]) == (TensorProto.FLOAT, TensorProto.INT32)
    workspace.FeedBlob("x", np.zeros((4, 3), np.float32))
    workspace.FeedBlob("w", np.zeros((2, 3), np.float32))
    shapes, _ = workspace.InferShapesAndTypes([net])
    assert shapes == {"x": [4, 3], "w": [2, 3]}
    net = core.Net("hashes")
    net.IndexHash("i", "h", modulo=7)
    shapes, types = workspace.InferShapesAndTypes([net], {"i": [3, 2]}, blob_types={"i": TensorProto.INT32})
    assert (shapes["h"], types["h"]) == ([3, 2], TensorProto.INT32)
    net = core.Net("ranges")
    net.GatherRanges(["x", "r"], ["v", "n"])
    net.GatherRangesToDense(["x", "r"], ["a", "b"], lengths=[4, 6])
    numbers = {"x": TensorProto.INT64, "r": TensorProto.INT32}
    shapes, types = workspace.InferShapesAndTypes([net], {"x": [64], "r": [3, 2, 2]}, blob_types=numbers)
    assert (shapes["v"], types["v"], shapes["n"], types["n"]) == (
        [64],
        TensorProto.INT64,
        [3],
        TensorProto.INT32,
    )
    assert (shapes["a"], shapes["b"], types["a"]) == ([3, 4], [3, 6], TensorProto.INT64)
    top = core.Net("top")
    top.TopK(["x"], ["values", "places"], k=2)
    _, types = workspace.InferShapesAndTypes([top])
    assert types["places"] == TensorProto.INT32  # as the original states it; it writes int64
    workspace.RunNetOnce(top)
    assert workspace.FetchBlob("places").dtype == np.int64


_ROW = np.array([[0.0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 1, 2]], np.float32)
_BYTES = np.zeros((5, 14), np.uint8)


@pytest.mark.parametrize(
    ("type_", "given", "arguments", "shapes"),
    [
        ("Reshape", [np.zeros((4, 26, 32), np.float32)], {"shape": [8, 0, -1, 2]}, [(8, 26, 8, 2), (3,)]),
        ("Unique", [np.array([], np.int64)], {}, [(0,), (0,)]),
        ("Unique", [np.array([7], np.int64)], {}, [(1,), (1,)]),
        (
            "LengthsPad",
            [np.zeros((6, 3), np.float32), np.array([1, 2, 3], np.int32)],
            {"target_length": 10},
            [(30, 3)],
        ),
        ("DotProductWithPadding", [np.ones(4, np.float32), np.ones(4, np.float32)], {}, [(4,)]),
        ("FloatToFused8BitRowwiseQuantized", [_ROW], {}, [(2, 14)]),
        ("HalfFloatToFused8BitRowwiseQuantized", [_ROW.astype(np.float16)], {}, [(2, 14)]),
        ("FloatToFused8BitRowwiseQuantizedHalfScaleBias", [_ROW], {}, [(2, 10)]),
        ("HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias", [_ROW.astype(np.float16)], {}, [(2, 10)]),
        ("Fused8BitRowwiseQuantizedToFloat", [_BYTES], {}, [(5, 6)]),
        ("Fused8BitRowwiseQuantizedToHalfFloat", [_BYTES], {}, [(5, 6)]),
        ("Fused8BitRowwiseQuantizedHalfScaleBiasToFloat", [_BYTES], {}, [(5, 10)]),
        ("Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat", [_BYTES], {}, [(5, 10)]),
        ("FloatToRowwiseQuantized8Bits", [_ROW], {}, [(2, 6), (2, 2)]),
        ("FloatToFused4BitRowwiseQuantized", [_ROW], {}, [(2, 7)]),
        ("Fused4BitRowwiseQuantizedToFloat", [_BYTES], {}, [(5, 20)]),
        ("Fused2BitRowwiseQuantizedToHalf", [_BYTES], {}, [(5, 40)]),
    ],
)
def test_shapes_and_types_are_those_that_are_written(
    type_: str, given: list[np.ndarray], arguments: dict[str, Any], shapes: list[tuple[int, ...]]
) -> None:
    inputs = [f"in{at}" for at in range(len(given))]
    outputs = [f"out{at}" for at in range(len(shapes))]
    for name, value in zip(inputs, given, strict=True):
        workspace.FeedBlob(name, value)
    net = core.Net("stated")
    getattr(net, type_)(inputs, outputs, **arguments)
    found, types = workspace.InferShapesAndTypes([net])
    workspace.RunNetOnce(net)
    for name, shape in zip(outputs, shapes, strict=True):
        written = workspace.FetchBlob(name)
        assert (tuple(found[name]), written.shape) == (shape, shape)
        assert types[name] == utils.NumpyArrayToCaffe2Tensor(written).data_type


def test_a_rate_is_said_to_have_the_shape_of_the_counter() -> None:
    net = core.Net("rates")
    net.LearningRate(["steps"], ["rate"], base_lr=0.1, policy="fixed")
    shapes, types = workspace.InferShapesAndTypes(
        [net], {"steps": [1]}, blob_types={"steps": TensorProto.INT64}
    )
    assert (shapes["rate"], types["rate"]) == ([1], TensorProto.FLOAT)


def test_the_order_of_images_tells_the_axis_of_parts() -> None:
    """Axis 3 in the order NHWC: an image's last, or a new one before it where images are put together."""
    net = core.Net("orders")
    net.Concat(["x", "y"], ["joined", "sizes"], order="NHWC")
    net.Concat(["x", "x"], ["stacked", "ones"], order="NHWC", add_axis=1)
    net.Split(["x"], ["a", "b"], order="NHWC")
    shapes, _ = workspace.InferShapesAndTypes([net], {"x": [2, 3, 5, 4], "y": [2, 3, 5, 2]})
    assert shapes["joined"] == [2, 3, 5, 6]
    assert shapes["stacked"] == [2, 3, 5, 2, 4]
    assert shapes["a"] == shapes["b"] == [2, 3, 5, 2]
    for name in "xy":
        workspace.FeedBlob(name, np.zeros((2, 3), np.float32))
    with pytest.raises(RuntimeError, match="there is no axis 3 of 2 axes"):
        workspace.RunOperatorOnce(core.CreateOperator("Concat", ["x", "y"], ["z", "sizes"], order="NHWC"))


def test_shapes_of_padded_ranges() -> None:
    """Three rows before and behind each of two ranges."""
    net = core.Net("padded")
    net.AddPadding(["x", "sizes"], ["y", "longer"], padding_width=1, end_padding_width=2)
    workspace.FeedBlob("x", np.zeros((5, 3), np.float32))
    workspace.FeedBlob("sizes", np.array([4, 1], np.int32))
    workspace.RunNetOnce(net)
    shapes, types = workspace.InferShapesAndTypes([net])
    assert (shapes["y"], shapes["longer"]) == ([11, 3], [2])
    assert (types["y"], types["longer"]) == (TensorProto.FLOAT, TensorProto.INT32)
    assert workspace.FetchBlob("y").shape == (11, 3)


@pytest.mark.parametrize("batches", [1, 2])
def test_a_batch_of_no_images(batches: int) -> None:
    """Running moments stay as they are, and what is saved is zeros; so are the gradients."""
    more = ["sums", "squares"] if batches > 1 else []
    for name, value in {"s": 2, "b": 1, "m": 3, "v": 5, "sums": 4, "squares": 6}.items():
        workspace.FeedBlob(name, np.full(2, value, np.float32))
    workspace.FeedBlob("x", np.zeros((0, 2, 3, 3), np.float32))
    net = core.Net("empty")
    net.SpatialBN(
        ["x", "s", "b", "m", "v", *more],
        ["y", "m", "v", "saved", "inverse"],
        is_test=0,
        num_batches=batches,
    )
    net.SpatialBNGradient(
        ["x", "s", "y", "saved", "inverse", *more], ["dx", "ds", "db"], is_test=0, num_batches=batches
    )
    workspace.RunNetOnce(net)
    found = {name: workspace.FetchBlob(name) for name in ("m", "v", "saved", "inverse", "ds", "db")}
    expected = {"m": 3, "v": 5, "saved": 0, "inverse": 0, "ds": 0, "db": 0}
    assert {name: list(value) for name, value in found.items()} == {k: [v] * 2 for k, v in expected.items()}
    assert workspace.FetchBlob("y").shape == workspace.FetchBlob("dx").shape == (0, 2, 3, 3)


def test_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    workspace.FeedBlob("x", np.ones(2, np.float32))
    net = _sum_net()
    workspace.CreateNet(net)
    times = workspace.BenchmarkNet(net.Name(), 1, 3, True)
    assert len(times) == 2
    assert min(times) > 0
    said = [
        "Starting benchmark.",
        "Running warmup runs.",
        "Main runs.",
        f"Main run finished. Milliseconds per iter: {times[0]:g}. Iters per second: {1000 / times[0]:g}",
        f"Operator #0 (y, Sum) {times[1]:g} ms/iter",
        "Time per operator type:",
        f"{times[1]:15g} ms.        100%. Sum (1 ops)",
        f"{times[1]:15g} ms in Total",
    ]
    assert capsys.readouterr().out.splitlines() == said
    assert len(workspace.BenchmarkNetOnce(net.Name(), 0, 1)) == 1
    assert workspace.Nets() == []


def test_immediate_mode() -> None:
    workspace.StartImmediate(i_know=True)
    try:
        assert workspace.IsImmediate()
        workspace.FeedImmediate("x", np.ones(2, np.float32))
        _sum_net()
        assert workspace.ImmediateBlobs() == ["x", "y"]
        np.testing.assert_array_equal(workspace.FetchImmediate("y"), [2, 2])
        assert workspace.Blobs() == []
    finally:
        workspace.StopImmediate()
    with pytest.raises(RuntimeError, match="immediate mode is off"):
        workspace.ImmediateBlobs()


def test_a_predictor() -> None:
    init, predict = core.Net("init"), core.Net("predict")
    init.GivenTensorFill([], "w", shape=[1, 2], values=[1.0, 2.0])
    init.ConstantFill([], "b", shape=[1], value=0.5)
    predict.FC(["x", "w", "b"], "y")
    predict.AddExternalOutput(predict.GetBlobRef("y"))
    predictor = workspace.Predictor(init.Proto().SerializeToString(), predict.Proto().SerializeToString())
    x = np.array([[1, 1], [0, 2]], np.float32)
    for given in ([x], {"x": x}):
        np.testing.assert_array_equal(predictor.run(given)[0], [[3.5], [4.5]])
    with pytest.raises(RuntimeError, match="no inputs z"):
        predictor.run({"z": x})
    assert workspace.Blobs() == []


def test_devices_and_operators() -> None:
    assert not workspace.has_gpu_support
    assert utils.GetGPUMemoryUsageStats()["max_total"] == 0
    assert workspace.NumCudaDevices() == 0
    assert {"Conv", "FC", "SumGradient"} - set(workspace.RegisteredOperators()) == {"SumGradient"}
    assert workspace.StringifyProto("text") == b"text"
    with pytest.raises(ValueError, match="Proto"):
        workspace.StringifyProto(3)


@pytest.mark.parametrize("value", [np.arange(6.0).reshape(2, 3), b"text", np.array([b"a", b""], object)])
def test_blobs_as_bytes(value: Any) -> None:
    own = workspace.C.Workspace()
    own.create_blob("x").feed(value)
    own.create_blob("y").deserialize(own.blobs["x"].serialize("x"))
    np.testing.assert_array_equal(own.blobs["y"].fetch(), value)
    with pytest.raises(RuntimeError, match="blob empty can't be serialized: it holds NoneType"):
        own.create_blob("empty").serialize("empty")


def test_a_guard_of_an_object_changes_nothing() -> None:
    with workspace.WorkspaceGuard(workspace.C.Workspace()):
        workspace.FeedBlob("x", np.zeros(1))
    assert workspace.HasBlob("x")


def test_a_name_is_no_net() -> None:
    with pytest.raises(TypeError, match="a NetDef is needed, not str"):
        workspace.C.Workspace().create_net("net")


def test_parts_are_equal() -> None:
    net = core.Net("net")
    net.Split("x", ["a", "b"], axis=0)
    for rows in (2, 6):
        x = np.arange(2.0 * rows, dtype=np.float32).reshape(rows, 2)
        workspace.FeedBlob("x", x)
        workspace.RunNetOnce(net)
        np.testing.assert_array_equal(workspace.FetchBlob("b"), x[rows // 2 :])
    workspace.FeedBlob("x", np.zeros((3, 2), np.float32))
    with pytest.raises(RuntimeError, match=r"Split\(x\) -> \(a, b\)"):
        workspace.RunNetOnce(net)
