"""Compiled lists of operators, which nets with the same operators share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.execute import Program

_CACHED_PROGRAMS = 512

_programs: OrderedDict[bytes, Program] = OrderedDict()
_programs_lock = Lock()


def program_of(definitions: Sequence[OperatorDef]) -> Program:
    """The program of a list of operators; the same list, used again, has the same program.

    Programs with seeded operators are not shared, since a net that is created anew draws the same numbers
    again.
    """
    if any(map(_is_seeded, definitions)):
        return Program(definitions, complete=True)
    key = b"".join(
        len(content).to_bytes(8, "little") + content
        for content in (definition.SerializeToString(deterministic=True) for definition in definitions)
    )
    with _programs_lock:
        found = _programs.get(key)
        if found is None:
            found = _programs[key] = Program(
                [copied(definition) for definition in definitions], complete=True
            )
            if len(_programs) > _CACHED_PROGRAMS:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
    return found


def _is_seeded(definition: OperatorDef) -> bool:
    """Whether an operator, or one in a net that it holds, has a seed."""
    inner = (one for argument in definition.arg for one in argument.n.op)
    return definition.device_option.HasField("random_seed") or any(map(_is_seeded, inner))


def copied(definition: OperatorDef) -> OperatorDef:
    """A copy of an operator."""
    copy = OperatorDef()
    copy.CopyFrom(definition)
    return copy
