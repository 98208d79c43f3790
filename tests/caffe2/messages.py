"""Operator definitions from the JSON form of recorded results."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.caffe2_pb2 import Argument, DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python import core

_DEVICE_TYPES = {"CPU": 0, "CUDA": 1}


def operator(form: dict[str, Any]) -> OperatorDef:
    definition = OperatorDef(
        type=form["type"], input=form["inputs"], output=form["outputs"], name=form.get("name", "")
    )
    definition.arg.extend(_argument(argument) for argument in form.get("args", ()))
    if "device" in form:
        definition.device_option.CopyFrom(_device(form["device"]))
    if "engine" in form:
        definition.engine = form["engine"]
    if "is_gradient_op" in form:
        definition.is_gradient_op = form["is_gradient_op"]
    return definition


def net(form: dict[str, Any]) -> NetDef:
    return NetDef(
        op=[operator(one) for one in form["ops"]],
        external_input=form["external_input"],
        external_output=form["external_output"],
    )


def gradient(form: Any) -> Any:
    return core.GradientSlice(form["indices"], form["values"]) if isinstance(form, dict) else form


def _argument(form: dict[str, Any]) -> Argument:
    argument = Argument(name=form["name"])
    for field, value in form.items():
        if field == "n":
            argument.n.CopyFrom(net(value))
        elif field == "nets":
            argument.nets.extend(net(one) for one in value)
        elif field == "s":
            argument.s = value.encode()
        elif field == "strings":
            argument.strings.extend(text.encode() for text in value)
        elif isinstance(value, list):
            getattr(argument, field).extend(value)
        else:
            setattr(argument, field, value)
    return argument


def _device(form: dict[str, Any]) -> DeviceOption:
    option = DeviceOption()
    option.SetInParent()
    for field, value in form.items():
        if field == "device_type" and value == "CPU":
            continue  # the form doesn't tell whether it was set
        if field == "device_type":
            option.device_type = _DEVICE_TYPES[value]
        elif field == "extra_info":
            option.extra_info.extend(value)
        else:
            setattr(option, field, value)
    return option
