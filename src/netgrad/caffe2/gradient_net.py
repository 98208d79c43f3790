"""The gradient of a saved model as a saved model: its net with the backward pass in Caffe2's operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.caffe2_pb2 import MetaNetDef, NetDef, OperatorDef
from netgrad.caffe2.definitions import to_definition
from netgrad.caffe2.execute import Program
from netgrad.caffe2.saved_model import SavedModel
from netgrad.core import BackwardPass, Gradient, GradientSlice, InvalidArgumentError
from netgrad.core.errors import nearest


@dataclass(frozen=True)
class GradientNet:
    """A saved model with its backward pass, and how it came about.

    Attributes:
        model: The model. Its net runs the forward operators and then the gradient operators.
        outputs: The gradient of each differentiated name: a blob, or the blobs of a slice of rows.
        seeds: The input that is the start gradient of each target; empty with ``cotangent="ones"``.
        unreached: Names in ``wrt`` that don't influence the target; their gradient is zeros.
        backward: The backward pass.
    """

    model: SavedModel
    outputs: Mapping[str, Gradient]
    seeds: Mapping[str, str]
    unreached: tuple[str, ...]
    backward: BackwardPass


def gradient_net(
    model: SavedModel,
    *,
    wrt: Sequence[str] | None = None,
    of: Sequence[str] | None = None,
    cotangent: Literal["ones", "input"] = "ones",
) -> GradientNet:
    """Write the backward pass of a saved model into its net, as Caffe2 would have.

    Values that the net overwrites and the backward pass needs are kept under other names. The gradients
    become outputs of the net besides its own.

    Args:
        model: The model; it isn't changed.
        wrt: The blobs to differentiate by, at the values that they have before the net runs; None for the
            floating-point parameters that influence ``of``.
        of: The blobs to differentiate, at their last versions; None for the only output.
        cotangent: ``"ones"``: the gradient is that of the sum of all elements of ``of``; ``"input"``: the net
            takes the start gradients as inputs ``<of>_grad``.

    Raises:
        InvalidArgumentError: A name is unknown, or ``of`` has to say which output.
        UnsupportedOperatorError: Operators in the way of a gradient have no gradient maker.
    """
    net = model.predict_net
    goals = _targets(model, of)
    sources = _sources(model, wrt)
    taken = {blob for op in net.op for blob in (*op.input, *op.output)}
    seeds = {blob: _free(f"{blob}_grad", taken) for blob in goals} if cotangent == "input" else {}
    operators, result = differentiate(
        net.op, {blob: seeds.get(blob) for blob in goals}, wrt=sources, overwritten="keep"
    )
    found = {blob: result.gradient_of(blob, 0) for blob in sources}
    if wrt is None:
        found = {blob: gradient for blob, gradient in found.items() if gradient is not None}
    unreached = tuple(blob for blob, gradient in found.items() if gradient is None)
    taken.update(blob for op in operators for blob in op.output)
    outputs: dict[str, Gradient] = {}
    for blob, gradient in found.items():
        if gradient is None:
            gradient = _free(f"{blob}_grad", taken)
            operators.append(_zeros(blob, gradient))
        outputs[blob] = gradient
    forward = [to_definition(op) for op in result.forward]
    written = _with_backward(model, [*forward, *operators], seeds.values(), outputs.values())
    return GradientNet(written, outputs, seeds, unreached, result)


def names_of(gradient: Gradient) -> list[str]:
    """The blobs of a gradient: one, or the indices and the values of a slice."""
    return [gradient.indices, gradient.values] if isinstance(gradient, GradientSlice) else [gradient]


def _targets(model: SavedModel, of: Sequence[str] | None) -> list[str]:
    written = {blob for op in model.predict_net.op for blob in op.output}
    if of is None:
        if len(model.outputs) != 1:
            raise InvalidArgumentError(
                f"the net has {len(model.outputs)} outputs: {', '.join(model.outputs)}",
                hint="say which one is differentiated (of)",
            )
        return list(model.outputs)
    for blob in of:
        if blob not in written:
            raise InvalidArgumentError(f"of: the net writes no blob '{blob}'{nearest(blob, written)}")
    return list(dict.fromkeys(of))


def _sources(model: SavedModel, wrt: Sequence[str] | None) -> list[str]:
    if wrt is None:
        return [name for name, array in model.parameters.items() if array.dtype.kind == "f"]
    read = Program(model.predict_net.op).reads
    for blob in wrt:
        if blob not in read:
            raise InvalidArgumentError(
                f"wrt: '{blob}' is no input and no parameter of the net{nearest(blob, read)}",
                hint=f"the net reads {', '.join(read)}",
            )
    return list(dict.fromkeys(wrt))


def _free(name: str, taken: set[str]) -> str:
    """A name that no blob has."""
    found, number = name, 1
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    taken.add(found)
    return found


def _zeros(blob: str, name: str) -> OperatorDef:
    fill = OperatorDef(type="ConstantFill", name="", input=[blob], output=[name])
    fill.arg.append(make_argument("value", 0.0))
    return fill


def _with_backward(
    model: SavedModel,
    operators: Sequence[OperatorDef],
    seeds: Collection[str],
    gradients: Collection[Gradient],
) -> SavedModel:
    """The model with these operators, whose net says what it reads and gives."""
    net = NetDef()
    net.CopyFrom(model.predict_net)
    del net.op[:], net.external_output[:]
    net.op.extend(operators)
    if net.name:
        net.name += "_grad"
    known = set(net.external_input)
    net.external_input.extend(blob for blob in Program(operators).reads if blob not in known)
    blobs = [blob for gradient in gradients for blob in names_of(gradient)]
    net.external_output.extend(dict.fromkeys([*model.outputs, *blobs]))
    return SavedModel(net, model.init_net, _meta(model, net, seeds), model.stored)


def _meta(model: SavedModel, net: NetDef, seeds: Collection[str]) -> MetaNetDef | None:
    """What a predictor file says, with the new net in place of the old one."""
    if model.meta is None:
        return None
    meta = MetaNetDef()
    meta.CopyFrom(model.meta)
    for entry in meta.nets:
        if entry.value == model.predict_net:
            entry.value.CopyFrom(net)
    for blobs in meta.blobs:
        if blobs.key == "INPUTS_BLOB_TYPE":
            blobs.value.extend(seeds)
        if blobs.key == "OUTPUTS_BLOB_TYPE":
            blobs.value[:] = net.external_output
    return meta
