"""Training form and inference form of a graph: BatchNormalization and Dropout.

A model that was exported for inference normalises with its running statistics and drops nothing. In
training form it normalises with the batch's statistics, gives new running statistics, and drops elements
at random.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import onnx_ir as ir
from onnx_ir.passes import common

from netgrad.core.errors import InvalidModelError
from netgrad.onnx.edit import Editor, as_operator, constant_of
from netgrad.train.dropout import MARK, write_mask

_STATISTICS = ((3, 1), (4, 2))
"""Running mean and variance of BatchNormalization: position among the inputs, position among the outputs."""


def separate_statistics(model: ir.Model, *, all_nodes: bool) -> list[str]:
    """Give every BatchNormalization running statistics of its own, in place.

    Tools that merge equal initializers make layers share them, which is harmless for inference and wrong for
    training.

    Args:
        model: The model.
        all_nodes: Whether nodes in inference mode are included.

    Returns:
        What was done, a line each.
    """
    editor = Editor(model)
    seen: set[ir.Value] = set()
    copied = 0
    for node in _batch_normalizations(model):
        if not all_nodes and not _in_training(node):
            continue
        for index, _ in _STATISTICS:
            value = node.inputs[index]
            if value is None or constant_of(value) is None:
                continue
            if value in seen and value.const_value is not None:
                assert value.name, "initializers have names"
                node.replace_input_with(
                    index, editor.initializer(value.const_value, editor.fresh(value.name))
                )
                copied += 1
            seen.add(value)
    return [f"gave {copied} running statistics that layers shared to one layer each"] if copied else []


def normalize_by_batch(model: ir.Model) -> None:
    """Switch every BatchNormalization to training mode, in place.

    Raises:
        InvalidModelError: One has running statistics that are computed, so that nothing could carry new
            ones on.
    """
    for node in _batch_normalizations(model):
        if any(constant_of(node.inputs[index]) is None for index, _ in _STATISTICS):
            raise InvalidModelError(
                f"{as_operator(node)} cannot be put into training mode: its running statistics are "
                "computed by other nodes or fed, and no initializers that could be carried from step to step",
                hint="use mode='as-is', or make initializers of them",
            )
        node.attributes["training_mode"] = ir.AttrInt64("training_mode", 1)


def carried_statistics(model: ir.Model, exclude: Collection[str]) -> dict[str, str]:
    """The running statistics of each BatchNormalization in training mode, which gets outputs for new ones.

    Args:
        model: The model.
        exclude: Initializers that are not wanted.

    Returns:
        Name of the running statistic (an initializer): name of its next value.
    """
    editor = Editor(model)
    carried: dict[str, str] = {}
    for node in _batch_normalizations(model):
        if not _in_training(node):
            continue
        for index, output in _STATISTICS:
            value = node.inputs[index]
            if value is None or constant_of(value) is None or not value.name or value.name in exclude:
                continue
            if len(node.outputs) <= output:
                node.resize_outputs(output + 1)
            new = node.outputs[output]
            if not new.name:
                new.name = editor.fresh(f"{value.name}_batch")
            if new.type is None:
                new.type = value.type
            if new.shape is None:
                new.shape = value.shape
            carried[value.name] = new.name
    return carried


def draw_dropout(model: ir.Model, step: ir.Value, seed: ir.Value, *, always: bool) -> int:
    """Write the masks of Dropout as operators: pure functions of seed, step and layer, in place.

    ONNX Runtime's Dropout keeps a generator of its own, which no checkpoint can hold; with masks that are
    computed from the number of the step a resumed training drops the same elements as one that was never
    stopped.

    Args:
        model: The model.
        step: 0-d int64, the number of steps done.
        seed: 0-d int64.
        always: Whether Dropout that is not in training mode is put there.

    Returns:
        How many nodes were replaced.

    Raises:
        InvalidModelError: The ratio of a node is no constant.
    """
    editor = Editor(model)
    replaced = 0
    for node in list(model.graph):
        if node.op_type != "Dropout" or node.domain not in ("", "ai.onnx"):
            continue
        flag = node.inputs[2] if len(node.inputs) > 2 else None
        training = constant_of(flag)
        if not always and (training is None or not training.item()):
            continue
        given = node.inputs[1] if len(node.inputs) > 1 else None
        ratio = np.asarray(0.5) if given is None else constant_of(given)
        if ratio is None:
            raise InvalidModelError(
                f"{as_operator(node)} has a ratio that is computed or fed; in training it has to be constant"
            )
        write_mask(editor, node, float(ratio.item()), step, seed, replaced)
        replaced += 1
    return replaced


def inference_form(model: ir.Model) -> list[str]:
    """Put BatchNormalization and Dropout into their inference form, in place.

    New running statistics that are outputs of the model cease to be.

    Returns:
        What was done, a line each.
    """
    graph = model.graph
    normalizations = dropouts = 0
    for node in list(graph):
        if node.metadata_props.get(MARK):
            _bypass(graph, node)
            dropouts += 1
        elif node.op_type == "Dropout" and node.domain in ("", "ai.onnx") and _drops(node):
            node.resize_inputs(2)  # a training flag that is left out is false
            dropouts += 1
        elif node.op_type == "BatchNormalization" and _in_training(node):
            statistics = set(node.outputs[1:])
            if any(value.uses() for value in statistics):
                continue
            for index in reversed(range(len(graph.outputs))):
                if graph.outputs[index] in statistics:
                    graph.outputs.pop(index)
            node.resize_outputs(1)
            node.attributes["training_mode"] = ir.AttrInt64("training_mode", 0)
            normalizations += 1
    if normalizations or dropouts:
        common.RemoveUnusedNodesPass()(model)
    done = [(normalizations, "BatchNormalization"), (dropouts, "Dropout")]
    return [f"put {count} {kind} nodes into inference form" for count, kind in done if count]


def _bypass(graph: ir.Graph, node: ir.Node) -> None:
    """Let the readers of a dropped-out tensor read the tensor itself."""
    source, output = node.inputs[0], node.outputs[0]
    assert source is not None, "a product has two operands"
    if not output.is_graph_output():
        output.replace_all_uses_with(source)
        return
    identity = ir.Node("", "Identity", [source], num_outputs=1, name=node.name)
    identity.outputs[0].type, identity.outputs[0].shape = output.type, output.shape
    graph.insert_before(node, identity)
    name, output.name = output.name, None
    identity.outputs[0].name = name
    output.replace_all_uses_with(identity.outputs[0], replace_graph_outputs=True)
    graph.remove(node)


def _batch_normalizations(model: ir.Model) -> list[ir.Node]:
    return [
        node
        for node in model.graph
        if node.op_type == "BatchNormalization" and node.domain in ("", "ai.onnx")
    ]


def _in_training(node: ir.Node) -> bool:
    return node.attributes.get_int("training_mode", 0) == 1


def _drops(node: ir.Node) -> bool:
    """Whether a Dropout node is in training mode, as far as the model says so."""
    flag = node.inputs[2] if len(node.inputs) > 2 else None
    if flag is None:
        return False
    producer = flag.producer()
    if producer is not None and producer.op_type == "Constant" and "value" in producer.attributes:
        return bool(producer.attributes["value"].as_tensor().numpy().item())
    content = constant_of(flag)
    return content is not None and bool(content.item())
