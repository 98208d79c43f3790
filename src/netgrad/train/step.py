"""The training step: one ONNX graph from a batch, parameters and state to the next parameters and state."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, NetgradWarning, nearest
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.rules.choices import GradientChoices, choices_of
from netgrad.onnx.view import FLOATING
from netgrad.onnx.write import save
from netgrad.train.fuse import fold_momentum_into_gemm
from netgrad.train.graph import GraphWriter
from netgrad.train.losses import Loss, WrittenLoss
from netgrad.train.metrics import BY_NAME, Metric
from netgrad.train.modes import (
    carried_statistics,
    draw_dropout,
    inference_form,
    normalize_by_batch,
    separate_statistics,
)
from netgrad.train.optimizers import Optimizer
from netgrad.train.select import carried_names, trainable_names
from netgrad.train.update import write_update
from netgrad.transforms.grad import Accumulation, differentiate
from netgrad.transforms.gradient_nodes import lower_gradients
from netgrad.transforms.select import listed

Array: TypeAlias = npt.NDArray[Any]
Mode: TypeAlias = Literal["as-is", "train"]

METADATA_KEY = "netgrad.training_step"
"""Key of the model's metadata property that says, in JSON, which input and output means what."""

_LAYOUT = 1
"""Version of that JSON."""


