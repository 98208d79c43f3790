"""The modules ``caffe2.python.onnx.backend``, ``frontend``, ``helper`` and ``workspace``."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.base import Device

from netgrad import caffe2
from netgrad.caffe2 import caffe2_pb2, workspace
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import _import_c_extension as native
from netgrad.caffe2.python import core
from netgrad.caffe2.python.onnx import backend, frontend
from netgrad.caffe2.python.onnx import helper as tools
from netgrad.caffe2.python.onnx.tests import test_utils
from netgrad.caffe2.python.onnx.workspace import Workspace
from netgrad.core import InvalidArgumentError, UnsupportedOperatorError

W = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
B = np.array([0.5, -100, 0.25], np.float32)
X = np.array([[1, -1], [2, 0.5]], np.float32)


def _formula(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.maximum(x @ W.T + B, 0)


@pytest.fixture
def model() -> onnx.ModelProto:
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"], transB=1),
            helper.make_node("Relu", ["h"], ["0"]),
        ],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2])],
        [helper.make_tensor_value_info("0", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(W, "w"), numpy_helper.from_array(B, "b")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)


@pytest.mark.parametrize("inputs", [X, [X], {"x": X}], ids=["array", "list", "dict"])
def test_run_model(model: onnx.ModelProto, inputs: Any) -> None:
    outputs = backend.run_model(model, inputs)
    np.testing.assert_allclose(outputs[0], _formula(X))
    np.testing.assert_allclose(outputs["0"], _formula(X))


def test_a_prepared_model_runs_again_and_leaves_the_current_workspace_alone(model: onnx.ModelProto) -> None:
    workspace.FeedBlob("x", np.zeros(1, np.float32))
    rep = backend.prepare(model)
    assert rep.uninitialized == ["x"]
    assert rep.predict_net.op[0].type == "FC"
    for scale in (1, 2):
        np.testing.assert_allclose(rep.run({"x": scale * X})[0], _formula(scale * X))
    assert workspace.Blobs() == ["x"]
    with pytest.raises(RuntimeError, match="Expected 1 values"):
        rep.run([X, X])
    with pytest.raises(RuntimeError, match="no value was given for the inputs x"):
        backend.prepare(model).run({})


def test_another_shape_than_the_model_says_is_taken() -> None:
    """What is an argument in the net, such as padding, is counted anew."""
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], strides=[2], auto_pad="SAME_LOWER")
    graph = helper.make_graph(
        [pool],
        "pool",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 1, 2])],
    )
    rep = backend.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=4))
    np.testing.assert_array_equal(
        rep.workspace.FetchBlob("x"), np.ones((1, 1, 4))
    )  # as the original feeds it
    for size, expected in ((4, [1, 3]), (5, [0, 2, 4]), (4, [1, 3])):
        x = np.arange(size, dtype=np.float32).reshape(1, 1, size)
        np.testing.assert_array_equal(rep.run(x).y.reshape(-1), expected)


def test_inputs_that_are_arguments_in_caffe2_are_known_when_the_model_runs() -> None:
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "M"])]
    infos += [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in ("axes", "new")]
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["sum"], keepdims=0),
        helper.make_node("Unsqueeze", ["sum", "new"], ["y"]),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "sums", infos, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    rep = backend.prepare(model)
    assert backend.is_compatible(model)
    assert rep.uninitialized == ["x", "axes", "new"]
    for axis, new in ((0, 1), (1, 0), (1, 0), (0, 0)):
        found = rep.run([W, np.array([axis]), np.array([new])]).y
        np.testing.assert_allclose(found, np.expand_dims(W.sum(axis), new))
    assert [op.type for op in rep.predict_net.op] == ["ReduceSum", "ExpandDims"]
    with pytest.raises(RuntimeError, match="no value was given for the inputs axes, new"):
        backend.prepare(model).run({"x": W})


def test_the_device_is_the_processor(model: onnx.ModelProto) -> None:
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:1")
    assert backend.is_compatible(model)
    assert not backend.is_compatible(model, "CUDA")
    with pytest.raises(InvalidArgumentError, match="CPU"):
        backend.prepare(model, "CUDA")
    option = backend.get_device_option(Device("CUDA:2"))
    assert (option.device_type, option.device_id) == (caffe2_pb2.CUDA, 2)


def test_what_caffe2_cannot_express_is_not_compatible(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Asinh"
    assert not backend.is_compatible(model)
    with pytest.raises(UnsupportedOperatorError, match="Asinh"):
        backend.prepare(model)


def test_run_node() -> None:
    node = helper.make_node("Add", ["a", "b"], ["y"])
    np.testing.assert_allclose(backend.run_node(node, [W, B[:2]]).y, W + B[:2])
    reshape = helper.make_node("Slice", ["x", "starts", "ends"], ["y"])
    found = backend.run_node(reshape, [W, np.array([1]), np.array([3])], opset_version=13)
    np.testing.assert_array_equal(found[0], W[1:3])
    old = helper.make_node("Slice", ["x"], ["y"], starts=[1], ends=[3])
    np.testing.assert_array_equal(backend.run_node(old, {"x": W}, opset_version=9)[0], W[1:3])


def test_an_archive_of_a_model_and_its_tensors(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for tensor in model.graph.initializer:
            archive.writestr(tensor.name, tensor.raw_data)
            tensor.raw_data = b"__EXTERNAL"
        archive.writestr("__MODEL_PROTO", model.SerializeToString())
    np.testing.assert_allclose(backend.prepare_zip_archive(str(path)).run(X)[0], _formula(X))
    with pytest.raises(InvalidArgumentError, match="values of w, b"):
        backend.prepare(model)


def test_nets_of_a_model_and_back(model: onnx.ModelProto) -> None:
    init_net, predict_net = backend.Caffe2Backend.onnx_graph_to_caffe2_net(model)
    assert list(predict_net.external_input) == ["x", "w", "b"]
    assert (init_net.name, predict_net.name) == ("layer_init", "layer_predict")
    assert backend.Caffe2Backend.onnx_graph_to_caffe2_net(model.graph) == (init_net, predict_net)
    with pytest.raises(InvalidArgumentError, match="CPU"):
        backend.Caffe2Backend.onnx_graph_to_caffe2_net(model, "CUDA")
    info = {"x": (TensorProto.FLOAT, (2, 2))}
    again = frontend.caffe2_net_to_onnx_model(predict_net, init_net, info)
    onnx.checker.check_model(again, full_check=True)
    np.testing.assert_allclose(backend.run_model(again, X)[0], _formula(X))
    graph = frontend.caffe2_net_to_onnx_graph(predict_net, init_net, info)
    assert [value.name for value in graph.output] == ["0"]
    assert [value.name for value in graph.input] == ["x", "w", "b"]  # the parameters among them
    tensors = frontend.caffe2_init_net_to_initializer(init_net)
    np.testing.assert_array_equal({t.name: numpy_helper.to_array(t) for t in tensors}["w"], W)
    with pytest.raises(RuntimeError, match="no value info of the inputs x"):
        frontend.caffe2_net_to_onnx_model(predict_net, init_net)
    with pytest.raises(ValueError, match="pairs of type and shape"):
        frontend.caffe2_net_to_onnx_model(predict_net, init_net, [1])  # type: ignore[arg-type]


def test_outputs_that_are_the_same_value_keep_their_names() -> None:
    net = core.Net("n")
    net.Relu("x", "y")
    net.Copy("y", "z")
    net.Copy("x", "w")
    for name in ("y", "z", "w"):
        net.AddExternalOutput(core.BlobReference(name))
    found = frontend.caffe2_net_to_onnx_model(net.Proto(), None, {"x": (TensorProto.FLOAT, (2, 2))})
    onnx.checker.check_model(found, full_check=True)
    outputs = backend.run_model(found, X)
    np.testing.assert_array_equal(outputs.y, np.maximum(X, 0))
    np.testing.assert_array_equal(outputs.z, outputs.y)
    np.testing.assert_array_equal(outputs.w, X)


def test_running_operators_and_nets_apart(tmp_path: Path) -> None:
    op = core.CreateOperator("FC", ["x", "w", "b"], ["y"])
    ws, outputs = tools.c2_native_run_op(op, [X, W, B])
    np.testing.assert_allclose(outputs.y, X @ W.T + B)
    assert ws.HasBlob("y")
    assert not workspace.HasBlob("y")
    net = NetDef(name="n", op=[op], external_input=["x", "w", "b"], external_output=["y"])
    init = caffe2.init_net_of({"w": W, "b": B})
    np.testing.assert_allclose(tools.c2_native_run_net(init, net, [X])[1].y, X @ W.T + B)
    np.testing.assert_allclose(tools.c2_native_run_net(None, net, [X, W, B])[1].y, X @ W.T + B)
    assert tools.c2_native_run_net(init, net, [X, 2 * W, B])[1].y[0, 0] == (2 * X @ W.T + B)[0, 0]
    with pytest.raises(InvalidArgumentError, match=r"4 arrays for 3 inputs of the net 'n' \(why\)"):
        tools.c2_native_run_net(init, net, [X, W, B, B], "why")
    ready = caffe2.init_net_of({"x": X, "w": W, "b": B})
    assert tools.benchmark_caffe2_model(ready, net, 1, 2, False) > 0
    assert tools.benchmark_pytorch_model(lambda x, w: x @ w.T, [X, W], main_iters=2) > 0
    tools.save_caffe2_net(net, str(tmp_path / "net.pb"), output_txt=True)
    assert tools.load_caffe2_net(str(tmp_path / "net.pb")) == net
    assert tools.load_caffe2_net(str(tmp_path / "net.pbtxt")) == net
    assert tools.dummy_name() != tools.dummy_name()


def test_a_workspace_goes_with_its_object() -> None:
    own = Workspace()
    own.FeedBlob("a", X)
    assert own.workspace_id in workspace.Workspaces()
    name = own.workspace_id
    del own
    assert name not in workspace.Workspaces()


def test_names_for_what_a_conversion_adds() -> None:
    names = native.DummyName()
    first = [names.new_dummy_name() for _ in range(3)]
    assert len(set(first)) == 3
    names.reset()
    assert names.new_dummy_name() == first[0]
    names.reset({first[0], first[2]})
    assert names.new_dummy_name() == first[1]
    assert not {names.new_dummy_name() for _ in range(3)} & set(first)
    assert tools.dummy_name() != tools.dummy_name()


def test_names_for_each_value_of_a_net() -> None:
    """A blob that is written twice, one that is read before it is written, and one that is written once."""
    net = core.Net("net")
    net.FC(["x", "w", "b"], "y")
    net.Add(["y", "s"], "y", broadcast=1)
    net.Add(["y", "x"], "x")
    net.Relu("x", "z")
    net.Proto().external_input.append("y_1")  # a name that is taken
    for name in ("y", "x", "z"):
        net.AddExternalOutput(core.BlobReference(name))
    renamed = NetDef()
    renamed.CopyFrom(net.Proto())
    frontend.Caffe2Frontend._ssa_rewrite(renamed, None, {})
    assert [(list(op.input), list(op.output)) for op in renamed.op] == [
        (["x", "w", "b"], ["y_1_"]),
        (["y_1_", "s"], ["y_2"]),
        (["y_2", "x"], ["x_1"]),
        (["x_1"], ["z"]),
    ]
    assert list(renamed.external_output) == ["y_2", "x_1", "z"]
    assert renamed.external_input == net.Proto().external_input
    again = NetDef()
    again.CopyFrom(renamed)
    frontend.ssa_rewrite(again, None, {})
    assert again == renamed


def test_a_case_that_compares_outputs() -> None:
    case = test_utils.TestCase()
    case.assertSameOutputs([X], [X + 1e-9])
    with pytest.raises(AssertionError, match="decimals"):
        case.assertSameOutputs([X], [X + np.float32(1e-3)])
    with pytest.raises(AssertionError, match="float64"):
        case.assertSameOutputs([X], [X.astype(np.float64)])
    case.add_test_case("test_new", lambda: 3)
    assert case.test_new() == 3  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="there is a test 'test_new'"):
        case.add_test_case("test_new", lambda: 4)
    with pytest.raises(ValueError, match="begins with test_"):
        case.add_test_case("new", lambda: 4)
