"""What loops carry but never change: read from outside instead, as the value that it is.

Exporters carry weights and sizes along with the state. As a captured value such a weight is not stacked up
for the backward pass, once per iteration, and its gradient is summed in one accumulator.
"""

from __future__ import annotations

from collections.abc import Collection
from types import NoneType

import onnx_ir

from netgrad.onnx.edit import Editor

_DOMAINS = ("", "ai.onnx")


def read_unchanged_from_outside(model: onnx_ir.Model, keep: Collection[str] = ()) -> list[str]:
    """Let bodies of Loop and Scan, and the readers of these, read what is carried unchanged at its source.

    The loops still carry it, so that their inputs and outputs stay; that has no readers then.

    Args:
        model: Changed in place.
        keep: Names of values whose readers must stay.

    Returns:
        A line that says what was done, if anything.
    """
    sources: dict[onnx_ir.Value, onnx_ir.Value] = {}  # a loop's output to the input that it equals
    found = -1
    while found < len(sources):
        found = len(sources)
        for graph in model.graphs():
            for node in graph:
                _read_at_source(node, sources, keep)
    if not found:
        return []
    return [f"read {found} values that loops carry unchanged from outside of them"]


def copy_passed_sequences(model: onnx_ir.Model) -> list[str]:
    """Let Loop bodies give copies of the sequences and optionals that they are given, in place.

    ONNX Runtime (1.32) empties the value before the loop if the body gives its input as it is, and the
    backward pass may read that value. A copy of a sequence shares its tensors.

    Returns:
        A line that says what was done, if anything.
    """
    passed = [
        (node.attributes["body"].as_graph(), index, value)
        for graph in model.graphs()
        for node in graph
        if node.op_type == "Loop" and node.domain in _DOMAINS
        for index, value in enumerate(node.attributes["body"].as_graph().outputs)
        if value.is_graph_input() and not isinstance(value.type, onnx_ir.TensorType | NoneType)
    ]
    if not passed:
        return []
    editor = Editor(model)
    for body, index, value in passed:
        copy = onnx_ir.Node("", "Identity", [value], name=editor.fresh_node(f"{value.name}_copy"))
        copy.outputs[0].name = editor.fresh(f"{value.name}_copy")
        copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
        body.append(copy)
        body.outputs[index] = copy.outputs[0]
    return [f"copied {len(passed)} sequences that loops pass on"]


def _read_at_source(
    node: onnx_ir.Node, sources: dict[onnx_ir.Value, onnx_ir.Value], keep: Collection[str]
) -> None:
    for source, inside, after, result in _carried(node):
        if result in sources or _origin(after, sources) is not inside:
            continue
        sources[result] = source
        _redirect(inside, source)
        if result.name not in keep:
            _redirect(result, source)


def _carried(
    node: onnx_ir.Node,
) -> list[tuple[onnx_ir.Value, onnx_ir.Value, onnx_ir.Value, onnx_ir.Value]]:
    """Of each carried value: before the loop, in the body, what the body makes of it, and behind the loop."""
    if node.op_type not in ("Loop", "Scan") or node.domain not in _DOMAINS:
        return []
    body = node.attributes["body"].as_graph()
    inputs, inside, after = list(node.inputs), list(body.inputs), list(body.outputs)
    if node.op_type == "Loop":
        inputs, inside, after = inputs[2:], inside[2:], after[1:]
    else:
        inputs = inputs[: len(inputs) - node.attributes["num_scan_inputs"].as_int()]
    quadruples = zip(inputs, inside, after, node.outputs, strict=False)
    return [(source, *others) for source, *others in quadruples if source is not None]  # type: ignore[misc]


def _origin(value: onnx_ir.Value, sources: dict[onnx_ir.Value, onnx_ir.Value]) -> onnx_ir.Value:
    """The value that ``value`` is a copy of."""
    while True:
        producer = value.producer()
        if value in sources:
            value = sources[value]
        elif producer is not None and producer.op_type == "Identity" and producer.domain in _DOMAINS:
            given = producer.inputs[0]
            assert given is not None, "Identity has an input"
            value = given
        else:
            return value


def _redirect(value: onnx_ir.Value, source: onnx_ir.Value) -> None:
    """Let all nodes that read ``value`` read ``source``; graphs that give it out still do."""
    for use in list(value.uses()):
        use.node.replace_input_with(use.idx, source)
