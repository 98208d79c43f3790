"""Models that are saved for prediction, and what they give when they are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad import caffe2
from netgrad.caffe2.caffe2_pb2 import CPU, MetaNetDef, NetDef, PlanDef
from netgrad.caffe2.python import brew, core, model_helper, workspace
from netgrad.caffe2.python.predictor import mobile_exporter, serde
from netgrad.caffe2.python.predictor import predictor_exporter as exporter
from netgrad.caffe2.python.predictor import predictor_py_utils as utils
from netgrad.caffe2.python.predictor_constants import predictor_constants


def _model() -> Any:
    model = model_helper.ModelHelper("model")
    brew.fc(model, "data", "y", dim_in=5, dim_out=10)
    return model


def _meta(model: Any, **kwargs: Any) -> exporter.PredictorExportMeta:
    shapes = kwargs.pop("shapes", {"data": (1, 5), "y": (1, 10)})
    return exporter.PredictorExportMeta(model.net, model.params, ["data"], ["y"], shapes, **kwargs)


def _saved(path: Path, **kwargs: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A model in a file; its weights and biases."""
    model = _model()
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob("y_b", np.arange(10, dtype=np.float32))
    weights, biases = workspace.FetchBlob("y_w"), workspace.FetchBlob("y_b")
    exporter.save_to_db("minidb", str(path), _meta(model, **kwargs))
    workspace.ResetWorkspace()
    return weights, biases


def test_a_loaded_model_predicts(tmp_path: Path) -> None:
    path = tmp_path / "model.minidb"
    weights, biases = _saved(path)
    net = exporter.prepare_prediction_net(str(path), "minidb")
    np.testing.assert_array_equal(workspace.FetchBlob("data"), np.zeros((1, 5)))
    data = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    workspace.FeedBlob("data", data)
    workspace.RunNet(net)
    np.testing.assert_allclose(workspace.FetchBlob("y"), data @ weights.T + biases, rtol=1e-5, atol=1e-5)
    assert net.Proto().external_input == ["data", "y_w", "y_b"]


def test_the_nets_of_a_model_one_by_one(tmp_path: Path) -> None:
    extra, everywhere = core.Net("extra"), core.Net("everywhere")
    extra.ConstantFill("data", "data", value=1.0)
    everywhere.ConstantFill([], "everywhere", value=1.0)
    path = tmp_path / "model.minidb"
    path.write_bytes(b"what was there before")
    weights, _ = _saved(path, extra_init_net=extra, global_init_net=everywhere, net_type="dag", num_workers=2)
    described = exporter.load_from_db(str(path), "minidb")
    assert not workspace.HasBlob("data")
    workspace.RunNetOnce(utils.GetNet(described, predictor_constants.PREDICT_INIT_NET_TYPE))
    np.testing.assert_array_equal(workspace.FetchBlob("data"), np.ones((1, 5)))
    np.testing.assert_array_equal(workspace.FetchBlob("y"), np.zeros((1, 10)))
    assert not workspace.HasBlob("y_w")
    assert not workspace.HasBlob("everywhere")
    workspace.RunNetOnce(utils.GetNet(described, predictor_constants.GLOBAL_INIT_NET_TYPE))
    np.testing.assert_array_equal(workspace.FetchBlob("y_w"), weights)
    assert workspace.FetchBlob("everywhere") == 1
    predict = utils.GetNet(described, predictor_constants.PREDICT_NET_TYPE)
    assert (predict.type, predict.num_workers) == ("dag", 2)
    assert utils.GetBlobs(described, predictor_constants.PARAMETERS_BLOB_TYPE) == ["y_w", "y_b"]


def test_netgrad_loads_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.minidb"
    weights, _ = _saved(path)
    model = caffe2.load(path)
    assert (model.inputs, model.outputs) == (["data"], ["y"])
    np.testing.assert_array_equal(model.parameters["y_w"], weights)


def test_device_scope(tmp_path: Path) -> None:
    path = tmp_path / "model.minidb"
    _saved(path)
    with core.DeviceScope(core.DeviceOption(CPU, 1)):
        described = exporter.load_from_db(str(path), "minidb")
    devices = {op.device_option.device_id for pair in described.nets for op in pair.value.op}
    assert devices == {1}


def test_name_scopes_make_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "model.minidb"
    model = _model()
    workspace.RunNetOnce(model.param_init_net)
    with core.NameScope("scope"):
        exporter.save_to_db("minidb", str(path), _meta(model))
        workspace.ResetWorkspace()
        exporter.prepare_prediction_net(str(path), "minidb")
    assert workspace.HasBlob("y_w")
    assert not any(name.startswith("scope") for name in workspace.Blobs())


def test_several_models_have_keys_of_their_own() -> None:
    meta = _meta(_model(), name="second")
    described = exporter.get_meta_net_def(meta)
    assert [pair.key for pair in described.nets] == [
        "PREDICT_INIT_NET_TYPE_second",
        "GLOBAL_INIT_NET_TYPE_second",
        "PREDICT_NET_TYPE_second",
    ]
    assert utils.GetBlobsByTypePrefix(described, "INPUTS_BLOB_TYPE") == ["data"]
    assert (meta.train_init_plan_name(), meta.train_plan_name()) == (
        "TRAIN_INIT_PLAN_TYPE_second",
        "TRAIN_PLAN_TYPE_second",
    )


