"""Reading and writing: every form, every fault, nothing half written."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, NetgradError
from netgrad.onnx.read import load
from netgrad.onnx.write import save
from tests.onnx.models import model, node, normal, run_proto

X = normal(1, 3, 40)
W = normal(2, 40, 50)


@pytest.fixture
def proto() -> onnx.ModelProto:
    nodes = [node("MatMul", ["x", "w"], ["h"], "product"), node("Relu", ["h"], ["y"], "relu")]
    return model(nodes, {"x": X}, initializers={"w": W}, symbolic=True)


def _weight(loaded: onnx_ir.Model) -> np.ndarray:
    tensor = loaded.graph.initializers["w"].const_value
    assert tensor is not None
    return np.asarray(tensor.numpy())


def _temporary_files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".") or path.name.endswith(".tmp")]


# Reading


def test_every_kind_of_source_gives_the_same_model(proto: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(proto, path)
    content = proto.SerializeToString()
    for source in (path, str(path), content, proto, onnx_ir.from_proto(proto)):
        loaded = load(source)
        assert [n.name for n in loaded.graph] == ["product", "relu"]
        np.testing.assert_array_equal(_weight(loaded), W)


@pytest.mark.parametrize("ending", ["onnx", "pb", "textproto", "prototxt", "json", "onnxtxt", "bin"])
def test_every_form_of_file_is_written_and_read(proto: onnx.ModelProto, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"m.{ending}"
    save(proto, path)
    text = path.read_bytes()
    assert b"MatMul" in text
    assert text.isascii() == (ending in ("textproto", "prototxt", "json", "onnxtxt"))
    loaded = load(path)
    assert [n.op_type for n in loaded.graph] == ["MatMul", "Relu"]
    np.testing.assert_array_equal(_weight(loaded), W)


def test_changing_a_loaded_model_leaves_the_source_as_it_was(proto: onnx.ModelProto) -> None:
    source = onnx_ir.from_proto(proto)
    before = onnx_ir.to_proto(source).SerializeToString()
    loaded = load(source)
    loaded.graph.remove(next(iter(reversed(loaded.graph))))
    loaded.graph.initializers["w"].const_value = onnx_ir.tensor(np.zeros((40, 50), np.float32), name="w")
    loaded.graph.inputs[0].name = "renamed"
    assert onnx_ir.to_proto(source).SerializeToString() == before
    content = proto.SerializeToString()
    other = load(proto)
    other.graph.inputs.clear()
    assert proto.SerializeToString() == content


def test_unsorted_nodes_are_sorted(proto: onnx.ModelProto) -> None:
    nodes = list(reversed(proto.graph.node))
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    assert [n.op_type for n in load(proto).graph] == ["MatMul", "Relu"]


def test_the_long_name_of_the_default_domain_is_the_short_one() -> None:
    long = model([node("Relu", ["x"], ["y"], domain="ai.onnx")], {"x": X}, opset=12, infer=False)
    long.opset_import[0].domain = "ai.onnx"
    for source in (long, onnx_ir.from_proto(long)):
        loaded = load(source)
        assert dict(loaded.opset_imports) == {"": 12}
        assert [n.domain for n in loaded.graph] == [""]


@pytest.mark.parametrize("indices", [np.array([1, 6]), np.array([[0, 1], [1, 2]])], ids=["flat", "pairs"])
def test_sparse_initializers_become_dense(indices: np.ndarray) -> None:
    values = onnx.numpy_helper.from_array(np.array([3, 5], np.float32), "s")
    sparse = onnx.helper.make_sparse_tensor(values, onnx.numpy_helper.from_array(indices), [2, 4])
    proto = model([node("MatMul", ["x", "s"], ["y"])], {"x": normal(1, 3, 2)}, infer=False)
    proto.graph.sparse_initializer.append(sparse)
    before = proto.SerializeToString()
    tensor = load(proto).graph.initializers["s"].const_value
    assert proto.SerializeToString() == before
    assert tensor is not None
    np.testing.assert_array_equal(tensor.numpy(), [[0, 3, 0, 0], [0, 0, 5, 0]])
    proto.graph.sparse_initializer[0].dims[1] = 2
    with pytest.raises(InvalidModelError, match="the sparse initializer 's' has indices outside"):
        load(proto)


def test_negative_dims_are_unknown(proto: onnx.ModelProto) -> None:
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    shape = load(proto).graph.inputs[0].shape
    assert shape is not None
    assert shape.is_unknown_dim(0)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("missing.onnx", None, "there is no such file"),
        ("empty.onnx", b"", "it is empty"),
        ("garbage.onnx", b"\xff\xfe\x00garbage" * 9, "it is not an ONNX model"),
        ("words.onnx", b"This is no model, but a text.", "it is not an ONNX model"),
        ("bad.textproto", b"graph { node { op_type: 3 } }", "it is not an ONNX model in the textproto form"),
        ("bad.json", b"{", "it is not an ONNX model in the json form"),
        ("bad.onnxtxt", b"agraph (float[N] x) =>", "it is not an ONNX model in the onnxtxt form"),
        ("nothing.textproto", b"ir_version: 8", "it holds no graph"),
        ("nothing.json", b'{"graph": {"name": "g"}}', "it imports no operator set"),
    ],
)
def test_a_file_that_is_no_model_is_named_in_one_line(
    tmp_path: Path, name: str, content: bytes | None, text: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidModelError, match=text) as caught:
        load(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_truncated_file_is_refused(proto: onnx.ModelProto, tmp_path: Path) -> None:
    content = proto.SerializeToString()
    for size in (1, len(content) // 2, len(content) - 1):
        path = tmp_path / "cut.onnx"
        path.write_bytes(content[:size])
        with pytest.raises(InvalidModelError, match=r"cut\.onnx"):
            load(path)


def test_a_folder_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(InvalidModelError, match="it is a folder, not a model file"):
        load(tmp_path)
    with pytest.raises(InvalidArgumentError, match="it is a folder"):
        save(model([node("Relu", ["x"], ["y"])], {"x": X}), tmp_path)


def test_something_else_is_no_model() -> None:
    wrong: Any = 3
    with pytest.raises(InvalidArgumentError, match="not int"):
        load(wrong)
    with pytest.raises(InvalidModelError, match="the given bytes: it is empty"):
        load(b"")


def test_a_name_that_nothing_defines_is_named(proto: onnx.ModelProto) -> None:
    proto.graph.node[1].input[0] = "nowhere"
    with pytest.raises(InvalidModelError, match="Relu node 'relu' reads 'nowhere', which nothing defines"):
        load(proto)
    proto.graph.node[1].input[0] = "h"
    proto.graph.node[1].output[0] = "h"
    with pytest.raises(InvalidModelError, match="'h', written by Relu node 'relu', is defined twice"):
        load(proto)
    proto.graph.node[1].output[0] = "z"
    with pytest.raises(InvalidModelError, match="nothing defines its output 'y'"):
        load(proto)


def test_a_cycle_is_refused(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].input[1] = "y"
    with pytest.raises(InvalidModelError, match="its graph has a cycle"):
        load(proto)


# External data


@pytest.fixture
def external(proto: onnx.ModelProto, tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    save(proto, path, external_above=0)
    return path


def test_weights_go_to_a_file_of_their_own(external: Path) -> None:
    data = external.with_name("m.onnx.data")
    assert data.stat().st_size == W.nbytes
    assert external.stat().st_size < 1000
    np.testing.assert_array_equal(_weight(load(external)), W)
    stored = onnx.load(external)  # the reader of the onnx package understands it, too
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored.graph.initializer[0]), W)
    np.testing.assert_allclose(run_proto(stored, {"x": X})[0], np.maximum(X @ W, 0), rtol=1e-5, atol=1e-5)


def test_external_data_is_not_read_before_it_is_asked_for(external: Path) -> None:
    loaded = load(external)
    tensor = loaded.graph.initializers["w"].const_value
    assert isinstance(tensor, onnx_ir.ExternalTensor)
    external.with_name("m.onnx.data").write_bytes(np.zeros_like(W).tobytes())
    np.testing.assert_array_equal(tensor.numpy(), np.zeros_like(W))


def test_missing_external_data_is_named(external: Path) -> None:
    data = external.with_name("m.onnx.data")
    content = data.read_bytes()
    data.write_bytes(content[:-1])
    with pytest.raises(
        InvalidModelError, match=r"m\.onnx\.data.* is too short: tensor 'w' ends at byte 8000"
    ):
        load(external)
    data.unlink()
    with pytest.raises(InvalidModelError, match=r"'w' in the external data file '.*m\.onnx\.data'"):
        load(external)


def test_a_model_in_another_folder_brings_its_data_along(external: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    copy = tmp_path / "other" / "copy.onnx"
    save(external, copy)
    for path in tmp_path.glob("m.onnx*"):
        path.unlink()
    np.testing.assert_array_equal(_weight(load(copy)), W)


def test_a_model_is_saved_over_its_own_external_data(external: Path) -> None:
    loaded = load(external)
    save(loaded, external, external_above=0)
    np.testing.assert_array_equal(_weight(load(external)), W)
    np.testing.assert_array_equal(_weight(loaded), W)  # it still reads what it was loaded from
    assert sorted(path.name for path in external.parent.iterdir()) == ["m.onnx", "m.onnx.1.data"]
    save(loaded, external)
    np.testing.assert_array_equal(_weight(load(external)), W)


def test_small_weights_stay_in_the_model(tmp_path: Path) -> None:
    small = model([node("Add", ["x", "b"], ["y"])], {"x": X}, initializers={"b": normal(3, 40)})
    save(small, tmp_path / "m.onnx", external_above=0)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


# Writing


def test_saving_changes_neither_the_model_nor_its_tensors(proto: onnx.ModelProto, tmp_path: Path) -> None:
    source = onnx_ir.from_proto(proto)
    before = onnx_ir.to_proto(source).SerializeToString()
    save(source, tmp_path / "a.onnx")
    save(source, tmp_path / "b.onnx", external_above=0)
    assert onnx_ir.to_proto(source).SerializeToString() == before


def test_a_file_keeps_its_permissions_and_a_link_stays_a_link(proto: onnx.ModelProto, tmp_path: Path) -> None:
    real, link = tmp_path / "real.onnx", tmp_path / "link.onnx"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    save(proto, link)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert len(list(load(real).graph)) == 2


@contextlib.contextmanager
def _full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that is found to be full when the file is flushed to it."""

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("netgrad.onnx.files.os.fsync", fail)
        yield


