"""Reading ``training_info`` as a training step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, nearest
from netgrad.onnx.lowering.lower import TRAINING
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.training_info import keep_training_info, training_info_of
from netgrad.onnx.view import FLOATING
from netgrad.runtime.session import run
from netgrad.train.step import METADATA_KEY, TrainingStep, array_of, complete, keep_outputs
from netgrad.transforms.lower import lower
from netgrad.transforms.select import listed

_OPTIMIZERS = ("Adagrad", "Adam", "Momentum")


def read_training_info(
    source: ModelSource, index: int, loss: str | None, learning_rate: str | None
) -> TrainingStep:
    """See `TrainingStep.from_training_info`."""
    trained = load(source)
    entries = training_info_of(trained)
    keep_training_info(trained, ())
    if not entries:
        raise InvalidModelError(
            "the model has no training_info",
            hint="TrainingStep.to_training_info writes it; what TrainingStep.save wrote, load reads",
        )
    if not 0 <= index < len(entries):
        raise InvalidArgumentError(
            f"`index` is {index}; the model has {len(entries)} entries of training_info"
        )
    info = entries[index]
    proto = _joined(ir.to_proto(trained), info.algorithm)
    bindings = {entry.key: entry.value for entry in info.update_binding}
    _check_bindings(proto.graph, bindings)
    written = {entry.key: entry.value for entry in info.algorithm.metadata_props}
    model = load(proto)
    if any(node.domain == TRAINING for node in model.graph.all_nodes()):
        model = lower(model)
    if METADATA_KEY in written:
        roles = _roles_as_written(written[METADATA_KEY])
    else:
        infer_shapes(model)
        roles = _roles_found(model, proto, info, bindings, loss, learning_rate)
    if loss is not None and loss != roles.loss:
        raise InvalidArgumentError(
            f"`loss` is '{loss}', and the training_info says that it is '{roles.loss}'"
        )
    first = _first_values(model, info, proto.ir_version, list(proto.opset_import))
    for name in roles.kept:
        _as_input(model.graph, name)
    keep_outputs(model.graph, {roles.loss, *roles.metrics.values(), *roles.variables.values()})
    for value in list(model.graph.inputs):
        if value.name not in (*roles.batch_inputs, *roles.kept):
            model.graph.inputs.remove(value)
    step = TrainingStep(
        model=model,
        batch_inputs=roles.batch_inputs,
        loss=roles.loss,
        metrics=roles.metrics,
        parameters=roles.parameters,
        optimizer_state=roles.optimizer_state,
        carried=roles.carried,
        step=roles.step,
        step_next=roles.step_next,
        learning_rate=roles.learning_rate,
        seed=roles.seed,
        initial={name: first.get(name, array_of(model.graph.initializers[name])) for name in roles.kept},
        optimizer=roles.optimizer,
        original=trained,
    )
    complete(step)
    return step


@dataclass(frozen=True)
class _Roles:
    """What the inputs and outputs mean, as in `TrainingStep`."""

    batch_inputs: tuple[str, ...]
    loss: str
    metrics: Mapping[str, str]
    parameters: Mapping[str, str]
    optimizer_state: Mapping[str, str]
    carried: Mapping[str, str]
    step: str
    step_next: str
    learning_rate: str
    seed: str | None
    optimizer: str

    @property
    def variables(self) -> dict[str, str]:
        """Everything that has a next value, with the output that gives it."""
        pairs = {**self.parameters, **self.optimizer_state, **self.carried}
        return {**pairs, self.step: self.step_next}

    @property
    def kept(self) -> list[str]:
        """The inputs that have a first value."""
        return [*self.variables, self.learning_rate, *([self.seed] if self.seed else [])]


def _joined(model: onnx.ModelProto, algorithm: onnx.GraphProto) -> onnx.ModelProto:
    """The graph that an execution of the algorithm runs, by the standard's definition."""
    graph = model.graph
    graph.input.extend(algorithm.input)
    graph.initializer.extend(algorithm.initializer)
    graph.sparse_initializer.extend(algorithm.sparse_initializer)
    graph.output.extend(algorithm.output)
    graph.node.extend(algorithm.node)
    graph.value_info.extend(algorithm.value_info)
    return model


def _check_bindings(graph: onnx.GraphProto, bindings: Mapping[str, str]) -> None:
    tensors = {tensor.name for tensor in graph.initializer}
    outputs = {value.name for value in graph.output}
    for key, value in bindings.items():
        if key not in tensors:
            raise InvalidModelError(f"training_info updates '{key}', which is no initializer")
        if value not in outputs:
            raise InvalidModelError(f"training_info updates '{key}' with '{value}', which is no output")


