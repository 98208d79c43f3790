"""ONNX Runtime's failures in terms of the model: the node, and the forward node and rule it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir

from netgrad.core.errors import NetgradError, RuntimeFailureError
from netgrad.onnx.provenance import provenance_of
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import operator_of
from netgrad.runtime.tensors import dtype_name, spec_of

_NAME_PATTERNS = (
    re.compile(r"node with name '([^']*)'"),
    re.compile(r"Name:'([^']*)'"),
    re.compile(r"[Nn]ode \(([^)]*)\)"),
    re.compile(r'In Node, \("([^"]*)"'),
    re.compile(r"Node:([^ ]+)"),
)
"""The ways in which ONNX Runtime's messages give a node's name."""

_RUNNING = re.compile(r"while running (\w+) node")

_KERNEL = re.compile(r"onnxruntime::(\w+)(?:<[^>]*>)?::\1\(")
"""A kernel's constructor in a message; its class is mostly called as its operator type."""

_NO_KERNEL = ("Could not find an implementation", "does not support", "NOT_IMPLEMENTED")

_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : (?=[A-Z])")
_SOURCE_LOCATION = re.compile(r"/onnxruntime_src/\S+:\d+ \S.*?\) ")


@contextmanager
def led_back(model: onnx_ir.Model) -> Iterator[None]:
    """Turn what ONNX Runtime raises within the block into a `RuntimeFailureError` about a node of ``model``.

    Raises:
        RuntimeFailureError: In place of ONNX Runtime's exception, which stays its cause.
    """
    try:
        yield
    except NetgradError:
        raise
    except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
        raise explained(model, str(error)) from error


def explained(model: onnx_ir.Model, text: str) -> RuntimeFailureError:
    """The error that says what ``text``, a message of ONNX Runtime about ``model``, means."""
    message = _SOURCE_LOCATION.sub("", _STATUS.sub("", text.strip())).strip()
    node = node_in(model, text)
    lines = [f"ONNX Runtime: {message}"]
    if node is not None:
        infer_shapes(model)  # so that the values of the node can be described
        lines.append(f"at {describe(node)}")
        provenance = provenance_of(node)
        if provenance is not None:
            lines.append(f"which belongs to {provenance}")
    return RuntimeFailureError(
        "\n  ".join(lines),
        operators=() if node is None else (operator_of(node),),
        hint=_hint(message, node) or None,
    )


def describe(node: onnx_ir.Node) -> str:
    """Type, name, inputs and outputs of ``node`` in one line, with dtypes and shapes where known."""

    def values(given: tuple[onnx_ir.Value | None, ...]) -> str:
        return ", ".join("-" if value is None else _with_type(value) for value in given)

    kind = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    return f"{kind} node '{node.name}' ({values(tuple(node.inputs))} -> {values(tuple(node.outputs))})"


def _with_type(value: onnx_ir.Value) -> str:
    return f"{value.name}: {spec_of(value)}" if value.dtype is not None else str(value.name)


def node_in(model: onnx_ir.Model, text: str) -> onnx_ir.Node | None:
    """The node of ``model`` that ``text`` names, or None.

    Nodes that ONNX Runtime fused or rewrote carry the name of one they replace, or of its output, with
    something added (``fc1/MatMulAddFusion``, ``h_nchwc``): the longest that such a name contains is taken.
    """
    nodes = {node.name: node for graph in model.graphs() for node in graph if node.name}
    named = [match for pattern in _NAME_PATTERNS for match in pattern.findall(text)]
    for name in named:
        if name in nodes:
            return nodes[name]
    outputs = {value.name: node for node in nodes.values() for value in node.outputs if value.name}
    for name in named:
        for known in (nodes, outputs):
            parts = [part for part in known if re.search(rf"(?<!\w){re.escape(part)}(?![^\W_])", name)]
            if parts:
                return _of_type(known[max(parts, key=len)], _RUNNING.findall(text))
    # a kernel that refuses its attributes when it is made does not know its node's name
    for op_type in _KERNEL.findall(text):
        of_type = [node for node in nodes.values() if node.op_type == op_type]
        if len(of_type) == 1:
            return of_type[0]
    return None


def _of_type(node: onnx_ir.Node, types: list[str]) -> onnx_ir.Node:
    """``node``, or the one before it that was fused with it and is of the type that was running."""
    if node.op_type in types:
        return node
    before = [value.producer() for value in node.inputs if value is not None]
    return next((other for other in before if other is not None and other.op_type in types), node)


def _hint(message: str, node: onnx_ir.Node | None) -> str:
    """What the user can do about it, where that is known."""
    if "ai.onnx.preview.training:" in message:
        return "netgrad.lower writes the standard's training operators in operators that ONNX Runtime has"
    if "No opset import for domain" in message:
        return "the model has to import an opset of that domain"
    if "No Op registered" in message or "is not a registered function/op" in message:
        return "the installed ONNX Runtime does not know the operator in this opset; a newer one may"
    if "under development" in message and "guarantee" in message:
        return "the model's opset is newer than the installed ONNX Runtime, which has to be upgraded"
    if "delta in Range operator can not be zero" in message:
        return "Range counts by its third input, which must not be 0"
    if any(f"idx={2**bits - 1}" in message for bits in (31, 63)):
        return "an index is negative, and here they are counted from the front only"
    if node is None or not any(sign in message for sign in _NO_KERNEL):
        return ""
    present = {value.dtype for value in (*node.inputs, *node.outputs) if value is not None}
    for dtype in (onnx_ir.DataType.DOUBLE, onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16):
        if dtype in present:
            return (
                f"this ONNX Runtime has no {dtype_name(dtype)} kernel for {node.op_type} on the chosen "
                "provider: convert the model to float32"
            )
    return f"this ONNX Runtime has no kernel for {node.op_type} with these types on the chosen provider"