@dataclass(frozen=True)
class TrainingStep:
    """One step of training as an ONNX model of standard operators, and what its inputs and outputs mean.

    Any ONNX Runtime session trains with it, in any language: feed a batch, and feed to each input of
    `feedback` what the run before gave for it. All inputs but the batch have their first value as a
    default, so the first run needs a batch only. The same names are in the model's metadata property
    ``netgrad.training_step``, as JSON with the keys of the attributes below.

    Inputs: those of the model and of the loss (`batch_inputs`); each trained parameter under its own name;
    ``<parameter>/<slot>`` for the optimizer's state, such as ``W/momentum``; each carried tensor under its
    own name; ``step`` (0-d int64, number of steps done); ``learning_rate`` (0-d floating-point); ``seed``
    (0-d int64) if elements are dropped at random. Outputs: the loss, the metrics, and ``<input>_next`` for
    each input that has a next value (carried tensors: the output that was named). A name that the model
    has already gets a numbered suffix, so rely on the maps.

    Attributes:
        model: The model.
        batch_inputs: Inputs to be fed with a batch, the model's own first.
        loss: Output of the loss. If it has several elements, their sum is what is made smaller.
        metrics: Output of each metric, by the metric's name.
        parameters: For each trained parameter (an input) the output with its next value.
        optimizer_state: For each input of optimizer state the output with its next value.
        carried: For each carried tensor (an input), such as running statistics, the output with its next
            value.
        step: The input that counts the steps done.
        step_next: The output with the next count.
        learning_rate: The input for the learning rate.
        seed: The input for the seed of dropout, or None if nothing is dropped.
        initial: First values of all inputs but the batch.
        optimizer: The optimizer, in words, without its learning rate.
        original: The model that is trained, as it was given; None in a step that was loaded from a file.
        prepared: The same in the form that was differentiated; None in a step that was loaded from a file.
        notes: What was done to the model, a line each.
    """

    model: ir.Model = field(repr=False)
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
    initial: Mapping[str, Array] = field(repr=False)
    optimizer: str
    original: ir.Model | None = field(default=None, repr=False)
    prepared: ir.Model | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def feedback(self) -> dict[str, str]:
        """For each output that is the next value of an input: that input."""
        pairs = {**self.parameters, **self.optimizer_state, **self.carried, self.step: self.step_next}
        return {output: given for given, output in pairs.items()}

    def evaluation(self) -> ir.Model:
        """The model that computes loss and metrics only, in inference form, from the same inputs.

        BatchNormalization uses its running statistics, and nothing is dropped.
        """
        model = self.model.clone()
        wanted = {self.loss, *self.metrics.values()}
        keep_outputs(model.graph, wanted)
        inference_form(model)
        keep_outputs(model.graph, wanted)
        for value in list(model.graph.inputs):
            if value.name not in self.batch_inputs and not value.uses():
                model.graph.inputs.remove(value)
                model.graph.initializers.pop(value.name or "", None)
        model.metadata_props.pop(METADATA_KEY, None)
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, whole or not at all; `load` and every ONNX Runtime read it.

        Raises:
            NetgradError: The file cannot be written.
        """
        save(self.model, path)

    @classmethod
    def load(cls, source: ModelSource) -> TrainingStep:
        """Read what `save` wrote.

        Raises:
            InvalidModelError: The file cannot be read, or holds no training step.
        """
        model = load(source)
        text = model.metadata_props.get(METADATA_KEY)
        if text is None:
            raise InvalidModelError(
                "the model is not a training step: it has no metadata property 'netgrad.training_step'",
                hint="make one with netgrad.training_step",
            )
        try:
            names = json.loads(text)
            if names["layout"] != _LAYOUT:
                raise InvalidModelError(
                    f"the training step was written by another version of netgrad (layout {names['layout']}, "
                    f"not {_LAYOUT})",
                    hint="make it again with netgrad.training_step",
                )
            initial = {name: array_of(model.graph.initializers[name]) for name in _kept_inputs(names)}
            return cls(
                model=model,
                batch_inputs=tuple(names["batch_inputs"]),
                loss=names["loss"],
                metrics=names["metrics"],
                parameters=names["parameters"],
                optimizer_state=names["optimizer_state"],
                carried=names["carried"],
                step=names["step"],
                step_next=names["step_next"],
                learning_rate=names["learning_rate"],
                seed=names["seed"],
                initial=initial,
                optimizer=names["optimizer"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidModelError(
                f"the model's metadata property '{METADATA_KEY}' does not fit its graph: {error!r}",
                hint="make the training step again with netgrad.training_step",
            ) from error

    def to_training_info(self) -> onnx.ModelProto:
        """Give the model that is trained, with this step as its ``training_info``, as the standard has it.

        The model's graph is the one that was differentiated, in inference form. The algorithm holds what the
        step computes besides, and reads values of the graph where they are the same; what is updated are
        initializers, of the graph (parameters, carried tensors) and of the algorithm (optimizer state, step
        count), each with the output that gives its next value in ``update_binding``. The initialization sets
        optimizer state and step count to their first values. The learning rate, and the seed if there is one,
        are inputs of the algorithm with a default. `netgrad.save` writes the result to a file.

        Raises:
            InvalidArgumentError: The step was read from a file, so that it does not have the model.
        """
        from netgrad.train.training_info import write_training_info  # it imports this module

        return write_training_info(self)

    @classmethod
    def from_training_info(
        cls,
        source: ModelSource,
        *,
        index: int = 0,
        loss: str | None = None,
        learning_rate: str | None = None,
    ) -> TrainingStep:
        """Read an entry of a model's ``training_info`` as a training step.

        The training operators of the standard (Gradient, Adam, ...) are written in ordinary ones (see
        `netgrad.lower`), and the initialization is run to get first values. An algorithm that
        `to_training_info` wrote says itself what its names mean. Of any other, what is updated is a
        parameter if it is a floating-point initializer of the model's graph, optimizer state if it is one of
        the algorithm, else carried; every other scalar output is a metric.

        Args:
            source: The model: whatever `netgrad.load` takes.
            index: Which entry.
            loss: The output that is the loss; by default the only scalar output that is no next value.
            learning_rate: The initializer that is the learning rate; by default the one that the standard's
                optimizers in the algorithm read.

        Raises:
            InvalidModelError: The model cannot be read, has no training_info, or one that does not fit it.
            InvalidArgumentError: There is no such entry, or loss or learning rate are unknown.
            UnsupportedOperatorError: A Gradient cannot be written.
        """
        from netgrad.train.from_training_info import read_training_info  # it imports this module

        return read_training_info(source, index, loss, learning_rate)


def _kept_inputs(names: Mapping[str, Any]) -> list[str]:
    kept = [*names["parameters"], *names["optimizer_state"], *names["carried"]]
    kept += [names["step"], names["learning_rate"]]
    return [*kept, names["seed"]] if names["seed"] is not None else kept


def training_step(
    model: ModelSource,
    *,
    loss: str | Loss,
    optimizer: Optimizer,
    trainable: Iterable[str] | None = None,
    state: Mapping[str, str] | None = None,
    metrics: Iterable[str | Metric] = (),
    mode: Mode = "as-is",
    accumulation: Accumulation = "auto",
    gradients: GradientChoices | None = None,
    straight_through: bool = False,
) -> TrainingStep:
    """Write one step of training as an ONNX model: forward, loss, backward and update.

    Args:
        model: A path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.
        loss: A loss of `netgrad.losses`, or the name of an output of the model; of several elements the
            sum is made smaller.
        optimizer: An optimizer of `netgrad.optimizers`; its learning rate is the default of the step's input
            ``learning_rate``.
        trainable: Names of the initializers to train, or patterns such as ``"head.*"``; by default every
            weight that influences the loss. The others stay as they are, in the model.
        state: Tensors that outputs carry from step to step without training, such as running statistics:
            name of the initializer, name of the output with its next value. Running statistics of
            BatchNormalization nodes in training mode are carried without being named.
        metrics: Figures to report besides the loss: metrics of `netgrad.train.metrics` or their names
            (``"accuracy"``), or names of 0-d outputs of the model.
        mode: ``"as-is"``: BatchNormalization and Dropout stay in the mode that the model has, which in a
            model exported for inference is inference mode: running statistics normalise and stay, nothing is
            dropped. ``"train"``: they are put into training mode; BatchNormalization normalises with
            the batch's statistics, and the running ones are carried from step to step. `Trainer.evaluate` and
            `Trainer.export` use the inference form in either case.
        accumulation: How gradients of a value with several uses are added (see `netgrad.core.backward_pass`).
        gradients: What a gradient does at single nodes or operator types: see `netgrad.grad`.
        straight_through: Whether gradients pass straight through rounding: see `netgrad.grad`. Without it,
            what lies before a QuantizeLinear is not trained.

    Returns:
        The step, with the meaning of its inputs and outputs.

    Raises:
        InvalidModelError: The model cannot be read.
        InvalidArgumentError: A name is unknown, or of the wrong kind.
        UnsupportedOperatorError: Operators between the trainable tensors and the loss have no rule; all are
            named.

    Warns:
        NetgradWarning: A name in ``trainable`` does not influence the loss; its gradient is zeros.
    """
    if mode not in ("as-is", "train"):
        raise InvalidArgumentError(f"`mode` is {mode!r}; it can be 'as-is' or 'train'")
    if optimizer.learning_rate is None:
        raise InvalidArgumentError(
            f"{optimizer.name} is no whole optimizer: it has no learning rate",
            hint="chain it with one: netgrad.optimizers.chain(..., netgrad.optimizers.sgd(0.1))",
        )
    wanted = None if trainable is None else _as_list(trainable, "trainable")
    given_state = dict(state or {})
    choices = choices_of(gradients, straight_through)
    original = load(model)
    first = prepare(
        original,
        keep=[*(wanted or []), *given_state, *([loss] if isinstance(loss, str) else [])],
        opaque=choices.opaque(),
    )
    prepared, notes = first.model, [*first.actions, *lower_gradients(first.model)]
    parameters = trainable_names(prepared, wanted, given_state)
    carried_names(prepared, given_state, parameters)
    notes += separate_statistics(prepared, all_nodes=mode == "train")

    work = prepared.clone()
    if mode == "train":
        normalize_by_batch(work)
    carried = {**carried_statistics(work, exclude={*parameters, *given_state}), **given_state}
    batch_inputs = [value.name or "" for value in work.graph.inputs]
    step, seed = _counters(work, always=mode == "train")
    # what is carried is no output that a loss could mean
    keep_outputs(work.graph, {v.name or "" for v in work.graph.outputs} - {*carried.values()}, clean=False)
    loss_name, metric_names, target = _write_loss(work, loss, list(metrics))
    _make_outputs(work, carried.values())
    if target is not None and target not in batch_inputs:
        batch_inputs.append(target)
    for name in (*parameters, *carried):  # behind the loss, to which only inputs of the model are inputs
        _promote(work, name)
    keep_outputs(work.graph, {loss_name, *metric_names.values(), *carried.values()})
    if wanted is None:
        parameters = _demote_unread(work, parameters)
    if not parameters:
        raise InvalidArgumentError(
            f"nothing to train: no weight of the model influences '{loss_name}'",
            hint="name the initializers to train in `trainable`",
        )

    gradient = differentiate(work, wrt=parameters, of=loss_name, accumulation=accumulation, choices=choices)
    for name in gradient.unreached:
        warnings.warn(
            f"'{name}' does not influence '{loss_name}': its gradient is zeros", NetgradWarning, stacklevel=2
        )
    graph = gradient.model.graph
    keep_outputs(graph, {loss_name, *metric_names.values(), *carried.values()}, clean=False)
    values = {name: array_of(prepared.graph.initializers[name]) for name in (*parameters, *carried)}
    update = write_update(gradient.model, gradient.outputs, values, optimizer, step)
    fold_momentum_into_gemm(gradient.model)
    result = TrainingStep(
        model=gradient.model,
        batch_inputs=tuple(batch_inputs),
        loss=loss_name,
        metrics=metric_names,
        parameters=update.parameters,
        optimizer_state=update.state,
        carried=carried,
        step=step,
        step_next=update.step_next,
        learning_rate=update.learning_rate,
        seed=seed,
        initial={
            **values,
            **update.initial,
            step: np.asarray(0, np.int64),
            **({} if seed is None else {seed: np.asarray(0, np.int64)}),
        },
        optimizer=optimizer.name,
        original=original,
        prepared=prepared,
        notes=(*notes, *(action for action in gradient.actions if action not in notes)),
    )
    complete(result)
    return result


# ---- the stages -------------------------------------------------------------------------------------------


def _as_list(names: Iterable[str], what: str) -> list[str]:
    found = [names] if isinstance(names, str) else list(names)
    if not found:
        raise InvalidArgumentError(f"`{what}` names nothing; leave it out for the default")
    return list(dict.fromkeys(found))


def _counters(model: ir.Model, *, always: bool) -> tuple[str, str | None]:
    """Inputs for the step's number and, if something is dropped, for the seed; masks that depend on them."""
    taken = {value.name for graph in model.graphs() for node in graph for value in node.outputs}
    taken |= {value.name for value in (*model.graph.inputs, *model.graph.initializers.values())}

    free = NameAuthority(name for name in taken if name)

    def counter(wish: str) -> ir.Value:
        return ir.Value(name=free.unique(wish), type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]))

    step, seed = counter("step"), counter("seed")
    dropped = draw_dropout(model, step, seed, always=always)
    model.graph.inputs.append(step)
    if dropped:
        model.graph.inputs.append(seed)
    assert step.name is not None, "it was named above"
    return step.name, seed.name if dropped else None