def _roles_as_written(text: str) -> _Roles:
    """What `write_training_info` has said."""
    try:
        facts = json.loads(text)
        return _Roles(
            batch_inputs=tuple(facts["batch_inputs"]),
            loss=facts["loss"],
            metrics=dict(facts["metrics"]),
            parameters=dict(facts["parameters"]),
            optimizer_state=dict(facts["optimizer_state"]),
            carried=dict(facts["carried"]),
            step=facts["step"],
            step_next=facts["step_next"],
            learning_rate=facts["learning_rate"],
            seed=facts["seed"],
            optimizer=facts["optimizer"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidModelError(
            f"what the algorithm's metadata property '{METADATA_KEY}' says is not understood: {error!r}"
        ) from error


def _roles_found(
    model: ir.Model,
    proto: onnx.ModelProto,
    info: onnx.TrainingInfoProto,
    bindings: Mapping[str, str],
    loss: str | None,
    learning_rate: str | None,
) -> _Roles:
    """Find out what the names of another tool's algorithm mean."""
    graph = model.graph
    own = {tensor.name for tensor in info.algorithm.initializer}
    optimizers = [
        node for node in proto.graph.node if node.domain == TRAINING and node.op_type in _OPTIMIZERS
    ]
    rate = learning_rate or _only({node.input[0] for node in optimizers})
    if rate is None or rate not in graph.initializers or graph.initializers[rate].dtype not in FLOATING:
        known = (
            f"'{rate}' is no floating-point initializer" if rate else "no optimizer of the standard reads one"
        )
        raise InvalidArgumentError(
            f"it is unknown which tensor of the training_info is the learning rate: {known}",
            hint="name an initializer in `learning_rate`",
        )
    count = _only({node.input[1] for node in optimizers})
    if count not in bindings or graph.initializers[str(count)].dtype != ir.DataType.INT64:
        count = None
    floating = {key for key in bindings if graph.initializers[key].dtype in FLOATING}
    rest = {key: value for key, value in bindings.items() if key != count}
    fed = tuple(value.name or "" for value in graph.inputs if value.name not in graph.initializers)
    step, step_next = (count, bindings[count]) if count is not None else _counter(graph)
    outputs = [value for value in graph.outputs if value.name not in (*bindings.values(), step_next)]
    single = {
        v.name or "" for v in outputs if v.dtype in FLOATING and v.shape is not None and _is_single(v.shape)
    }
    own_outputs = {value.name for value in info.algorithm.output}
    found = loss or _only(single & own_outputs) or _only(single)
    if found is None or found not in {value.name for value in graph.outputs}:
        names = [value.name or "" for value in outputs]
        wrong = (
            f"there is no output '{found}'{nearest(found, names)}" if found else "there is not one candidate"
        )
        raise InvalidArgumentError(
            f"it is unknown which output of the training_info is the loss: {wrong}",
            hint=f"name it in `loss`; the outputs are {listed(names)}",
        )
    return _Roles(
        batch_inputs=fed,
        loss=found,
        metrics={name: name for name in sorted(single - {found})},
        parameters={key: value for key, value in rest.items() if key in floating and key not in own},
        optimizer_state={key: value for key, value in rest.items() if key in floating and key in own},
        carried={key: value for key, value in rest.items() if key not in floating},
        step=step,
        step_next=step_next,
        learning_rate=rate,
        seed=None,
        optimizer=f"training_info({', '.join(sorted({node.op_type for node in optimizers}))})",
    )


def _only(names: set[str]) -> str | None:
    return next(iter(names)) if len(names) == 1 else None


def _is_single(shape: ir.Shape) -> bool:
    return all(dim == 1 for dim in shape)


def _counter(graph: ir.Graph) -> tuple[str, str]:
    """Count the steps, which the algorithm does not do itself."""
    taken = [value.name or "" for node in graph for value in node.outputs]
    free = NameAuthority([*taken, *graph.initializers, *(value.name or "" for value in graph.inputs)])
    count, one, following = free.unique("step"), free.unique("step_one"), free.unique("step_next")
    for name, number in ((count, 0), (one, 1)):
        tensor = ir.Tensor(np.asarray(number, np.int64), name=name)
        graph.register_initializer(
            ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape([]), const_value=tensor)
        )
    addition = ir.Node("", "Add", [graph.initializers[count], graph.initializers[one]], name=following)
    addition.outputs[0].name = following
    addition.outputs[0].type, addition.outputs[0].shape = ir.TensorType(ir.DataType.INT64), ir.Shape([])
    graph.append(addition)
    graph.outputs.append(addition.outputs[0])
    return count, following


def _first_values(
    model: ir.Model, info: onnx.TrainingInfoProto, ir_version: int, imports: list[onnx.OperatorSetIdProto]
) -> dict[str, Any]:
    """What the initialization gives to the variables that it sets."""
    bindings = {entry.key: entry.value for entry in info.initialization_binding}
    if not bindings:
        return {}
    unknown = sorted(set(bindings) - set(model.graph.initializers))
    if unknown:
        raise InvalidModelError(f"training_info initializes '{unknown[0]}', which is no initializer")
    whole = helper.make_model(info.initialization, opset_imports=imports, ir_version=ir_version)
    results = run(whole, {})
    missing = sorted(set(bindings.values()) - set(results))
    if missing:
        raise InvalidModelError(f"the initialization of training_info has no output '{missing[0]}'")
    return {key: np.asarray(results[value]) for key, value in bindings.items()}


def _as_input(graph: ir.Graph, name: str) -> None:
    """Make an initializer an input that has it as a default."""
    if name not in graph.initializers:
        raise InvalidModelError(f"the training_info needs a first value of '{name}', which is no initializer")
    value = graph.initializers[name]
    if not value.is_graph_input():
        graph.inputs.append(value)
