"""Opset adapters for changes of form: what was an attribute becomes an input, is renamed or is left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError, Editor
from netgrad.onnx.opset_scan import scan_over_batch

Adapter: TypeAlias = Callable[[onnx_ir.Node, Editor], None]
"""Rewrites a node, in place or with nodes around it, across one change of its operator's definition.

It raises ``CannotRewriteError`` where the former meaning has no equivalent.
"""


def set_input(node: onnx_ir.Node, index: int, value: onnx_ir.Value) -> None:
    """Set an input, leaving out optional ones before it that the node does not have."""
    if len(node.inputs) <= index:
        node.resize_inputs(index + 1)
    node.replace_input_with(index, value)


def ints_to_input(attribute: str, index: int, *, scalar: bool = False) -> Adapter:
    """An adapter for an attribute of integers that becomes an int64 input at ``index``."""

    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        given = node.attributes.pop(attribute, None)
        if given is None:
            return
        numbers = [given.as_int()] if given.type == onnx_ir.AttributeType.INT else list(given.as_ints())
        if numbers or attribute != "axes":  # no axes meant all axes, as an absent input does
            array = np.array(numbers[0] if scalar else numbers, np.int64)
            set_input(node, index, editor.constant(array, f"{node.op_type.lower()}_{attribute}"))

    return adapt


def drop(*attributes: str) -> Adapter:
    """An adapter for attributes that said nothing about the result."""

    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        for attribute in attributes:
            node.attributes.pop(attribute, None)

    return adapt


def default(**attributes: int | float | str) -> Adapter:
    """An adapter that writes out the former defaults of attributes that the node leaves out."""

    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        for name, value in attributes.items():
            if name not in node.attributes:
                node.attributes[name] = onnx_ir.convenience.convert_attribute(name, value)

    return adapt


def both(first: Adapter, second: Adapter) -> Adapter:
    """One adapter after the other."""

    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        first(node, editor)
        second(node, editor)

    return adapt


def refuse(reason: str) -> Adapter:
    """An adapter for a change that has no equivalent."""

    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        raise CannotRewriteError(reason)

    return adapt


def float_like(value: onnx_ir.Value | None, number: float, editor: Editor, hint: str) -> onnx_ir.Value:
    """A 0-d constant of the type of ``value``."""
    if value is None or value.dtype is None:
        raise CannotRewriteError(f"the type of its input '{value.name if value else ''}' is unknown")
    return editor.constant(np.array(number, value.dtype.numpy()), hint)


def _clip(node: onnx_ir.Node, editor: Editor) -> None:
    """Clip 6 -> 11: min and max become inputs."""
    for index, name in enumerate(("min", "max"), start=1):
        bound = node.attributes.pop(name, None)
        if bound is not None:
            set_input(node, index, float_like(node.inputs[0], bound.as_float(), editor, f"clip_{name}"))


def _pad(node: onnx_ir.Node, editor: Editor) -> None:
    """Pad 2 -> 11: pads and value become inputs."""
    ints_to_input("pads", 1)(node, editor)
    value = node.attributes.pop("value", None)
    mode = node.attributes.get("mode")
    if value is not None and value.as_float() != 0.0 and (mode is None or mode.as_string() == "constant"):
        set_input(node, 2, float_like(node.inputs[0], value.as_float(), editor, "pad_value"))


def _pad_paddings(node: onnx_ir.Node, editor: Editor) -> None:
    """Pad 1 -> 2: the attribute was called paddings."""
    node.attributes["pads"] = onnx_ir.AttrInt64s("pads", node.attributes.pop("paddings").as_ints())


def _slice(node: onnx_ir.Node, editor: Editor) -> None:
    """Slice 1 -> 10: starts, ends and axes become inputs."""
    for index, name in enumerate(("starts", "ends", "axes"), start=1):
        ints_to_input(name, index)(node, editor)


def _split(node: onnx_ir.Node, editor: Editor) -> None:
    """Split 13 -> 18: equal parts have to be asked for by num_outputs."""
    if len(node.inputs) < 2 or node.inputs[1] is None:
        node.attributes["num_outputs"] = onnx_ir.AttrInt64("num_outputs", len(node.outputs))


def _reshape(node: onnx_ir.Node, editor: Editor) -> None:
    """Reshape 1 -> 5: the shape becomes an input."""
    drop("consumed_inputs")(node, editor)
    ints_to_input("shape", 1)(node, editor)


def _dropout(node: onnx_ir.Node, editor: Editor) -> None:
    """Dropout 10 -> 12: ratio becomes an input; without a training_mode input it stays in inference mode."""
    if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
        # Runtimes gave all zeros, opset 12 asks for all ones.
        raise CannotRewriteError("what its mask held outside of training was not defined")
    node.resize_outputs(1)
    ratio = node.attributes.pop("ratio", None)
    number = 0.5 if ratio is None else ratio.as_float()
    set_input(node, 1, editor.constant(np.array(number, np.float32), "dropout_ratio"))


def _cast(node: onnx_ir.Node, editor: Editor) -> None:
    """Cast 1 -> 6: the type was a word."""
    to = node.attributes["to"]
    if to.type == onnx_ir.AttributeType.STRING:
        node.attributes["to"] = onnx_ir.AttrInt64("to", int(onnx_ir.DataType[to.as_string().upper()]))


def _is_test(node: onnx_ir.Node, editor: Editor) -> None:
    """BatchNormalization 6 -> 7: from 7 on, having further outputs is what asks for training mode."""
    test = node.attributes.pop("is_test", None)
    if test is not None and test.as_int() and len(node.outputs) > 1:
        if any(output.uses() or output.is_graph_output() for output in node.outputs[1:]):
            raise CannotRewriteError("it asks for training outputs in test mode")
        node.resize_outputs(1)


def _power(node: onnx_ir.Node, editor: Editor) -> None:
    """LpPool and GlobalLpPool 1 -> 2: p becomes an integer."""
    power = node.attributes.get("p")
    if power is not None and power.type == onnx_ir.AttributeType.FLOAT:
        if power.as_float() != int(power.as_float()):
            raise CannotRewriteError(f"p = {power.as_float()} is no integer")
        node.attributes["p"] = onnx_ir.AttrInt64("p", int(power.as_float()))


def _rename(operator: str) -> Adapter:
    def adapt(node: onnx_ir.Node, editor: Editor) -> None:
        node.op_type = operator

    return adapt


def _reductions() -> dict[tuple[str, int], Adapter]:
    table: dict[tuple[str, int], Adapter] = {("ReduceSum", 13): ints_to_input("axes", 1)}
    kinds = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")
    table |= {(f"Reduce{kind}", 18): ints_to_input("axes", 1) for kind in kinds}
    return table


def _consumed_inputs(operators: Sequence[str]) -> dict[tuple[str, int], Adapter]:
    return {(operator, 6): drop("consumed_inputs") for operator in operators}


_WITH_CONSUMED_INPUTS = """
    Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor HardSigmoid InstanceNormalization LeakyRelu
    Log Max Mean Min Mul Neg PRelu Reciprocal Relu Sigmoid Sqrt Sub Sum Tanh