def _promote(model: ir.Model, name: str) -> None:
    """Make an input of an initializer."""
    value = model.graph.initializers.pop(name)
    tensor = value.const_value
    assert tensor is not None, "an initializer has a value"
    value.type, value.shape = ir.TensorType(tensor.dtype), ir.Shape(tensor.shape.numpy())
    value.const_value = None
    model.graph.inputs.append(value)


def _make_outputs(model: ir.Model, names: Iterable[str]) -> None:
    """Make outputs of computed values that are none yet."""
    values = {value.name: value for node in model.graph for value in node.outputs}
    model.graph.outputs.extend(values[name] for name in names if not values[name].is_graph_output())


def _demote_unread(model: ir.Model, parameters: Sequence[str]) -> list[str]:
    """Take the parameters that nothing reads out of the inputs; returns the others."""
    read: list[str] = []
    for value in list(model.graph.inputs):
        if value.name and value.name in parameters:
            if value.uses():
                read.append(value.name)
            else:
                model.graph.inputs.remove(value)
    return read


def keep_outputs(graph: ir.Graph, names: set[str], *, clean: bool = True) -> None:
    """Drop all other outputs and, if asked to, what only they needed."""
    for index in reversed(range(len(graph.outputs))):
        if graph.outputs[index].name not in names:
            graph.outputs.pop(index)
    if clean:
        _remove_unused(graph)


