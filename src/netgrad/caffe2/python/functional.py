"""Operators as functions of arrays: ``Functional.Relu(x)``, in a workspace of its own each time."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU
from netgrad.caffe2.makers.types import is_operator, near_types
from netgrad.caffe2.python import core
from netgrad.caffe2.python.onnx.workspace import Workspace
from netgrad.caffe2.schemas import Schema, schema_of

_ANY = Schema.of("0-", "0-")


def namedtupledict(typename: str, field_names: Any, *args: Any, **kwargs: Any) -> Any:
    """A type of named tuples whose entries can also be had by their name: ``it["name"]``.

    Names that are no identifiers are replaced by positions, and found by name all the same.
    """
    names = field_names.replace(",", " ").split() if isinstance(field_names, str) else list(field_names)
    places = {name: at for at, name in enumerate(names)}
    base: Any = namedtuple(typename, names, *args, **{"rename": True, **kwargs})  # type: ignore[misc]

    def entry(self: Any, key: Any) -> Any:
        return tuple.__getitem__(self, places[key] if isinstance(key, str) else key)

    return type(typename, (base,), {"__slots__": (), "__getitem__": entry})


def _output_names(op_type: str, schema: Schema, inputs: list[str], count: int | None) -> list[str]:
    if count is None:
        for_inputs = {"Concat": 2, "Free": len(inputs)}
        count = for_inputs.get(op_type, schema.outputs.most)
    if count is None:
        raise ValueError(f"{op_type} may have any number of outputs: give num_output")
    if not schema.outputs.allows(count):
        raise ValueError(f"{op_type} has {schema.outputs} outputs, not {count}")
    names = [f"output_{at}" for at in range(count)]
    for read, written in schema.in_place:
        if read < len(inputs) and written < count:
            names[written] = inputs[read]
    return names


class _Functional:
    """Its attributes are functions, one per operator type."""

    def __getattr__(self, op_type: str) -> Any:
        if op_type.startswith("_") or not is_operator(op_type):
            raise AttributeError(f"there is no operator {op_type}{near_types(op_type)}")
        schema = schema_of(op_type) or _ANY

        def call(*arrays: Any, num_output: int | None = None, **arguments: Any) -> Any:
            inputs = [f"input_{at}" for at in range(len(arrays))]
            if not schema.inputs.allows(len(inputs)):
                raise ValueError(f"{op_type} takes {schema.inputs} inputs, not {len(inputs)}")
            outputs = _output_names(op_type, schema, inputs, num_output)
            operator = core.CreateOperator(op_type, inputs, outputs, **arguments)
            workspace = Workspace()
            with core.DeviceScope(arguments.get("device_option") or core.DeviceOption(CPU)):
                for name, array in zip(inputs, arrays, strict=True):
                    workspace.FeedBlob(name, array)
                workspace.RunOperatorOnce(operator)
                found = [workspace.FetchBlob(name) for name in outputs]
            return namedtupledict("output", outputs)(*found)

        call.__name__ = op_type
        call.__doc__ = (
            f"Run ``{op_type}`` on arrays; returns a named tuple of its outputs, ``output_0`` and so on.\n\n"
            "``num_output`` says how many there are, where their number isn't fixed; other keywords are\n"
            "arguments of the operator.\n\nRaises:\n    ValueError: The operator takes another number of\n"
            "        inputs, or doesn't have this number of outputs.\n"
        )
        return call


Functional = _Functional()
