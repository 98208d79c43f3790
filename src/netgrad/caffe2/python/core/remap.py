"""Renaming the blobs of nets, also of the nets inside operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from netgrad.caffe2.caffe2_pb2 import Argument, NetDef, OperatorDef

RemapFunction = Callable[[OperatorDef, str, Mapping[str, str]], None]
"""Renames inside an operator: it, a prefix for names that nobody sees, and new names by old ones."""

_INNER_NETS = {
    "If": ("then_net", "else_net"),
    "While": ("loop_net", "cond_net"),
    "AsyncIf": ("then_net", "else_net"),
}


def remap_operands(op: OperatorDef, blob_remap: Mapping[str, str]) -> None:
    """Rename the operands of an operator."""
    for names in (op.input, op.output, op.control_input):
        renamed = [blob_remap.get(name, name) for name in names]
        del names[:]
        names.extend(renamed)


def remap_input(op: OperatorDef, blob_name_remapping: Mapping[str, str]) -> None:
    """Rename inputs of an operator."""
    op.input[:] = [blob_name_remapping.get(name, name) for name in op.input]


def remap_net(net: NetDef, blob_remap: Mapping[str, str]) -> None:
    """Rename all blobs of a net, in place."""
    for op in net.op:
        remap_operands(op, blob_remap)
        control_op_remap(op, "", blob_remap)
    for names in (net.external_input, net.external_output):
        renamed = [blob_remap.get(name, name) for name in names]
        del names[:]
        names.extend(renamed)


def remap_proto(argument: Argument, blob_remap: Mapping[str, str]) -> None:
    """Rename all blobs of the net in an argument."""
    remap_net(argument.n, blob_remap)


def control_op_remap(op: OperatorDef, prefix: str, blob_remap: Mapping[str, str]) -> None:
    """Rename inside the nets of ``If`` and ``While``; the prefix is without effect."""
    names = _INNER_NETS.get(op.type, ())
    for argument in op.arg:
        if argument.name in names and argument.HasField("n"):
            remap_proto(argument, blob_remap)


def recurrent_network_op_remap(op: OperatorDef, prefix: str, blob_remap: Mapping[str, str]) -> None:
    """Rename inside the step nets of ``RecurrentNetwork`` and its gradient; the prefix is without effect."""

    def renamed(name: str) -> str:
        return blob_remap.get(name, name)

    for argument in op.arg:
        if argument.HasField("n"):
            for inner in argument.n.op:
                for operands in (inner.input, inner.output):
                    new = [renamed(name) for name in operands]
                    del operands[:]
                    operands.extend(new)
            for listed in (argument.n.external_input, argument.n.external_output):
                new = [renamed(name) for name in listed]
                del listed[:]
                listed.extend(new)
        elif argument.strings and argument.name not in ("link_window",):
            texts = [renamed(text.decode()).encode() for text in argument.strings]
            del argument.strings[:]
            argument.strings.extend(texts)


DEFAULT_REMAP_FUNCS: dict[str, RemapFunction] = {
    "RecurrentNetwork": recurrent_network_op_remap,
    "RecurrentNetworkGradient": recurrent_network_op_remap,
    "If": control_op_remap,
    "While": control_op_remap,
    "AsyncIf": control_op_remap,
}
