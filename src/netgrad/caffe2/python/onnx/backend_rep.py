"""A model that is ready to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.base import BackendRep, namedtupledict

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.onnx_import.model import from_onnx
from netgrad.caffe2.onnx_import.node import computed_arguments
from netgrad.caffe2.python.onnx.workspace import Workspace
from netgrad.caffe2.saved_model import SavedModel
from netgrad.core import UnsupportedOperatorError

_Shape = tuple[int, ...]


class Caffe2Rep(BackendRep):
    """A pair of nets in a workspace of its own.

    Attributes:
        init_net: The net that writes the parameters.
        predict_net: The net that predicts.
        workspace: Where they run.
        uninitialized: The blobs that are fed at each run, in order.

    What Caffe2 takes as arguments, the model may take as inputs. Then the nets are written when it runs, for
    the values of these inputs, and are empty before.
    """

    def __init__(
        self, init_net: NetDef, predict_net: NetDef, workspace: Workspace, uninitialized: Sequence[str]
    ) -> None:
        self.init_net = init_net
        self.predict_net = predict_net
        self.workspace = workspace
        self.uninitialized = list(uninitialized)
        self._created = False
        self._initialized = False
        self._model: onnx.ModelProto | None = None
        self._shapes: dict[str, _Shape] = {}
        self._arguments: dict[str, np.ndarray[Any, Any] | None] = {}

    @classmethod
    def of_model(cls, model: onnx.ModelProto) -> Caffe2Rep:
        """The nets of a model; they are written again when an input comes in another shape than it says."""
        stored = {tensor.name for tensor in model.graph.initializer}
        inputs = [info.name for info in model.graph.input if info.name not in stored]
        rep = cls(NetDef(), NetDef(), Workspace(), inputs)
        try:
            converted = converted_model(model)
        except UnsupportedOperatorError as error:
            names = computed_arguments(error)
            if not names or not set(names) <= set(inputs):
                raise
            rep._arguments = dict.fromkeys(names)
        else:
            rep.init_net, rep.predict_net = converted.init_net, converted.predict_net
        rep._model = model
        rep._shapes = {info.name: shape for info in model.graph.input if (shape := _fixed(info)) is not None}
        if rep._arguments:
            return rep
        rep._initialize()
        for info in model.graph.input:  # so that all that the net reads can be fetched, and exported, at once
            if info.name in rep._shapes and info.name in inputs:
                dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
                rep.workspace.FeedBlob(info.name, np.ones(rep._shapes[info.name], dtype))
        return rep

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model once.

        Args:
            inputs: An array by the name of each input, or a list of arrays in the order of the inputs, or the
                array of the only input.
            **kwargs: What other backends take; it makes no difference.

        Returns:
            A named tuple of the outputs; ``[name]`` takes names that are no words of Python.

        Raises:
            RuntimeError: An input is missing, or there are more than the model has.
        """
        named = self._named(inputs)
        self._fit({name: np.asarray(array) for name, array in named.items()})
        self._initialize()
        for name in named.keys() - self._arguments.keys():
            array = named[name]
            self.workspace.FeedBlob(name, array)
        if not self._created:
            self.workspace.CreateNet(self.predict_net, overwrite=True)
            self._created = True
        self.workspace.RunNet(self.predict_net.name)
        names = list(self.predict_net.external_output)
        outputs: Any = namedtupledict("Outputs", names)
        return outputs(*(self.workspace.FetchBlob(name) for name in names))

    def _initialize(self) -> None:
        if not self._initialized:
            self.workspace.RunNetOnce(self.init_net)
            self._initialized = True

    def _fit(self, given: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Write the nets again, if they are made for other shapes or arguments than are given."""
        shapes = {
            name: array.shape
            for name, array in given.items()
            if self._shapes.get(name, array.shape) != array.shape
        }
        arguments = {name: given[name] for name in self._arguments if name in given}
        known = all(
            value is not None and np.array_equal(value, arguments.get(name, value))
            for name, value in self._arguments.items()
        )
        if self._model is None or (known and not shapes):
            return
        self._shapes.update(shapes)
        self._arguments.update(arguments)
        while True:
            try:
                converted = converted_model(self._with_known(self._model))
                break
            except UnsupportedOperatorError as error:
                more = [name for name in computed_arguments(error) if name in given]
                if not self._arguments or not more:
                    raise
                self._arguments.update({name: given[name] for name in more})
        self.init_net, self.predict_net = converted.init_net, converted.predict_net
        self._created = self._initialized = False

    def _with_known(self, source: onnx.ModelProto) -> onnx.ModelProto:
        """The model with the shapes that are known, and with inputs as initializers that have to be known."""
        model = onnx.ModelProto()
        model.CopyFrom(source)
        del model.graph.input[:]
        for info in source.graph.input:
            value = self._arguments.get(info.name)
            if value is not None:
                model.graph.initializer.append(numpy_helper.from_array(value, info.name))
                continue
            found = model.graph.input.add()
            found.CopyFrom(info)
            if info.name in self._shapes:
                dims = found.type.tensor_type.shape.dim
                del dims[:]
                for dim in self._shapes[info.name]:
                    dims.add().dim_value = dim
        del model.graph.value_info[:]  # which was true of the shapes before
        for info in model.graph.output:
            info.type.tensor_type.ClearField("shape")
        return model

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            missing = [name for name in self.uninitialized if name not in inputs]
            if missing and not self._created:
                raise RuntimeError(f"no value was given for the inputs {', '.join(missing)}")
            return inputs
        listed = list(inputs) if isinstance(inputs, list | tuple) else [np.asarray(inputs)]
        if len(listed) != len(self.uninitialized):
            raise RuntimeError(
                f"Expected {len(self.uninitialized)} values for uninitialized graph inputs "
                f"({', '.join(self.uninitialized)}), but got {len(listed)}."
            )
        return dict(zip(self.uninitialized, listed, strict=True))


def converted_model(model: onnx.ModelProto) -> SavedModel:
    """The nets of a model, which are called after its graph."""
    converted = from_onnx(model)
    converted.init_net.name = f"{model.graph.name}_init"
    converted.predict_net.name = f"{model.graph.name}_predict"
    return converted


def _fixed(info: onnx.ValueInfoProto) -> _Shape | None:
    """The shape of an input, if it says all dims."""
    tensor = info.type.tensor_type
    if not tensor.HasField("shape") or not all(dim.HasField("dim_value") for dim in tensor.shape.dim):
        return None
    return tuple(dim.dim_value for dim in tensor.shape.dim)
