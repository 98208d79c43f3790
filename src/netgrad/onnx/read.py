"""Reading a model: from a file, bytes, a protobuf message or an ``onnx_ir.Model``.

Weights in external data files stay on disk: they are mapped into memory when somebody asks for their values,
so that a model of many gigabytes is opened without being read.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import onnx
import onnx.numpy_helper
import onnx.serialization
import onnx_ir

from netgrad.core.errors import InvalidArgumentError, InvalidModelError
from netgrad.onnx.training_info import keep_training_info, read_training_info, training_info_of

_DECODED = 2**20  # bytes; tensors up to this size are decoded to see whether they can be


ModelSource: TypeAlias = str | os.PathLike[str] | bytes | onnx.ModelProto | onnx_ir.Model
"""Whatever a function of netgrad takes as a model."""


def load(source: ModelSource) -> onnx_ir.Model:
    """Read a model into a fresh ``onnx_ir.Model``, which may be changed without changing the source.

    Tensors are shared with the source and must not be changed (nor renamed: a tensor's name belongs to it).
    Nodes that are not in topological order are sorted. What a model says of its training (``training_info``)
    stays with it, for `save` and `TrainingStep.from_training_info`.

    Args:
        source: The path of a file (``.onnx`` and any other ending: protobuf; ``.textproto``, ``.prototxt``,
            ``.pbtxt``; ``.json``, ``.onnxjson``; ``.onnxtxt``, ``.onnxtext``), the bytes of such a protobuf
            file, an ``onnx.ModelProto`` or an ``onnx_ir.Model``. External data of a file is looked for in the
            file's folder, external data of bytes and messages in the current folder.

    Returns:
        The model. Large external tensors are not in memory.

    Raises:
        InvalidModelError: The file is missing, unreadable, truncated or no ONNX model, a file of external
            data is missing or too short, or the graph reads a name that nothing defines.
        InvalidArgumentError: ``source`` is something else.
    """
    if isinstance(source, onnx_ir.Model):
        return _clone(source)
    if isinstance(source, onnx.ModelProto):
        return _from_proto(source, "the given ModelProto", "")
    if isinstance(source, bytes):
        return _from_proto(_parse(source, "protobuf", "the given bytes"), "the given bytes", "")
    if isinstance(source, str | os.PathLike):
        return _from_file(os.fspath(source))
    raise InvalidArgumentError(
        f"a model is a path, bytes, an onnx.ModelProto or an onnx_ir.Model, not {type(source).__name__}"
    )


def _from_file(path: str) -> onnx_ir.Model:
    where = f"'{path}'"
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise InvalidModelError(f"cannot read {where}: there is no such file") from None
    except IsADirectoryError:
        raise InvalidModelError(f"cannot read {where}: it is a folder, not a model file") from None
    except (OSError, ValueError) as error:
        raise InvalidModelError(f"cannot read {where}: {reason_of(error)}") from None
    ending = os.path.splitext(path)[1].lower()
    known = onnx.serialization.registry.get_format_from_file_extension(ending)
    return _from_proto(_parse(content, known or "protobuf", where), where, os.path.dirname(path) or os.curdir)


def _parse(content: bytes, form: str, where: str) -> onnx.ModelProto:
    if not content:
        raise InvalidModelError(f"cannot read {where}: it is empty")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # onnx calls its own text form experimental at every use
            return onnx.load_model_from_string(content, format=form)
    except Exception as error:  # the parsers have no exception class in common
        if form == "protobuf":
            raise InvalidModelError(
                f"cannot read {where}: it is not an ONNX model, or a truncated one"
            ) from None
        raise InvalidModelError(
            f"cannot read {where}: it is not an ONNX model in the {form} form ({reason_of(error)})"
        ) from None


def _from_proto(proto: onnx.ModelProto, where: str, folder: str) -> onnx_ir.Model:
    if not proto.HasField("graph"):
        raise InvalidModelError(f"cannot read {where}: it is not an ONNX model (it holds no graph)")
    if not proto.opset_import:
        raise InvalidModelError(f"cannot read {where}: it is not an ONNX model (it imports no operator set)")
    for imported in (*proto.opset_import, *(one for f in proto.functions for one in f.opset_import)):
        if not 0 < imported.version < 2**31:
            raise InvalidModelError(
                f"{where} is not a valid ONNX model: it imports version {imported.version} of "
                f"operator set '{imported.domain}'"
            )
    _check_names(proto.graph, frozenset(), where)
    for function in proto.functions:
        _check_texts(function.node, where)
    if proto.graph.sparse_initializer:
        proto = _with_dense_initializers(proto, where)
    maps = next((value.name for value in proto.graph.input if has_maps(value.type)), None)
    if maps is not None:
        raise InvalidModelError(
            f"{where} takes a map, its input '{maps}', which netgrad cannot read",
            hint="export the model with a tensor as input",
        )
    if any(has_maps(value.type) for value in (*proto.graph.output, *proto.graph.value_info)):
        proto = _without_map_types(proto)
    try:
        model = onnx_ir.from_proto(proto)
    except Exception as error:  # onnx_ir wraps whatever a malformed field caused
        raise InvalidModelError(f"{where} is not a valid ONNX model: {reason_of(error)}") from None
    try:
        keep_training_info(model, read_training_info(proto, folder))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise InvalidModelError(
            f"{where} keeps tensors of its training_info in external data that cannot be read "
            f"({reason_of(error)})"
        ) from None
    _name_default_domain(model)
    if folder:
        _set_data_folder(model, folder)
    _forget_negative_dims(model)
    _check_external_data(model, where)
    _check_tensors(model, where)
    try:
        _sort(model)
    except ValueError:
        raise InvalidModelError(f"{where} is not a valid ONNX model: its graph has a cycle") from None
    return model


def _clone(model: onnx_ir.Model) -> onnx_ir.Model:
    try:
        copy = model.clone()
    except RuntimeError as error:
        raise InvalidModelError(
            "the given onnx_ir model cannot be copied, are its nodes in topological order? "
            f"({reason_of(error)})"
        ) from None
    keep_training_info(copy, training_info_of(model))
    for graph in copy.graphs():
        for node in graph:
            for output in node.outputs:
                # Some passes note what a node computes; renaming the value would rename the shared tensor.
                output.const_value = None
    _name_default_domain(copy)
    return copy


def _check_names(graph: onnx.GraphProto, outer: frozenset[str], where: str) -> None:
    """Every name read is defined, and no name is defined twice, in the graph and the graphs inside it."""
    initializers = {tensor.name for tensor in graph.initializer}
    initializers.update(tensor.values.name for tensor in graph.sparse_initializer)
    defined = {value.name for value in graph.input} | initializers
    _check_texts(graph.node, where)
    for node in graph.node:
        for name in node.output:
            if name in defined and name:
                raise InvalidModelError(
                    f"{where} is not a valid ONNX model: '{name}', written by {_say(node)}, is defined twice"
                )
            defined.add(name)
    visible = outer | defined | {""}
    for node in graph.node:
        for name in node.input:
            if name not in visible:
                raise InvalidModelError(
                    f"{where} is not a valid ONNX model: {_say(node)} reads '{name}', which nothing defines"
                )
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs) if attribute.HasField("g") else attribute.graphs:
                if inner.sparse_initializer:
                    raise InvalidModelError(
                        f"{where} has a sparse initializer inside {_say(node)}, which netgrad cannot read"
                    )
                _check_names(inner, visible, where)
    for value in graph.output:
        if value.name not in visible:
            raise InvalidModelError(
                f"{where} is not a valid ONNX model: nothing defines its output '{value.name}'"
            )


def _check_texts(nodes: Iterable[onnx.NodeProto], where: str) -> None:
    for node in nodes:
        texts = (node.name, node.op_type, node.domain, *node.input, *node.output)
        if not all(isinstance(text, str) for text in texts):  # protobuf gives bytes where it can't decode
            raise InvalidModelError(f"{where} is not a valid ONNX model: it has a name that is not UTF-8")


def _with_dense_initializers(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """A copy in which sparse initializers, which onnx_ir leaves out, are ordinary ones."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for sparse in copy.graph.sparse_initializer:
        values = onnx.numpy_helper.to_array(sparse.values)
        indices = onnx.numpy_helper.to_array(sparse.indices)
        dense = np.zeros(tuple(sparse.dims), values.dtype)
        try:
            if indices.ndim == 1:
                dense.reshape(-1)[indices] = values
            else:
                dense[tuple(indices.T)] = values
        except (IndexError, ValueError):
            raise InvalidModelError(
                f"{where} is not a valid ONNX model: the sparse initializer '{sparse.values.name}' "
                "has indices outside of its shape"
            ) from None
        copy.graph.initializer.append(onnx.numpy_helper.from_array(dense, sparse.values.name))
    del copy.graph.sparse_initializer[:]
    return copy


def has_maps(kind: onnx.TypeProto) -> bool:
    """Whether it is the type of a map, or of a sequence of maps, which onnx_ir does not have."""
    while kind.HasField("sequence_type"):
        kind = kind.sequence_type.elem_type
    return bool(kind.HasField("map_type"))


def _without_map_types(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A copy that does not say which values are maps, or sequences of maps: onnx_ir has no such type.

    A runtime knows it from the operator that makes the map (ZipMap).
    """
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for value in (*copy.graph.output, *copy.graph.value_info):
        if has_maps(value.type):
            value.ClearField("type")
    return copy


def _name_default_domain(model: onnx_ir.Model) -> None:
    """``ai.onnx`` is the long name of the default domain; onnx_ir shortens it in nodes, not in imports."""
    functions = model.functions.values()
    for imports in (model.opset_imports, *(function.opset_imports for function in functions)):
        if "ai.onnx" in imports:
            imports[""] = max(imports.pop("ai.onnx"), imports.get("", 0))


def _say(node: onnx.NodeProto) -> str:
    return f"{node.op_type} node '{node.name}'" if node.name else f"a {node.op_type} node"


def tensors(model: onnx_ir.Model) -> Iterator[onnx_ir.TensorProtocol]:
    """Every tensor that the model holds: initializers and attributes, inner graphs and functions too."""
    for graph in model.graphs():
        for value in graph.initializers.values():
            if value.const_value is not None:
                yield value.const_value
        for node in graph:
            for attribute in node.attributes.values():
                if attribute.is_ref():
                    continue
                if attribute.type == onnx_ir.AttributeType.TENSOR:
                    yield attribute.value  # as_tensor() checks a protocol, which is slow
                elif attribute.type == onnx_ir.AttributeType.TENSORS:
                    yield from attribute.as_tensors()


def _external(model: onnx_ir.Model) -> Iterator[onnx_ir.ExternalTensor]:
    return (tensor for tensor in tensors(model) if isinstance(tensor, onnx_ir.ExternalTensor))


def _set_data_folder(model: onnx_ir.Model, folder: str) -> None:
    for tensor in _external(model):
        tensor.base_dir = folder


def _check_external_data(model: onnx_ir.Model, where: str) -> None:
    sizes: dict[str, int] = {}
    for tensor in _external(model):
        path = str(tensor.path)
        if path not in sizes:
            if not os.path.isfile(path):
                raise InvalidModelError(
                    f"{where} keeps tensor '{tensor.name}' in the external data file '{path}', "
                    "which does not exist"
                )
            sizes[path] = os.path.getsize(path)
        end = (tensor.offset or 0) + (tensor.length if tensor.length is not None else tensor.nbytes)
        if end > sizes[path]:
            raise InvalidModelError(
                f"the external data file '{path}' of {where} is too short: tensor '{tensor.name}' "
                f"ends at byte {end}, the file at {sizes[path]}"
            )


def _check_tensors(model: onnx_ir.Model, where: str) -> None:
    """Tensors inside the message have as much data as their shape asks for."""
    for tensor in tensors(model):
        if not isinstance(tensor, onnx_ir.serde.TensorProtoTensor):
            continue
        try:
            if tensor.nbytes <= _DECODED:
                tensor.numpy()
            elif tensor.dtype.is_floating_point() and tensor.raw.ByteSize() < tensor.nbytes:
                raise ValueError(f"it has {tensor.raw.ByteSize()} bytes of {tensor.nbytes}")
        except Exception as error:  # numpy and onnx_ir raise all kinds
            raise InvalidModelError(
                f"{where} is not a valid ONNX model: tensor '{tensor.name}' cannot be read "
                f"({reason_of(error)})"
            ) from None


def _forget_negative_dims(model: onnx_ir.Model) -> None:
    """Some exporters write -1 for a dim that they do not know, which is not in the standard."""
    for graph in model.graphs():
        for value in (*graph.inputs, *graph.outputs, *(out for node in graph for out in node.outputs)):
            shape = value.shape
            if shape is not None and any(isinstance(dim, int) and dim < 0 for dim in shape):
                value.shape = onnx_ir.Shape(
                    None if isinstance(dim, int) and dim < 0 else dim for dim in shape
                )


def _sort(model: onnx_ir.Model) -> None:
    """Bring the nodes into topological order, if they are not: some tools write them in another."""
    for graph in model.graphs():
        seen: set[onnx_ir.Node] = set()
        for node in graph:
            if any(p.graph is graph and p not in seen for p in node.predecessors()):
                graph.sort()
                break
            seen.add(node)


def reason_of(error: BaseException) -> str:
    """The innermost cause's first line: what went wrong rather than where in a library."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = getattr(error, "strerror", None) or str(error)
    return text.strip().split("\n", 1)[0] or type(error).__name__
