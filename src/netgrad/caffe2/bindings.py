"""Which blobs of the net of a ``Do`` are which blobs around it."""

from __future__ import annotations

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import OperatorDef


def bindings(definition: OperatorDef) -> dict[str, str]:
    """The outer blob of each inner one. The last input and output are the stack of workspaces.

    Raises:
        ValueError: The operator isn't as a ``Do`` has to be; the text says why.
    """
    arguments = {argument.name: value_of(argument) for argument in definition.arg}
    inner = [name.decode() for name in arguments.get("inner_blobs", ())]
    places = arguments.get("outer_blobs_idx", ())
    outer = [*definition.input[:-1], *definition.output[:-1]]
    if len(inner) != len(places):
        raise ValueError("Invalid blob bindings: different inner/outer blobs lengths")
    if len(set(inner)) != len(inner):
        raise ValueError("Invalid blob bindings: redefinition of an inner blob")
    if any(not 0 <= place < len(outer) for place in places):
        raise ValueError("Invalid blob bindings: an outer blob index is out of bounds")
    names = [outer[place] for place in places]
    if len(set(names)) != len(names) or set(names) != set(outer):
        raise ValueError("Invalid blob bindings: each outer blob is bound to one inner blob")
    return dict(zip(inner, names, strict=True))
