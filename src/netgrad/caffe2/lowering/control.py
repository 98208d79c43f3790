"""``Do``, whose net is written among the operators around it, and ``If``, whose nets are branches in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.bindings import bindings
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.held import (
    Choice,
    ControlFlowError,
    Element,
    Frame,
    Held,
    Perhaps,
    Ref,
    Repeated,
    Stack,
    mapped,
    refused,
)
from netgrad.caffe2.lowering.scopes import CONTROL, DoScope, GraphScope, Scope, Writer
from netgrad.core import Operator, UnsupportedOperatorError
from netgrad.onnx.builder import Value
from netgrad.onnx.view import TensorInfo


def controls(type_: str) -> Callable[[Writer], Writer]:
    """Register what writes operators of a type, and let it say of errors inside where they are."""

    def register(function: Writer) -> Writer:
        def write(scope: Scope, definition: OperatorDef) -> None:
            try:
                function(scope, definition)
            except UnsupportedOperatorError as error:
                raise refused(definition, str(error)) from error
            except KeyError as error:
                raise refused(
                    definition, f"a net in it reads '{error.args[0]}', which isn't there"
                ) from error

        CONTROL[type_] = write
        return function

    return register


def net_of(definition: OperatorDef, name: str) -> NetDef | None:
    """The net that an operator holds, or None without it.

    Raises:
        ControlFlowError: The argument is no net.
    """
    for argument in definition.arg:
        if argument.name == name:
            found = value_of(argument)
            if isinstance(found, bytes):
                return NetDef.FromString(found)
            if isinstance(found, NetDef):
                return found
            raise refused(definition, f"argument '{name}' is no net")
    return None


def needed_net(definition: OperatorDef, name: str) -> NetDef:
    """The same where there has to be one."""
    net = net_of(definition, name)
    if net is None:
        raise refused(definition, f"{name} must be specified")
    return net


def condition_of(scope: Scope, definition: OperatorDef) -> Value:
    """The condition of an operator, its first input, as a truth value of no dims."""
    return scope.b.reshape(scope.b.cast(scope.value(definition.input[0], definition), ir.DataType.BOOL), [])


# ---- workspaces --------------------------------------------------------------------------------------


@controls("CreateScope")
def _create_scope(scope: Scope, definition: OperatorDef) -> None:
    scope.write(definition.output[0], Stack())


@controls("HasScope")
def _has_scope(scope: Scope, definition: OperatorDef) -> None:
    elements = scope.stack(definition.input[0], definition).elements
    if all(isinstance(one, Frame) for one in elements):
        has = scope.b.constant(np.asarray([bool(elements)]))
    elif len(elements) == 1 and isinstance(elements[0], Repeated):
        has = scope.b.reshape(_own(scope, elements[0].count) > 0, [1])
        scope.all.asked[has.name] = elements[0].count.name
    else:
        raise refused(definition, "how many workspaces there are depends on several conditions or loops")
    scope.write(definition.output[0], has)


@controls("Do")
def _do(scope: Scope, definition: OperatorDef) -> None:
    """Run a net on the bound blobs; a gradient finds what its forward operator has left besides."""
    net = needed_net(definition, "net")
    try:
        bound = bindings(definition)
    except ValueError as error:
        raise refused(definition, str(error)) from error
    place = definition.input[-1]
    stack = scope.stack(place, definition)
    references = {name: Ref(outer) for name, outer in bound.items()}
    if definition.is_gradient_op:
        frame, rest = _taken_off(scope, stack, definition)
        inside = DoScope(scope, {**references, **frame.blobs})
        inside.run(net.op)
        scope.write(place, rest)
        return
    arguments = {argument.name: value_of(argument) for argument in definition.arg}
    blobs: dict[str, Held | Ref] = {}
    below = stack.elements
    if arguments.get("reuse_workspace", 0) and below:
        frame, rest = _taken_off(scope, stack, definition)
        blobs.update(frame.blobs)
        below = rest.elements
    inside = DoScope(scope, {**blobs, **references})
    inside.run(net.op)
    left = inside.blobs
    if arguments.get("copy_external_blobs", 0):
        copies = {name: scope.find(outer) for name, outer in bound.items()}
        left.update((name, held) for name, held in copies.items() if held is not None)
    kept = {name: held for name, held in left.items() if name in scope.all.saved or isinstance(held, Stack)}
    scope.write(place, Stack((*below, Frame(kept))))


def _taken_off(scope: Scope, stack: Stack, definition: OperatorDef) -> tuple[Frame, Stack]:
    """The workspace on top, and the others."""
    if not stack.elements:
        raise refused(definition, "there is no workspace of a forward run for this gradient")
    *below, top = stack.elements
    if isinstance(top, Frame):
        return top, Stack(tuple(below))
    if isinstance(top, Choice):
        raise refused(definition, "the workspace for it depends on another condition than this operator")
    if below:
        raise refused(definition, "the workspace for it may be of another operator than the loop before it")
    left = _own(scope, top.count) - 1
    frame = mapped(top.frame, lambda stacked: scope.b.op("Gather", _own(scope, stacked), left, axis=0))
    assert isinstance(frame, Frame), "a frame stays one"
    return frame, Stack((*below, Repeated(left, top.frame)))


def _own(scope: Scope, value: Value) -> Value:
    """A value of a graph around, to be computed with in this one."""
    return scope.b.value(value.name, value.info)


# ---- branches ----------------------------------------------------------------------------------------


class _Results:
    """The results of an ``If``: pairs of a value of each branch."""

    def __init__(self, branches: Sequence[GraphScope]) -> None:
        self.branches = branches
        self.pairs: list[tuple[Value, Value]] = []

    def add(self, then: Value, otherwise: Value) -> int:
        self.pairs.append((then, otherwise))
        return len(self.pairs) - 1

    def of_one(self, at: int, value: Value) -> Value:
        """What stands for a value of one branch until the ``If`` is written.

        The other branch gives nothing in its place, which nobody reads.
        """
        other = self.branches[1 - at].b
        if value.rank is None or value.dtype is None or value.dtype is ir.DataType.STRING:
            raise UnsupportedOperatorError(f"the rank or element type of {value.name} is not known")
        nothing = other.constant(np.zeros((0,) * value.rank, value.dtype.numpy()))
        self.pairs.append((value, nothing) if at == 0 else (nothing, value))
        return self.branches[at].b.value(f"result:{len(self.pairs) - 1}", value.info.plain)


@controls("If")
def _if(scope: Scope, definition: OperatorDef) -> None:
    """What a branch leaves as it was keeps its value; what had none is perhaps not written."""
    condition = condition_of(scope, definition)
    nets = [needed_net(definition, "then_net"), net_of(definition, "else_net") or NetDef()]
    branches = [GraphScope(scope, condition.name, holds) for holds in (True, False)]
    for branch, net in zip(branches, nets, strict=True):
        branch.run(net.op)
    results = _Results(branches)
    places: dict[str, int] = {}
    lone: dict[str, tuple[bool, Value, ControlFlowError]] = {}
    stacks: dict[str, tuple[Stack, tuple[Element, ...], tuple[Element, ...]]] = {}
    for name in dict.fromkeys([*branches[0].blobs, *branches[1].blobs]):
        then, otherwise = (branch.find(name) for branch in branches)
        if then is None or otherwise is None or isinstance(then, Perhaps) or isinstance(otherwise, Perhaps):
            error = refused(definition, f"one of its branches leaves '{name}' unwritten")
            holds = isinstance(then, Value)
            value = then if holds else otherwise
            if isinstance(value, Value):
                lone[name] = holds, results.of_one(0 if holds else 1, value), error
            else:
                scope.write(name, Perhaps(error))
        elif isinstance(then, Value) and isinstance(otherwise, Value):
            if then.dtype != otherwise.dtype or then.rank is None or then.rank != otherwise.rank:
                raise refused(definition, f"its branches write '{name}' in different types or ranks")
            places[name] = results.add(then, otherwise)
        elif isinstance(then, Stack) and isinstance(otherwise, Stack):
            common = then.common(otherwise)
            rests = [
                tuple(mapped(one, partial(results.of_one, at)) for one in stack.elements[common:])
                for at, stack in enumerate((then, otherwise))
            ]
            stacks[name] = Stack(then.elements[:common]), rests[0], rests[1]
        else:
            raise refused(definition, f"'{name}' is a stack of workspaces in one of its branches only")
    written = _write_if(scope, definition, condition, results) if results.pairs else ()

    def result(value: Value) -> Value:
        return written[int(value.name.removeprefix("result:"))]

    for name, at in places.items():
        scope.write(name, written[at])
    for name, (holds, value, error) in lone.items():
        scope.write(name, Perhaps(error, condition.name, holds, result(value)))
    for name, (common_part, then_rest, else_rest) in stacks.items():
        chosen: tuple[Element, ...] = ()
        if then_rest or else_rest:
            left = [tuple(mapped(one, result) for one in rest) for rest in (then_rest, else_rest)]
            chosen = (Choice(condition.name, left[0], left[1]),)
        scope.write(name, Stack((*common_part.elements, *chosen)))


def _write_if(
    scope: Scope, definition: OperatorDef, condition: Value, results: _Results
) -> tuple[Value, ...]:
    graphs = [
        branch.graph(f"{branch.prefix}:{label}", definition, [], [pair[at] for pair in results.pairs])
        for at, (label, branch) in enumerate(zip(("then", "else"), results.branches, strict=True))
    ]
    node = Operator("If", (condition.name,), ("",), {"then_branch": graphs[0], "else_branch": graphs[1]})
    return scope.b.written(node, [either(then.info, other.info) for then, other in results.pairs])


def either(one: TensorInfo, two: TensorInfo) -> TensorInfo:
    """What is known of a value that is one thing or another of the same type and rank."""
    assert one.shape is not None, "asked before"
    assert two.shape is not None, "asked before"
    dims = tuple(a if a == b else None for a, b in zip(one.shape, two.shape, strict=True))
    return TensorInfo(one.dtype, dims)
