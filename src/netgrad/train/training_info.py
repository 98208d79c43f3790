"""A training step as ``training_info``: the form in which the standard keeps a training algorithm in a model.

The step's graph is parted in two. The model that is trained stays the model's graph. What the step computes
besides (loss, backward pass, update) becomes the algorithm, which may read values of that graph; together,
node by node, they are the step again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.names import NameAuthority
from netgrad.train.step import METADATA_KEY, TrainingStep

_FIRST_IR_VERSION = 8  # training_info came in 7; before 8 netgrad's steps are not valid


def write_training_info(step: TrainingStep) -> onnx.ModelProto:
    """See `TrainingStep.to_training_info`."""
    if step.prepared is None:
        raise InvalidArgumentError(
            "a training step that was read from a file does not have the model that it trains",
            hint="make the step with netgrad.training_step",
        )
    model = ir.to_proto(step.prepared)
    whole = ir.to_proto(step.model)
    model.ir_version = max(model.ir_version, whole.ir_version, _FIRST_IR_VERSION)
    imports = {entry.domain: entry.version for entry in (*model.opset_import, *whole.opset_import)}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(domain, version) for domain, version in imports.items())
    model.producer_name = "netgrad"

    parting = _Parting(model.graph, whole.graph)
    variables = {**step.parameters, **step.optimizer_state, **step.carried, step.step: step.step_next}
    names = parting.names
    info = model.training_info.add()
    info.algorithm.CopyFrom(parting.algorithm({*variables}))
    for variable, following in variables.items():
        info.update_binding.add(key=names.get(variable, variable), value=names.get(following, following))
    _write_initialization(
        info, {names.get(name, name): step.initial[name] for name in (*step.optimizer_state, step.step)}
    )
    facts = json.loads(step.model.metadata_props[METADATA_KEY])
    entry = info.algorithm.metadata_props.add()
    entry.key, entry.value = METADATA_KEY, json.dumps(_renamed_facts(facts, names))
    return model


class _Parting:
    """Parts the graph of a step into what an inference graph computes already and the rest.

    Attributes:
        names: For each value of the step that has another name in the algorithm, that name.
    """

    def __init__(self, inference: onnx.GraphProto, whole: onnx.GraphProto) -> None:
        self.names: dict[str, str] = {}
        self._inference, self._whole = inference, whole
        self._free = NameAuthority([*_values(inference), *_values(whole)])
        self._nodes = NameAuthority(node.name for node in _all_nodes(inference))
        self._there = set(_values(inference))
        self._content = {tensor.name: tensor for tensor in inference.initializer}

    def algorithm(self, variables: set[str]) -> onnx.GraphProto:
        """What is not in the inference graph: inputs, initializers, nodes, and all outputs that are not."""
        graph = onnx.GraphProto(name="training step")
        fed = {value.name for value in self._inference.input}
        kept = {tensor.name for tensor in self._whole.initializer}
        for tensor in self._whole.initializer:
            same = self._content.get(tensor.name)
            if same is not None and (tensor.name in variables or _equal(tensor, same)):
                continue
            graph.initializer.add().CopyFrom(tensor)
            graph.initializer[-1].name = self._moved(tensor.name)
        for value in self._whole.input:
            if value.name in variables or (value.name in fed and value.name not in kept):
                continue
            graph.input.add().CopyFrom(value)
            # an input with a default was renamed with its initializer
            graph.input[-1].name = self.names.get(value.name) or self._moved(value.name, value.name in kept)
        graph.node.extend(self._new_nodes())
        outputs = {value.name for value in self._inference.output}
        written = {name for node in graph.node for name in node.output}
        for value in self._whole.output:
            name = self.names.get(value.name, value.name)
            if name not in written:
                if name in outputs:
                    continue
                copy = self._free.unique(f"{value.name}_result")
                graph.node.append(
                    helper.make_node("Identity", [name], [copy], name=self._nodes.unique(f"training/{copy}"))
                )
                self.names[value.name] = name = copy
            graph.output.add().CopyFrom(value)
            graph.output[-1].name = name
        return graph

    def _moved(self, name: str, is_new: bool = False) -> str:
        """The name in the algorithm of a value that is not the inference graph's."""
        if is_new or name not in self._there:
            return name
        self.names[name] = self._free.unique(f"{name}_training")
        return self.names[name]

    def _new_nodes(self) -> Iterable[onnx.NodeProto]:
        twins = {tuple(node.output): node for node in self._inference.node}
        for node in self._whole.node:
            twin = twins.get(tuple(node.output))
            moved = any(name in self.names for name in _read(node))
            if twin is not None and not moved and _bare(twin) == _bare(node):
                continue
            new = onnx.NodeProto()
            new.CopyFrom(node)
            new.name = self._nodes.unique(node.name)
            _rename_inputs(new, self.names)
            for index, name in enumerate(new.output):
                if name:
                    new.output[index] = self._moved(name)
            yield new