"""

ADAPTERS: dict[tuple[str, int], Adapter] = {
    **_consumed_inputs(_WITH_CONSUMED_INPUTS.split()),
    **_reductions(),
    ("BatchNormalization", 7): _is_test,
    ("Cast", 6): _cast,
    ("Clip", 11): _clip,
    ("Concat", 4): default(axis=1),
    ("Dropout", 7): drop("is_test"),  # the training mode of opset 6 and before becomes inference mode
    ("Dropout", 12): _dropout,
    ("GRU", 3): default(direction="forward"),
    ("GRU", 7): drop("output_sequence"),
    ("GlobalLpPool", 2): _power,
    ("LSTM", 7): drop("output_sequence"),
    ("LpPool", 2): _power,
    ("Pad", 2): _pad_paddings,
    ("Pad", 11): _pad,
    ("RNN", 7): drop("output_sequence"),
    ("Reshape", 5): _reshape,
    ("Scan", 9): scan_over_batch,
    ("Scatter", 11): _rename("ScatterElements"),
    ("Selu", 6): both(drop("consumed_inputs"), default(alpha=1.6732, gamma=1.0507)),
    ("Slice", 10): _slice,
    ("Split", 2): default(axis=0),
    ("Split", 13): ints_to_input("split", 1),
    ("Split", 18): _split,
    ("Squeeze", 13): ints_to_input("axes", 1),
    ("Tile", 6): refuse("its tiles and axis have no equivalent"),
    ("TopK", 10): ints_to_input("k", 1),
    ("Unsqueeze", 13): ints_to_input("axes", 1),
}
"""By (operator type, opset of the change)."""