def _remove_unused(graph: ir.Graph) -> None:
    """Remove nodes without readers, and the initializers that then have none either."""
    for node in reversed(list(graph)):
        if not any(value.uses() or value.is_graph_output() for value in node.outputs):
            graph.remove(node, safe=True)
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output() and not value.is_graph_input():
            graph.initializers.pop(name)


def _write_loss(
    model: ir.Model, loss: str | Loss, metrics: Sequence[str | Metric]
) -> tuple[str, dict[str, str], str | None]:
    """Append loss and metrics.

    Returns:
        Output of the loss, output of each metric, input that the loss compares with.
    """
    writer = GraphWriter(model, "loss")
    written: WrittenLoss | None = None
    if isinstance(loss, str):
        value = writer.read(loss)
        if value.dtype not in FLOATING:
            raise InvalidArgumentError(f"the loss '{loss}' is no floating-point tensor")
        wish = loss
    elif isinstance(loss, Loss):
        written = loss.write(writer)
        value, wish = written.value, "loss"
    else:
        raise InvalidArgumentError(
            f"`loss` is {loss!r}; it is the name of an output or a loss of netgrad.losses"
        )
    outputs = {wish: value}
    existing = {output.name or "" for output in model.graph.outputs}
    names: dict[str, str] = {}
    for given in metrics:
        metric = given
        if isinstance(given, str):
            if given in existing:
                names[given] = given
                continue
            if given not in BY_NAME:
                choices = [*BY_NAME, *existing]
                raise InvalidArgumentError(
                    f"there is no metric '{given}'{nearest(given, choices)}",
                    hint=f"metrics and outputs are {listed(choices)}",
                )
            metric = BY_NAME[given]()
        if not isinstance(metric, Metric):
            raise InvalidArgumentError(f"`metrics` holds {given!r}, which is neither a metric nor a name")
        outputs[metric.name] = metric.write(writer, written)
        names[metric.name] = metric.name
    if isinstance(loss, str) and loss in existing:
        outputs.pop(loss)  # it stands already
    final = writer.finish(outputs)
    metric_outputs = {name: final.get(output, output) for name, output in names.items()}
    return final.get(wish, wish), metric_outputs, None if written is None else written.target.name


