"""Operators that hold nets, whose blobs are renamed with those of the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from netgrad.caffe2.arguments import Arguments
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.core import Operator


class HeldNets(Arguments):
    """The attributes of a gradient operator that holds nets over the blobs of the net around it.

    The core gives the final names of what a gradient operator reads and writes at the very end. The nets
    follow when the operator's message is written.

    Attributes:
        reads: The names that the nets use for the operator's inputs.
        writes: Those for its outputs.
        kept: Blobs that the operator changes, by the names of the nets: workspaces and what only a loop sees.
            They are outputs of the message and none of the core's operator.
    """

    __slots__ = ("kept", "reads", "writes")

    def __init__(
        self, message: OperatorDef, reads: Sequence[str], writes: Sequence[str], kept: Sequence[str]
    ) -> None:
        super().__init__(message)
        self.reads = tuple(str(name) for name in reads)
        self.writes = tuple(str(name) for name in writes)
        self.kept = tuple(str(name) for name in kept)

    def definition(self, operator: Operator) -> OperatorDef:
        """The message of ``operator``, whose attributes these are, apart from its type, name and device."""
        read = dict(zip(self.reads, operator.inputs, strict=True))
        written = dict(zip(self.writes, operator.outputs, strict=True))
        definition = OperatorDef()
        definition.CopyFrom(self.message)
        definition.input.extend(operator.inputs)
        definition.output.extend([*operator.outputs, *(read.get(name, name) for name in self.kept)])
        if operator.type != "Do":  # the names in its net are its own
            for argument in definition.arg:
                if argument.HasField("n"):
                    _rename(argument.n, read, written)
                    if operator.type == "If":
                        _complete(argument.n, read, written)
        return definition

    def __reduce__(self) -> tuple[object, ...]:
        return _restored, (self.message.SerializeToString(), self.reads, self.writes, self.kept)


def _restored(
    serialized: bytes, reads: Sequence[str], writes: Sequence[str], kept: Sequence[str]
) -> HeldNets:
    return HeldNets(OperatorDef.FromString(serialized), reads, writes, kept)


def _rename(net: NetDef, read: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Give the blobs of a net their final names: a blob has one name before it is written, another after."""
    current = dict(read)
    for op in net.op:
        if op.type != "Do":
            for argument in op.arg:
                if argument.HasField("n"):
                    _rename(argument.n, current, written)
        names = [current.get(name, name) for name in op.input]
        del op.input[:]
        op.input.extend(names)
        current.update((name, written[name]) for name in op.output if name in written)
        names = [current.get(name, name) for name in op.output]
        del op.output[:]
        op.output.extend(names)


def _complete(net: NetDef, read: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Copy what this branch leaves as it is, where the other branch's result got another name."""
    here = {name for op in net.op for name in op.output}
    for name, new in written.items():
        old = read.get(name, new)
        if old != new and new not in here:
            net.op.add(type="Copy", input=[old], output=[new])
