"""What lists of operators read and write, the nets that they hold included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef


def outside_reads(operators: Iterable[OperatorDef]) -> list[str]:
    """What operators read before they write it, in the order of its use."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in operators:
        found.update(dict.fromkeys(blob for blob in op.input if blob not in written))
        written.update(op.output)
    return list(found)


def reads_inside(operators: Sequence[OperatorDef]) -> list[str]:
    """What the nets of ``If`` and ``While`` operators read of the blobs around, without being inputs."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in operators:
        for net in nets_of(op):
            inside = [*outside_reads(net.op), *reads_inside(net.op)]
            found.update(dict.fromkeys(blob for blob in inside if blob not in written))
        written.update(op.output)
    outside = set(outside_reads(operators))
    return [blob for blob in found if blob not in outside]


def perhaps_kept(operators: Sequence[OperatorDef]) -> list[str]:
    """The blobs that operators which hold nets may write, or leave as they are where those don't run."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in operators:
        always = _always_written(op)
        for net in nets_of(op):
            perhaps = (blob for blob in written_names(net.op) if blob not in written and blob not in always)
            found.update(dict.fromkeys(perhaps))
        written.update(op.output)
    return list(found)


def _always_written(op: OperatorDef) -> set[str]:
    """What an operator writes, whichever of its nets runs."""
    if op.type not in ("If", "While"):
        return set(op.output)
    nets = {argument.name: argument.n for argument in op.arg if argument.HasField("n")}
    if op.type == "While":  # its body perhaps never runs
        return {blob for one in nets.get("cond_net", NetDef()).op for blob in _always_written(one)}
    branches = [
        {blob for one in nets.get(name, NetDef()).op for blob in _always_written(one)}
        for name in ("then_net", "else_net")
    ]
    return branches[0] & branches[1]


def nets_of(op: OperatorDef) -> Iterator[NetDef]:
    """The nets that an operator holds and runs among the blobs around it."""
    if op.type in ("If", "While"):
        yield from (argument.n for argument in op.arg if argument.HasField("n"))


def written_names(operators: Iterable[OperatorDef]) -> list[str]:
    """All blobs that operators and the nets that they hold write among the blobs around them."""
    found: dict[str, None] = {}
    for op in operators:
        for net in nets_of(op):
            found.update(dict.fromkeys(written_names(net.op)))
        found.update(dict.fromkeys(op.output))
    return list(found)
