"""Operator definitions as operators of the core, and back. Nothing is lost on the way."""

from __future__ import annotations

from netgrad.caffe2.arguments import Arguments, make_argument
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.devices import Device
from netgrad.caffe2.held_nets import HeldNets
from netgrad.core import Operator


def to_operator(definition: OperatorDef) -> Operator:
    """The core's view of an operator definition; its attributes are `Arguments`."""
    return Operator(
        definition.type,
        definition.input,
        definition.output,
        Arguments.of(definition),
        device=Device.of(definition.device_option) if definition.HasField("device_option") else None,
        name=definition.name,
    )


def to_definition(operator: Operator) -> OperatorDef:
    """The message of an operator whose attributes are `Arguments` or, of the core's own, a mapping."""
    if isinstance(operator.attributes, HeldNets):
        definition = operator.attributes.definition(operator)
    else:
        definition = OperatorDef()
        if isinstance(operator.attributes, Arguments):
            definition.CopyFrom(operator.attributes.message)
        else:
            definition.arg.extend(make_argument(name, value) for name, value in operator.attributes.items())
        definition.input.extend(operator.inputs)
        definition.output.extend(operator.outputs)
    definition.type = operator.type
    definition.name = operator.name
    if operator.device is not None:
        definition.device_option.CopyFrom(operator.device.option())
    return definition
