"""Copies of nets: whole with other names, and the part between some blobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.core.remap import DEFAULT_REMAP_FUNCS, RemapFunction, remap_operands
from netgrad.caffe2.python.core.ssa import get_op_ids_in_path, get_ssa


def cloned(
    net: NetDef,
    name: str,
    blob_remap: Mapping[Any, Any] | None,
    op_id_mask: Sequence[int] | None,
    remap_funcs: Mapping[str, RemapFunction] | None,
    update_external_list: bool = False,
) -> NetDef:
    """A copy of a net; see `Net.Clone`."""
    renames = {str(old): str(new) for old, new in (blob_remap or {}).items()}
    inside = {**DEFAULT_REMAP_FUNCS, **(remap_funcs or {})}
    copy = NetDef()
    copy.CopyFrom(net)
    copy.name = name
    del copy.op[:]
    for index in range(len(net.op)) if op_id_mask is None else op_id_mask:
        op = copy.op.add()
        op.CopyFrom(net.op[index])
        remap_operands(op, renames)
        if op.type in inside:
            inside[op.type](op, f"{name}/" if name else "", renames)
    if update_external_list:
        copy.external_input[:], copy.external_output[:] = _ends(copy)
    else:
        copy.external_input[:] = [renames.get(blob, blob) for blob in net.external_input]
        copy.external_output[:] = [renames.get(blob, blob) for blob in net.external_output]
    return copy


def _ends(net: NetDef) -> tuple[list[str], list[str]]:
    """What the operators read before one of them has written it, and what they write and none reads then."""
    inputs: dict[str, None] = {}
    unread: dict[str, bool] = {}
    for op in net.op:
        for blob in op.input:
            if blob in unread:
                unread[blob] = False
            else:
                inputs[blob] = None
        for blob in op.output:
            unread.setdefault(blob, True)
    return list(inputs), [blob for blob, is_unread in unread.items() if is_unread]


def part_of(
    net: NetDef, name: str, inputs: Any, outputs: Any, remap_funcs: Mapping[str, RemapFunction] | None
) -> tuple[NetDef, list[str]]:
    """The part of a net between some blobs, and the names of its outputs; see `Net.ClonePartial`."""
    given, computed = _renames(inputs), _renames(outputs)
    ssa, versions = get_ssa(net)
    needed = get_op_ids_in_path(ssa, versions, given, list(computed))
    before = set(get_op_ids_in_path(ssa, versions, (), list(given)))
    both = [net.op[index].type for index in needed if index in before]
    assert not both, f"operators that are needed are among those that produce the inputs: {both}"
    external = set(net.external_input)
    renames = {
        blob: f"{name}/{blob}"
        for index in needed
        for blob in (*net.op[index].input, *net.op[index].output)
        if blob not in external
    }
    renames.update(given)
    renames.update({old: new for old, new in computed.items() if new != old})
    part = cloned(net, name, renames, needed, remap_funcs)
    read = {blob for op in part.op for blob in op.input}
    written = {blob for op in part.op for blob in op.output}
    found = [renames.get(blob, blob) for blob in computed]
    part.external_input[:] = dict.fromkeys([*given.values(), *sorted(read - written)])
    part.external_output[:] = found
    return part, found


def _renames(blobs: Any) -> dict[str, str]:
    pairs = blobs.items() if isinstance(blobs, Mapping) else ((blob, blob) for blob in blobs)
    return {str(old): str(new) for old, new in pairs}
