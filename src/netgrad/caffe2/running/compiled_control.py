"""Which operators that hold nets are compiled with the operators around them."""

from __future__ import annotations

from collections.abc import Iterator

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.scopes import CONTROL
from netgrad.caffe2.reads import nets_of
from netgrad.caffe2.running.registry import runner_of


def compiles(definition: OperatorDef) -> bool:
    """Whether nothing in an operator that holds nets, or belongs to one, has to run in Python."""
    if definition.type not in CONTROL:
        return False
    return all(runner_of(op) is None or compiles(op) for net in _all_nets(definition) for op in net.op)


def _all_nets(definition: OperatorDef) -> Iterator[NetDef]:
    """The nets of an operator, that of a ``Do`` included."""
    yield from (argument.n for argument in definition.arg if argument.HasField("n"))


def scopes_of(definition: OperatorDef) -> set[str]:
    """The stacks of workspaces that an operator writes or uses among the blobs around it."""
    if definition.type == "CreateScope":
        return {definition.output[0]}
    if definition.type == "HasScope":
        return {definition.input[0]}
    found = {definition.input[-1]} if definition.type == "Do" else set()
    for net in nets_of(definition):
        own = {op.output[0] for op in net.op if op.type == "CreateScope"}
        found |= {name for op in net.op for name in scopes_of(op)} - own
    return found
