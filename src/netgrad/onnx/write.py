"""Writing a model: whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import onnx
import onnx.serialization
import onnx_ir

from netgrad.core.errors import InvalidArgumentError, NetgradError
from netgrad.onnx.files import replacing
from netgrad.onnx.read import ModelSource, load, tensors
from netgrad.onnx.training_info import training_info_of

PROTOBUF_LIMIT = 2**31 - 1
"""Bytes that one protobuf message can hold."""

_ROOM_FOR_THE_GRAPH = 64 * 2**20  # bytes kept free beside the weights for nodes, names and types
_SMALL = 1024  # bytes; a tensor up to this size stays in the model file
_ALIGNMENT = 4096  # bytes; runtimes map aligned weights instead of copying them


def save(model: ModelSource, path: str | os.PathLike[str], *, external_above: int | None = None) -> None:
    """Write a model to a file, whole or not at all.

    Everything is written under temporary names in the folder of ``path``, flushed to the disk and then
    renamed, so that a full disk or a killed process leaves what was there before. The model is not changed.

    Args:
        model: The model: whatever ``load`` takes.
        path: The file; its ending selects the form as in ``load``.
        external_above: Weights go to a file of external data, ``<file name>.data`` beside the model, when all
            tensors together take more than this many bytes. Default: only when one protobuf file, whose limit
            is 2 GiB, cannot hold the model. If ``<file name>.data`` exists, the new data gets a numbered
            name, and the old file is removed after the model was renamed: at no time does a model stand
            beside data that is not its own.

    Raises:
        NetgradError: The file cannot be written (no such folder, no permission, a full disk), or the model is
            too large for one file although its weights are outside.
        InvalidArgumentError: ``path`` is a folder.
    """
    target = Path(os.path.realpath(path))  # a link stays a link to the new content
    if target.is_dir():
        raise InvalidArgumentError(f"cannot write '{path}': it is a folder")
    ir_model = model if isinstance(model, onnx_ir.Model) else load(model)
    limit = PROTOBUF_LIMIT - _ROOM_FOR_THE_GRAPH if external_above is None else external_above
    try:
        size = sum(tensor.nbytes for tensor in tensors(ir_model))
        outside = sum(tensor.nbytes for tensor in _large_initializers(ir_model))
        if size > limit and outside:
            if size - outside > PROTOBUF_LIMIT - _ROOM_FOR_THE_GRAPH:
                raise NetgradError(
                    f"cannot write '{path}': even without initializers the model exceeds protobuf's 2 GiB",
                    hint="large tensors in attributes of nodes can be made initializers",
                )
            _write_with_data(ir_model, target)
        else:
            content = _serialize(_with_data_inside(ir_model), target, training_info_of(ir_model))
            with replacing(target) as file:
                file.write(content)
    except OSError as error:
        raise NetgradError(f"cannot write '{path}': {error.strerror or error}") from error


def _large_initializers(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None and value.const_value.nbytes > _SMALL:
                yield value.const_value


def _serialize(model: onnx_ir.Model, target: Path, training: Sequence[onnx.TrainingInfoProto]) -> bytes:
    form = onnx.serialization.registry.get_format_from_file_extension(target.suffix.lower())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx calls its own text form experimental at every use
        serializer = onnx.serialization.registry.get(form or "protobuf")
        proto = onnx_ir.to_proto(model)
        proto.training_info.extend(training)
        content: bytes = serializer.serialize_proto(proto)
    return content


def _with_data_inside(model: onnx_ir.Model) -> onnx_ir.Model:
    """The model, or a copy without references to external files, which would break in another folder."""
    if not any(isinstance(tensor, onnx_ir.ExternalTensor) for tensor in tensors(model)):
        return model
    model = model.clone()
    for graph in model.graphs():
        for value in graph.initializers.values():
            if isinstance(value.const_value, onnx_ir.ExternalTensor):
                value.const_value = _in_memory(value.const_value)
        for node in graph:
            for attribute in list(node.attributes.values()):
                if attribute.is_ref() or attribute.type != onnx_ir.AttributeType.TENSOR:
                    continue
                tensor = attribute.as_tensor()
                if isinstance(tensor, onnx_ir.ExternalTensor):
                    node.attributes[attribute.name] = onnx_ir.AttrTensor(attribute.name, _in_memory(tensor))
    return model


def _in_memory(tensor: onnx_ir.ExternalTensor) -> onnx_ir.TensorProtocol:
    return onnx_ir.Tensor(tensor.numpy(), dtype=tensor.dtype, name=tensor.name, doc_string=tensor.doc_string)


def _write_with_data(model: onnx_ir.Model, target: Path) -> None:
    """Write large initializers to a data file, then the model, whose renaming makes both valid."""
    former = [path for path in _data_files(target) if path.exists()]
    data = next(path for path in _data_files(target, len(former) + 1) if not path.exists())
    copy = model.clone()
    try:
        with replacing(data) as file:
            for graph in copy.graphs():
                for value in graph.initializers.values():
                    if value.const_value is not None and value.const_value.nbytes > _SMALL:
                        value.const_value = _append(file, value.const_value, data)
        content = _serialize(copy, target, training_info_of(model))
        with replacing(target) as file:
            file.write(content)
    except BaseException:
        data.unlink(missing_ok=True)
        raise
    for path in former:
        with contextlib.suppress(OSError):  # on Windows a mapped file cannot be removed: it is only left over
            path.unlink()


def _data_files(target: Path, count: int = 16) -> Iterator[Path]:
    yield target.with_name(f"{target.name}.data")
    for number in range(1, count + 1):
        yield target.with_name(f"{target.name}.{number}.data")


def _append(file: BinaryIO, tensor: onnx_ir.TensorProtocol, data: Path) -> onnx_ir.ExternalTensor:
    """Write a tensor's bytes at the end of the data file."""
    # Mapping an external tensor before its file may be removed keeps it readable for whoever holds it.
    tensor.numpy()
    file.write(b"\0" * (-file.tell() % _ALIGNMENT))
    offset = file.tell()
    file.write(memoryview(tensor.tobytes()))
    shape = onnx_ir.Shape(tensor.shape.numpy())
    return onnx_ir.ExternalTensor(
        data.name, offset, file.tell() - offset, tensor.dtype, shape=shape, name=tensor.name or ""
    )
