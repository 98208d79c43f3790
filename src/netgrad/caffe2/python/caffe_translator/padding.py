"""Plain pads for pools and convolutions that round as Caffe does, and the shapes that tell them."""

from __future__ import annotations

import re
from collections.abc import Sequence

import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProtos
from netgrad.caffe2.python import utils
from netgrad.caffe2.running.shapes import inferred

_WINDOWED = re.compile(r"(Conv|ConvTranspose|MaxPool|AveragePool)(\dD)?$")
_SIDES = ("pad_l", "pad_t", "pad_r", "pad_b")

Shapes = dict[str, tuple[int, ...]]


def _after(op: OperatorDef, shapes: Shapes) -> Shapes:
    """The shapes of what an operator writes."""
    known = {name: (ir.DataType.FLOAT, shape) for name, shape in shapes.items()}
    found, _ = inferred([NetDef(op=[op])], known)
    return {name: tuple(found[name]) for name in op.output if name in found}


def shapes_of(net: NetDef, net_params: TensorProtos, input_dims: Sequence[int]) -> Shapes:
    """The shapes of all blobs of a net, whose only input is the first one of its first operator."""
    shapes = {tensor.name: tuple(tensor.dims) for tensor in net_params.protos}
    if net.op:
        shapes[net.op[0].input[0]] = tuple(input_dims)
    for op in net.op:
        shapes.update(_after(op, shapes))
    return shapes


def without_legacy_pad(net: NetDef, net_params: TensorProtos, input_dims: Sequence[int]) -> None:
    """Take ``legacy_pad`` from all operators: where one gives a row or column less then, it is padded.

    Raises:
        ValueError: The shape of an operator isn't known, or pads don't make up for the difference.
    """
    shapes = shapes_of(net, net_params, input_dims)
    for op in net.op:
        if not _WINDOWED.match(op.type) or all(argument.name != "legacy_pad" for argument in op.arg):
            continue
        kept = [argument for argument in op.arg if argument.name not in ("legacy_pad", "pad", *_SIDES)]
        given = {argument.name: argument.i for argument in op.arg}
        pads = {side: given.get(side, given.get("pad", 0)) for side in _SIDES}
        with_rule = shapes.get(op.output[0])
        plain = OperatorDef()
        plain.CopyFrom(op)
        del plain.arg[:]
        plain.arg.extend([*kept, *(utils.MakeArgument(side, size) for side, size in pads.items())])
        without = _after(plain, shapes).get(op.output[0])
        if with_rule is None or without is None or len(with_rule) != 4:
            raise ValueError(f"the shape of '{op.output[0]}', an image, isn't known")
        if with_rule == without:
            for argument in list(op.arg):
                if argument.name == "legacy_pad":
                    op.arg.remove(argument)
            continue
        for axis, side in ((2, "pad_b"), (3, "pad_r")):
            more = with_rule[axis] - without[axis]
            if more not in (0, 1):
                raise ValueError(f"'{op.output[0]}' is {with_rule} with legacy_pad, and {without} without")
            pads[side] += more
        del op.arg[:]
        op.arg.extend([*kept, *(utils.MakeArgument(side, size) for side, size in pads.items())])