def test_keys_of_a_name() -> None:
    assert exporter.get_predictor_exporter_helper("m").predict_net_name() == "PREDICT_NET_TYPE_m"


def test_shapes_come_from_the_workspace() -> None:
    meta = _meta(_model(), shapes={"data": (2, 5)})
    with pytest.raises(Exception, match="y not in workspace but needed for shape"):
        exporter.get_meta_net_def(meta)
    workspace.FeedBlob("y", np.zeros((2, 10), np.float32))
    init_net = utils.GetNet(exporter.get_meta_net_def(meta), "PREDICT_INIT_NET_TYPE")
    workspace.ResetWorkspace()
    workspace.RunNetOnce(init_net)
    assert workspace.FetchBlob("y").shape == (2, 10)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["data", "data"], ["y"], "unique"),
        (["data", "y_w"], ["y"], r"Parameters and inputs .* Intersection: \['y_w'\]"),
        (["data"], ["y", "y_b"], r"Parameters and outputs .* Intersection: \['y_b'\]"),
    ],
)
def test_blobs_of_two_kinds(inputs: Sequence[str], outputs: Sequence[str], message: str) -> None:
    model = _model()
    with pytest.raises(AssertionError, match=message):
        exporter.PredictorExportMeta(model.net, model.params, inputs, outputs)


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="y_w"):
        exporter.save_to_db("minidb", str(tmp_path / "model"), _meta(_model()))
    with pytest.raises(RuntimeError, match="there is no database"):
        exporter.load_from_db(str(tmp_path / "none"), "minidb")


def test_the_message_of_a_model() -> None:
    described = MetaNetDef()
    utils.AddBlobs(described, "key", ["a"])
    utils.AddBlobs(described, "key", [core.BlobReference("b")])
    assert utils.GetBlobs(described, "key") == ["a", "b"]
    assert utils.GetBlobs(described, "other") == []
    utils.ReplaceBlobs(described, "key", ["c"])
    assert utils.GetBlobsByTypePrefix(described, "k") == ["c"]
    with pytest.raises(AssertionError, match="no blobs other"):
        utils.ReplaceBlobs(described, "other", [])
    utils.AddPlan(described, "plan", PlanDef(name="p"))
    assert utils.GetPlan(described, "plan").name == utils.GetPlanOriginal(described, "plan").name == "p"
    assert utils.GetNet(described, "plan") is None
    described.applicationSpecificInfo.add(key="who", value="me")
    assert utils.GetApplicationSpecificInfo(described, "who") == "me"
    exporter.set_model_info(described, "project", "class", "3")
    copy = serde.deserialize_protobuf_struct(serde.serialize_protobuf_struct(described), MetaNetDef)
    assert (copy.modelInfo.project, copy.modelInfo.modelClass, copy.modelInfo.version) == (
        "project",
        "class",
        "3",
    )


def test_the_id_of_a_model_goes_to_its_other_nets() -> None:
    model = _model()
    model.net.Proto().arg.add(name="model_id", i=7)
    described = exporter.get_meta_net_def(_meta(model))
    found = [utils.GetArgumentByName(pair.value, "model_id") for pair in described.nets]
    assert [argument is not None and argument.i for argument in found] == [7, 7, 7]


def test_nets_for_a_device_without_files() -> None:
    model = model_helper.ModelHelper("lenet")
    brew.conv(model, "data", "conv1", dim_in=1, dim_out=4, kernel=5)
    brew.max_pool(model, "conv1", "pool1", kernel=2, stride=2)
    brew.fc(model, "pool1", "fc2", dim_in=4 * 12 * 12, dim_out=10)
    brew.relu(model, "fc2", "fc2")
    brew.softmax(model, "fc2", "out")
    workspace.RunNetOnce(model.param_init_net)
    init_net, predict_net = mobile_exporter.Export(workspace, model.net, model.params)
    assert predict_net.external_output == ["out"]
    data = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    workspace.FeedBlob("data", data)
    workspace.RunNetOnce(model.net)
    expected = workspace.FetchBlob("out")
    workspace.ResetWorkspace()
    workspace.RunNetOnce(init_net)
    workspace.FeedBlob("data", data)
    workspace.CreateNet(predict_net, True)
    workspace.RunNet(predict_net.name)
    np.testing.assert_array_equal(workspace.FetchBlob("out"), expected)
    (predicted,) = workspace.Predictor(init_net, predict_net).run([data])
    np.testing.assert_array_equal(predicted, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64, np.bool_, object])
def test_parameters_of_every_type(dtype: Any) -> None:
    array = np.array([["å", "0"], ["", "1"]], object) if dtype is object else np.eye(2).astype(dtype)
    workspace.FeedBlob("before", array)
    net = NetDef(name="init")
    mobile_exporter.add_tensor(net, "after", workspace.FetchBlob("before"))
    workspace.RunNetOnce(net)
    found = workspace.FetchBlob("after")
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, workspace.FetchBlob("before"))


def test_bytes_become_one_text() -> None:
    net = NetDef(name="init")
    mobile_exporter.add_tensor(net, "x", np.arange(3, dtype=np.uint8))
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("x").tolist() == [b"\x00\x01\x02"]
    with pytest.raises(TypeError, match="no operator writes blob x of float16"):
        mobile_exporter.add_tensor(net, "x", np.zeros(3, np.float16))
