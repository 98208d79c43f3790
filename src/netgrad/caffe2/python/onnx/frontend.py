"""Caffe2 nets as ONNX graphs and models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.convert import to_onnx
from netgrad.caffe2.execute import Program
from netgrad.caffe2.lowering.net import OPSET
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.python.core.ssa import get_ssa, get_undefined_blobs
from netgrad.caffe2.saved_model import SavedModel

ValueInfo = Mapping[str, tuple[int, Sequence[int]]]
"""The number of ONNX's element type, and the shape, of each input by name."""


class Caffe2Frontend:
    """Writes nets in ONNX's operators.

    Attributes:
        target_opset_version: The version of the operator set that they are written in.
    """

    target_opset_version = OPSET
    _names = DummyName()

    @classmethod
    def caffe2_net_to_onnx_model(
        cls, predict_net: NetDef, init_net: NetDef | None = None, value_info: ValueInfo | None = None
    ) -> onnx.ModelProto:
        """A net as a model, whose initializers are the parameters, which are among its inputs as well.

        Args:
            predict_net: The net that predicts.
            init_net: The net that writes the parameters.
            value_info: Element type and shape of each input that ``init_net`` doesn't write.

        Raises:
            ValueError: ``value_info`` is no mapping.
            RuntimeError: It doesn't say an input.
            UnsupportedOperatorError: An operator can't be written in ONNX.
        """
        if value_info is None:
            value_info = {}
        if not isinstance(value_info, Mapping):
            raise ValueError(f"value_info maps names to pairs of type and shape, but is {value_info!r}")
        model = SavedModel(predict_net, NetDef(name="init") if init_net is None else init_net)
        missing = [name for name in model.inputs if name not in value_info]
        if missing:
            raise RuntimeError(f"there is no value info of the inputs {', '.join(missing)}")
        wanted = {name: value_info[name] for name in model.inputs}
        types = {name: _numpy_name(number) for name, (number, _) in wanted.items()}
        found = to_onnx(model, {name: list(shape) for name, (_, shape) in wanted.items()}, types=types)
        _list_parameters(found.graph, predict_net.external_input)
        return found

    @classmethod
    def caffe2_net_to_onnx_graph(
        cls, predict_net: NetDef, init_net: NetDef | None = None, value_info: ValueInfo | None = None
    ) -> onnx.GraphProto:
        """A net as a graph; see `caffe2_net_to_onnx_model`."""
        return cls.caffe2_net_to_onnx_model(predict_net, init_net, value_info).graph

    @classmethod
    def _ssa_rewrite(cls, net: NetDef, init_net: NetDef | None, value_info: ValueInfo) -> None:
        """Give each value of a net a name of its own, in place.

        Values of a blob that is written more than once, or read before it is written, are called by the
        blob's name and a number behind it, from 1 on. What isn't written by the net keeps its name, so that
        ``init_net`` and ``value_info`` stay right as they are.
        """
        ssa, last = get_ssa(net)
        undefined = get_undefined_blobs(ssa)
        taken = {name for op in net.op for name in (*op.input, *op.output)} | set(net.external_input)
        names: dict[tuple[str, int], str] = {}
        for name, version in (output for _, outputs in ssa for output in outputs):
            if last[name] == 1 and name not in undefined:
                names[name, version] = name
                continue
            wanted = f"{name}_{version}"
            while wanted in taken:
                wanted += "_"
            taken.add(wanted)
            names[name, version] = wanted
        for op, (inputs, outputs) in zip(net.op, ssa, strict=True):
            op.input[:] = [names.get(one, one[0]) for one in inputs]
            op.output[:] = [names[one] for one in outputs]
        results = [(name, last.get(name, 0)) for name in net.external_output]
        net.external_output[:] = [names.get(one, one[0]) for one in results]

    @classmethod
    def ssa_rewrite(cls, net: NetDef, init_net: NetDef | None, value_info: ValueInfo) -> None:
        """Give each value of a net a name of its own, in place: the blob's name, with a number behind it."""
        cls._ssa_rewrite(net, init_net, value_info)

    @classmethod
    def dummy_name(cls) -> str:
        """A name that it has not given before."""
        return cls._names.new_dummy_name()

    @classmethod
    def caffe2_init_net_to_initializer(cls, init_net: NetDef) -> list[onnx.TensorProto]:
        """What a net of fills writes, as tensors."""
        written = Program(init_net.op).run({})
        return [numpy_helper.from_array(array, name) for name, array in written.items()]


def _list_parameters(graph: onnx.GraphProto, order: Sequence[str]) -> None:
    """Make inputs of the initializers, in the order of the net's external inputs: what scripts look for."""
    infos = {info.name: info for info in graph.input}
    for tensor in graph.initializer:
        infos[tensor.name] = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
    first = [name for name in order if name in infos]
    del graph.input[:]
    graph.input.extend(infos[name] for name in dict.fromkeys((*first, *infos)))


def _numpy_name(number: Any) -> str:
    dtype: np.dtype[Any] = helper.tensor_dtype_to_np_dtype(int(number))
    return dtype.name


caffe2_net_to_onnx_graph = Caffe2Frontend.caffe2_net_to_onnx_graph
caffe2_net_to_onnx_model = Caffe2Frontend.caffe2_net_to_onnx_model
caffe2_init_net_to_initializer = Caffe2Frontend.caffe2_init_net_to_initializer
ssa_rewrite = Caffe2Frontend.ssa_rewrite