def array_of(value: ir.Value) -> Array:
    """A copy of the content of an initializer."""
    assert value.const_value is not None, "an initializer has a value"
    return np.array(value.const_value.numpy())


def complete(step: TrainingStep) -> None:
    """Order inputs and outputs, give the inputs their defaults, and say in the model what they mean."""
    model, graph = step.model, step.model.graph
    inputs = {value.name or "": value for value in graph.inputs}
    counters = [step.step, step.learning_rate, *([step.seed] if step.seed else [])]
    order = [*step.batch_inputs, *step.parameters, *step.carried, *step.optimizer_state, *counters]
    assert set(order) == set(inputs), "every input has a meaning"
    graph.inputs.clear()
    graph.inputs.extend(inputs[name] for name in order)
    outputs = {value.name or "": value for value in graph.outputs}
    results = [step.loss, *step.metrics.values(), *step.feedback]
    assert set(results) == set(outputs), "every output has a meaning"
    graph.outputs.clear()
    graph.outputs.extend(outputs[name] for name in dict.fromkeys(results))
    for name, array in step.initial.items():
        inputs[name].const_value = ir.Tensor(array, dtype=inputs[name].dtype, name=name)
        graph.register_initializer(inputs[name])
    model.ir_version = max(model.ir_version, 8)  # before 4 an initializer could not be a default
    model.producer_name = "netgrad"
    model.metadata_props[METADATA_KEY] = json.dumps(
        {
            "layout": _LAYOUT,
            "batch_inputs": step.batch_inputs,
            "loss": step.loss,
            "metrics": dict(step.metrics),
            "parameters": dict(step.parameters),
            "optimizer_state": dict(step.optimizer_state),
            "carried": dict(step.carried),
            "step": step.step,
            "step_next": step.step_next,
            "learning_rate": step.learning_rate,
            "seed": step.seed,
            "optimizer": step.optimizer,
        }
    )
