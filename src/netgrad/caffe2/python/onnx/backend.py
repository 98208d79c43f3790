"""Running ONNX models as Caffe2 nets: a backend as the package ``onnx`` describes them."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, Device, DeviceType

from netgrad.caffe2 import caffe2_pb2
from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.onnx_import.one_node import KNOWN_OPSET, fill_of
from netgrad.caffe2.python import core
from netgrad.caffe2.python.onnx.backend_rep import Caffe2Rep, converted_model
from netgrad.caffe2.python.onnx.nodes import Caffe2Ops as Caffe2Ops
from netgrad.caffe2.python.onnx.nodes import OnnxAttributes as OnnxAttributes
from netgrad.caffe2.python.onnx.nodes import OnnxNode as OnnxNode
from netgrad.caffe2.python.onnx.nodes import convertAttributeProto as convertAttributeProto
from netgrad.caffe2.python.onnx.nodes import force_unicode as force_unicode
from netgrad.core import InvalidArgumentError, NetgradError, UnsupportedOperatorError

_MODEL_RECORD = "__MODEL_PROTO"  # the model in an archive, beside one record for each tensor
_ELSEWHERE = b"__EXTERNAL"  # the content of a tensor whose values are in such a record


def get_device_option(device: Device) -> DeviceOption:
    """A device of ONNX as Caffe2 has it.

    Raises:
        InvalidArgumentError: Caffe2 has no such device.
    """
    types = {DeviceType.CPU: caffe2_pb2.CPU, DeviceType.CUDA: caffe2_pb2.CUDA}
    if device.type not in types:
        raise InvalidArgumentError(f"Caffe2 has no devices of the type {device.type}")
    return core.DeviceOption(types[device.type], device.device_id)


class Caffe2Backend(Backend):
    """ONNX models and nodes on Caffe2's operators, which run on the processor."""

    _known_opset_version = KNOWN_OPSET
    _names = DummyName()

    @classmethod
    def dummy_name(cls) -> str:
        """A name that it has not given before."""
        return cls._names.new_dummy_name()

    @classmethod
    def _create_tensor_filling_op(cls, onnx_tensor: onnx.TensorProto, name: str | None = None) -> OperatorDef:
        """The operator that writes a tensor; see `netgrad.caffe2.onnx_import.one_node.fill_of`."""
        return fill_of(onnx_tensor, name or "")

    @classmethod
    def prepare(
        cls,
        model: onnx.ModelProto,
        device: str = "CPU",
        raw_values_dict: Mapping[str, bytes] | None = None,
        **kwargs: Any,
    ) -> Caffe2Rep:
        """Make a model ready to run.

        Args:
            model: The model.
            device: Only ``CPU``.
            raw_values_dict: The bytes of initializers that the model says are stored elsewhere, by name.
            **kwargs: What other backends take; it makes no difference.

        Raises:
            UnsupportedOperatorError: Caffe2 can't express an operator in its form.
            InvalidArgumentError: The device is another one, or values that are stored elsewhere are missing.
        """
        _check_device(device)
        complete = _with_values(model, raw_values_dict or {})
        return Caffe2Rep.of_model(complete)

    @classmethod
    def prepare_zip_archive(cls, file: Any, device: str = "CPU", **kwargs: Any) -> Caffe2Rep:
        """Make a model ready to run that is an archive of the model and its tensors."""
        with zipfile.ZipFile(file) as archive:
            model = onnx.load_model_from_string(archive.read(_MODEL_RECORD))
            values = {name: archive.read(name) for name in archive.namelist() if name != _MODEL_RECORD}
        return cls.prepare(model, device, raw_values_dict=values, **kwargs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run one node.

        Args:
            node: The node.
            inputs: An array by the name of each input, or a list of arrays in their order.
            device: Only ``CPU``.
            outputs_info: Element types and shapes of the outputs; they are found without.
            **kwargs: ``opset_version``: the version of the operator set that the node is of, by default 9.

        Returns:
            A named tuple of the outputs.
        """
        names = [name for name in dict.fromkeys(node.input) if name]
        arrays = inputs if isinstance(inputs, dict) else dict(zip(names, inputs, strict=True))
        given = {name: np.asarray(array) for name, array in arrays.items()}
        opset = int(kwargs.get("opset_version", KNOWN_OPSET))
        try:
            rep = cls.prepare(_model_of(node, given, (), opset), device)
        except UnsupportedOperatorError:
            # what Caffe2 takes as arguments has to be known: all but the first input
            rep = cls.prepare(_model_of(node, given, names[1:], opset), device)
        return rep.run({name: given[name] for name in rep.uninitialized})

    @classmethod
    def onnx_graph_to_caffe2_net(
        cls,
        model: onnx.ModelProto | onnx.GraphProto,
        device: str = "CPU",
        opset_version: int | None = None,
    ) -> tuple[NetDef, NetDef]:
        """The nets of a model: the one that writes the parameters, and the one that predicts.

        Args:
            model: The model; or its graph, which early scripts give.
            device: Only ``CPU``.
            opset_version: The version of the operator set that a graph is of, by default 9; a model says it.

        Raises:
            UnsupportedOperatorError: Caffe2 can't express an operator in its form.
            InvalidArgumentError: The device is another one.
        """
        _check_device(device)
        if isinstance(model, onnx.GraphProto):
            opsets = [helper.make_opsetid("", KNOWN_OPSET if opset_version is None else opset_version)]
            model = helper.make_model(model, opset_imports=opsets, ir_version=10)
        converted = converted_model(model)
        return converted.init_net, converted.predict_net

    @classmethod
    def supports_device(cls, device_str: str) -> bool:
        """Whether models run on a device: ``CPU``."""
        return bool(Device(device_str).type == DeviceType.CPU)

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether a model can be prepared."""
        if not cls.supports_device(device):
            return False
        try:
            cls.prepare(model, device)
        except NetgradError:
            return False
        return True


def _check_device(device: str) -> None:
    if not Caffe2Backend.supports_device(device):
        raise InvalidArgumentError(f"models run on the device CPU, not on '{device}'")


def _with_values(model: onnx.ModelProto, values: Mapping[str, bytes]) -> onnx.ModelProto:
    """The model with the content of the tensors that it says are stored elsewhere."""
    names = [tensor.name for tensor in model.graph.initializer if tensor.raw_data == _ELSEWHERE]
    if not names:
        return model
    missing = [name for name in names if name not in values]
    if missing:
        raise InvalidArgumentError(
            f"the values of {', '.join(missing)} are stored elsewhere, and not given",
            hint="read the archive by prepare_zip_archive",
        )
    complete = onnx.ModelProto()
    complete.CopyFrom(model)
    for tensor in complete.graph.initializer:
        if tensor.raw_data == _ELSEWHERE:
            tensor.raw_data = values[tensor.name]
    return complete


def _model_of(
    node: onnx.NodeProto, given: Mapping[str, np.ndarray[Any, Any]], constants: Sequence[str], opset: int
) -> onnx.ModelProto:
    """A model of one node, some of whose inputs are constants."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
        if name not in constants
    ]
    initializers = [onnx.numpy_helper.from_array(given[name], name) for name in constants if name in given]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], node.name or node.op_type, inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


prepare = Caffe2Backend.prepare
prepare_zip_archive = Caffe2Backend.prepare_zip_archive
run_node = Caffe2Backend.run_node
run_model = Caffe2Backend.run_model
supports_device = Caffe2Backend.supports_device
is_compatible = Caffe2Backend.is_compatible
