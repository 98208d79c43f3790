"""Reading and writing saved models: pairs of nets, and predictor files."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from google.protobuf import text_format

from netgrad.caffe2.blobs import from_records, to_records
from netgrad.caffe2.caffe2_pb2 import BlobProto, MetaNetDef, NetDef
from netgrad.caffe2.minidb import is_minidb, read_records, write_records
from netgrad.caffe2.read import parse
from netgrad.caffe2.saved_model import SavedModel
from netgrad.core import InvalidArgumentError, InvalidModelError
from netgrad.onnx.files import replacing

NetSource = str | os.PathLike[str] | bytes | NetDef
"""A net: the path of a file, the bytes of one, or a message."""

META_KEY = "!!META_NET_DEF"
READER_BLOB = "!!PREDICTOR_DBREADER"
_TEXT_ENDINGS = (".pbtxt", ".prototxt", ".txt")


def load(init_net: NetSource, predict_net: NetSource | None = None) -> SavedModel:
    """Read a saved model.

    Args:
        init_net: The net that writes the parameters; or, without a second argument, a predictor file (one
            ``minidb`` database that holds a whole model), or a net without parameters.
        predict_net: The net that predicts.

    Raises:
        InvalidModelError: A file can't be read, or is something else.
    """
    if predict_net is not None:
        return SavedModel(read_net(predict_net), read_net(init_net))
    if isinstance(init_net, NetDef):
        return SavedModel(read_net(init_net), NetDef(name="init"))
    content, file = _content(init_net)
    if is_minidb(content):
        return _from_predictor(content, file)
    return SavedModel(parse(NetDef, content, file), NetDef(name="init"))


def read_net(source: NetSource) -> NetDef:
    """A net in text or binary form; a message is copied.

    Raises:
        InvalidModelError: It can't be read, or is no net.
    """
    if isinstance(source, NetDef):
        copy = NetDef()
        copy.CopyFrom(source)
        return copy
    content, file = _content(source)
    return parse(NetDef, content, file)


def save(model: SavedModel, init_net: str | os.PathLike[str], predict_net: str | os.PathLike[str]) -> None:
    """Write a pair of nets, each whole or not at all: as text if the name ends in ``.pbtxt``, else binary.

    What was read and not changed is written as it was; in binary form with fields that this schema doesn't
    know, which text can't hold.
    """
    save_net(model.init_net, init_net)
    save_net(model.predict_net, predict_net)


def save_net(net: NetDef, path: str | os.PathLike[str]) -> None:
    """Write one net, whole or not at all: as text if the name ends in ``.pbtxt``, else binary."""
    path = Path(path)
    if path.suffix in _TEXT_ENDINGS:
        content = text_format.MessageToString(net).encode()
    else:
        content = net.SerializeToString()
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise InvalidArgumentError(f"cannot write '{path}': {error.strerror or error}") from error


def save_predictor(model: SavedModel, path: str | os.PathLike[str]) -> None:
    """Write a predictor file: the nets and lists of blobs, then the parameters; whole or not at all."""
    meta = model.meta or _meta_of(model)
    head = BlobProto(name=META_KEY, type="std::string", content=meta.SerializeToString())
    with replacing(Path(path)) as file:
        write_records(file, [(META_KEY, head.SerializeToString())])
        write_records(file, to_records(model.parameters))


def _content(source: str | os.PathLike[str] | bytes) -> tuple[bytes, str]:
    if isinstance(source, bytes):
        return source, ""
    path = os.fspath(source)
    try:
        return Path(path).read_bytes(), path
    except OSError as error:
        raise InvalidModelError(f"cannot read '{path}': {error.strerror or error}") from error


def _from_predictor(content: bytes, file: str) -> SavedModel:
    blobs = from_records(read_records(content, file), file)
    head = blobs.pop(META_KEY, None)
    if not isinstance(head, bytes):
        raise InvalidModelError(f"{file}: a database without the record {META_KEY}; it holds no model")
    meta = MetaNetDef.FromString(head)
    nets = {entry.key: entry.value for entry in meta.nets}
    predict = next((net for key, net in nets.items() if key.startswith("PREDICT_NET_TYPE")), None)
    if predict is None:
        raise InvalidModelError(f"{file}: the model has no net that predicts")
    arrays = {name: value for name, value in blobs.items() if isinstance(value, np.ndarray)}
    return SavedModel(predict, NetDef(name="init"), meta, arrays)


def _meta_of(model: SavedModel) -> MetaNetDef:
    """The meta net of a model that came from a pair of nets."""
    meta = MetaNetDef()
    names = list(model.parameters)
    for key, values in (
        ("PARAMETERS_BLOB_TYPE", names),
        ("INPUTS_BLOB_TYPE", model.inputs),
        ("OUTPUTS_BLOB_TYPE", model.outputs),
    ):
        meta.blobs.add(key=key).value.extend(values)
    load_net = NetDef(name="global-init", external_input=[READER_BLOB], external_output=names)
    load_net.op.add(type="Load", name="", input=[READER_BLOB], output=names)
    init = NetDef(name="predict-init")
    for blob in (*model.inputs, *model.outputs):
        fill = init.op.add(type="ConstantFill", name="", output=[blob])
        fill.arg.add(name="shape").ints.append(1)
        fill.arg.add(name="value", f=0.0)
    for key, net in (
        ("GLOBAL_INIT_NET_TYPE", load_net),
        ("PREDICT_INIT_NET_TYPE", init),
        ("PREDICT_NET_TYPE", model.predict_net),
    ):
        meta.nets.add(key=key, value=net)
    return meta