def _write_initialization(info: onnx.TrainingInfoProto, first: Mapping[str, npt.NDArray[Any]]) -> None:
    """A graph that computes the first values of the optimizer's state and of the step count."""
    graph = info.initialization
    graph.name = "initialization"
    for name, array in first.items():
        output = f"{name}/first"
        if array.size > 1 and not array.any():
            shape = f"{name}/shape"
            graph.node.append(
                helper.make_node(
                    "Constant", [], [shape], value=numpy_helper.from_array(np.asarray(array.shape, np.int64))
                )
            )
            zero = numpy_helper.from_array(np.zeros(1, array.dtype))
            graph.node.append(helper.make_node("ConstantOfShape", [shape], [output], value=zero))
        else:
            graph.node.append(
                helper.make_node("Constant", [], [output], value=numpy_helper.from_array(np.asarray(array)))
            )
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.output.append(helper.make_tensor_value_info(output, kind, list(array.shape)))
        info.initialization_binding.add(key=name, value=output)


def _renamed_facts(facts: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """What the step's metadata says, in the names of the algorithm."""

    def renamed(entry: Any) -> Any:
        if isinstance(entry, str):
            return names.get(entry, entry)
        if isinstance(entry, dict):
            return {renamed(key): renamed(value) for key, value in entry.items()}
        return [renamed(one) for one in entry] if isinstance(entry, list) else entry

    # a metric's name and the optimizer's are words, not values
    result = {key: value if key == "optimizer" else renamed(value) for key, value in facts.items()}
    result["metrics"] = {word: renamed(name) for word, name in facts["metrics"].items()}
    return result


# ---- messages --------------------------------------------------------------------------------------------


def _all_nodes(graph: onnx.GraphProto) -> Iterable[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for inner in _inner(node):
            yield from _all_nodes(inner)


def _inner(node: onnx.NodeProto) -> Sequence[onnx.GraphProto]:
    graphs = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    return [*graphs, *(graph for attribute in node.attribute for graph in attribute.graphs)]


def _values(graph: onnx.GraphProto) -> Iterable[str]:
    yield from (value.name for value in graph.input)
    yield from (tensor.name for tensor in graph.initializer)
    yield from (name for node in _all_nodes(graph) for name in node.output if name)


def _read(node: onnx.NodeProto) -> Iterable[str]:
    yield from node.input
    for inner in _inner(node):
        for one in inner.node:
            yield from _read(one)


def _rename_inputs(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    for index, name in enumerate(node.input):
        node.input[index] = names.get(name, name)
    for inner in _inner(node):
        for one in inner.node:
            _rename_inputs(one, names)


def _bare(node: onnx.NodeProto) -> bytes:
    """A node without its name and metadata, to be compared."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.ClearField("name")
    copy.ClearField("doc_string")
    del copy.metadata_props[:]
    ordered = sorted(copy.attribute, key=lambda attribute: attribute.name)
    kept = [onnx.AttributeProto.FromString(attribute.SerializeToString()) for attribute in ordered]
    del copy.attribute[:]
    copy.attribute.extend(kept)
    content: bytes = copy.SerializeToString(deterministic=True)
    return content


def _equal(one: onnx.TensorProto, other: onnx.TensorProto) -> bool:
    if one.data_type != other.data_type or list(one.dims) != list(other.dims):
        return False
    a, b = numpy_helper.to_array(one), numpy_helper.to_array(other)
    return a.tobytes() == b.tobytes() if a.dtype != object else bool((a == b).all())