@pytest.mark.parametrize("external_above", [None, 0])
def test_a_full_disk_leaves_what_was_there(
    proto: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external_above: int | None
) -> None:
    path = tmp_path / "m.onnx"
    save(proto, path, external_above=0)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with (
        _full_disk(monkeypatch),
        pytest.raises(NetgradError, match=r"cannot write '.*m\.onnx': No space left on device"),
    ):
        save(proto, path, external_above=external_above)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_an_interrupt_between_data_and_model_leaves_what_was_there(
    proto: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.onnx"
    save(proto, path, external_above=0)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}

    def interrupt(*args: Any) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("netgrad.onnx.write._serialize", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(proto, path, external_above=0)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_device_that_is_full_is_an_error(proto: onnx.ModelProto) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("only Linux has a device that is always full")
    with pytest.raises(NetgradError, match="No space left"):
        save(proto, "/dev/full")


def test_a_folder_that_is_missing_is_named(proto: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(NetgradError, match=r"cannot write '.*nowhere/m\.onnx': No such file or directory"):
        save(proto, tmp_path / "nowhere" / "m.onnx")


def test_more_than_a_message_can_hold_goes_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit is lowered instead of writing 2 GiB.
    monkeypatch.setattr("netgrad.onnx.write.PROTOBUF_LIMIT", 64 * 2**20 + 4000)
    proto = model([node("MatMul", ["x", "w"], ["y"])], {"x": X}, initializers={"w": W})
    save(proto, tmp_path / "m.onnx")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "m.onnx.data"]
    large = model(
        [
            node("Constant", [], ["w"], value=onnx.numpy_helper.from_array(W)),
            node("MatMul", ["x", "v"], ["h"]),
        ],
        {"x": X},
        ["h"],
        initializers={"v": W},
    )
    with pytest.raises(NetgradError, match="even without initializers the model exceeds"):
        save(large, tmp_path / "large.onnx")
    assert _temporary_files(tmp_path) == []
