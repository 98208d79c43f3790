"""Saved models: pairs of nets, predictor files, databases; and the way to ONNX."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import netgrad
from netgrad import caffe2
from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.blobs import from_records, to_records
from netgrad.caffe2.caffe2_pb2 import BlobSerializationOptions, NetDef, TensorProto
from netgrad.caffe2.minidb import read_records
from netgrad.caffe2.stored_forms import StoredForms
from netgrad.caffe2.tensors import to_array, to_message
from netgrad.core import InvalidArgumentError, InvalidModelError

W = np.arange(6, dtype=np.float32).reshape(2, 3) / 10
B = np.array([0.5, -0.5], np.float32)
X = np.array([[1.0, -2.0, 3.0]], np.float32)


@pytest.fixture
def model() -> caffe2.SavedModel:
    predict = caffe2.parse_net(
        """
        name: "tiny" external_input: "data" external_input: "w" external_input: "b" external_output: "y"
        op { type: "FC" input: "data" input: "w" input: "b" output: "y" name: "" }
        op { type: "Relu" input: "y" output: "y" name: "" device_option { cuda_gpu_id: 0 } }
        """
    )
    init = caffe2.init_net_of({"w": W, "b": B})
    init.op.add(type="GivenTensorFill", output=["data"]).arg.extend(
        [make_argument("shape", [1, 1]), make_argument("values", [0.0])]
    )
    return caffe2.SavedModel(predict, init)


def test_inputs_and_parameters_are_told_apart(model: caffe2.SavedModel) -> None:
    assert model.inputs == ["data"]
    assert model.outputs == ["y"]
    np.testing.assert_array_equal(model.parameters["w"], W)


@pytest.mark.parametrize("ending", ["pb", "pbtxt"])
def test_a_pair_of_nets_comes_back_as_it_was(model: caffe2.SavedModel, tmp_path: Path, ending: str) -> None:
    unknown = b"\x9a\x06\x03abc"  # field 99, which no schema has
    predict = NetDef.FromString(model.predict_net.SerializeToString() + unknown)
    pair = tmp_path / f"init.{ending}", tmp_path / f"predict.{ending}"
    caffe2.save(caffe2.SavedModel(predict, model.init_net), *pair)
    again = caffe2.load(*pair)
    assert again.init_net == model.init_net
    if ending == "pb":
        assert pair[1].read_bytes() == predict.SerializeToString()
        assert again.predict_net.SerializeToString() == predict.SerializeToString()
    else:
        assert again.predict_net == model.predict_net


def test_a_predictor_file_holds_the_whole_model(model: caffe2.SavedModel, tmp_path: Path) -> None:
    path = tmp_path / "model.minidb"
    caffe2.save_predictor(model, path)
    first, *_ = read_records(path.read_bytes())
    assert first[0] == "!!META_NET_DEF"
    again = caffe2.load(path)
    assert again.predict_net == model.predict_net
    np.testing.assert_array_equal(again.parameters["w"], W)
    caffe2.save_predictor(again, tmp_path / "again.minidb")
    assert (tmp_path / "again.minidb").read_bytes() == path.read_bytes()


def test_documented_bytes_of_a_tensor() -> None:
    message = TensorProto.FromString(bytes.fromhex("08021a080000803f000000403a0174"))
    np.testing.assert_array_equal(to_array(message), np.array([1, 2], np.float32))
    assert message.name == "t"


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int8", "uint8", "int16", "uint16", "int32", "int64", "bool"]
)
def test_tensors_of_all_types(dtype: str) -> None:
    array = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    again = to_array(TensorProto.FromString(to_message(array, "t").SerializeToString()))
    assert again.dtype == array.dtype
    np.testing.assert_array_equal(again, array)


def test_large_tensors_come_in_chunks_in_any_order() -> None:
    blobs = {"big": np.arange(10, dtype=np.int64).reshape(2, 5), "empty": np.zeros((0, 3)), "text": "hello"}
    records = list(to_records(blobs, StoredForms(4)))
    assert [key for key, _ in records] == ["big#%0", "big#%1", "big#%2", "empty#%0", "text"]
    again = from_records(reversed(records))
    np.testing.assert_array_equal(again["big"], blobs["big"])
    assert again["empty"].shape == (0, 3)
    assert again["text"] == b"hello"
    with pytest.raises(InvalidModelError, match="missing chunks: big"):
        from_records(records[1:])


def test_options_say_how_blobs_are_stored() -> None:
    """The first pattern that matches the whole name counts, and says all of it."""
    half = BlobSerializationOptions.FLOAT_BFLOAT16
    options = [
        BlobSerializationOptions(blob_name_regex="a", chunk_size=3, float_format=half),
        BlobSerializationOptions(blob_name_regex="a|b.*", chunk_size=-1),
        BlobSerializationOptions(blob_name_regex="c"),
    ]
    numbers = np.array([1.0, 1.00390625, -3.14159265, 1.01171875, np.inf, np.nan], np.float32)
    blobs = {"a": numbers, "ab": numbers, "bc": numbers, "c": numbers}
    records = list(to_records(blobs, StoredForms(4, options)))
    assert [key for key, _ in records] == ["a#%0", "a#%1", "ab#%0", "ab#%1", "bc#%0", "c#%0"]
    assert len(records[0][1]) < len(records[2][1]) - 4
    again = from_records(records)
    # bfloat16 has 8 bits: halves are rounded away from zero.
    np.testing.assert_array_equal(
        again["a"], np.array([1.0, 1.0078125, -3.140625, 1.015625, np.inf, np.nan], np.float32)
    )
    for name in ("ab", "bc", "c"):
        np.testing.assert_array_equal(again[name], numbers)
    with pytest.raises(InvalidArgumentError, match=r"the pattern '\('"):
        StoredForms(options=[BlobSerializationOptions(blob_name_regex="(")])


@pytest.mark.parametrize("content", [b"", b"\x05\x00\x00\x00", b"\x01\x00\x00\x00\x09\x00\x00\x00ab"])
def test_a_cut_database_is_refused(content: bytes) -> None:
    if not content:
        assert list(read_records(content)) == []
        return
    with pytest.raises(InvalidModelError, match="cut off"):
        list(read_records(content))


def test_what_is_no_net_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.pb").write_bytes(b"\xff\xfe no net")
    with pytest.raises(InvalidModelError, match=r"bad\.pb: not a NetDef"):
        caffe2.read_net(tmp_path / "bad.pb")
    with pytest.raises(InvalidModelError, match="cannot read"):
        caffe2.load(tmp_path / "absent.pb", tmp_path / "absent.pb")


def test_an_onnx_model_computes_the_same_and_has_gradients(model: caffe2.SavedModel) -> None:
    converted = caffe2.to_onnx(model, {"data": ["N", 3]})
    onnx.checker.check_model(converted, full_check=True)
    expected = np.maximum(X @ W.T + B, 0)
    np.testing.assert_allclose(netgrad.run(converted, {"data": X})["y"], expected, rtol=1e-6)
    gradient = netgrad.run(netgrad.grad(converted, wrt=["w"]), {"data": X})["w_grad"]
    np.testing.assert_allclose(gradient, (expected > 0).T * X, rtol=1e-6)
    with pytest.raises(InvalidArgumentError, match="shape of data"):
        caffe2.to_onnx(model, {})
