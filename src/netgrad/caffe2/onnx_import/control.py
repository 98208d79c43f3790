"""Operators that hold graphs, which become nets that run among the blobs around them."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef, TensorProto
from netgrad.caffe2.onnx_import.node import Node, Target
from netgrad.caffe2.onnx_import.operators import combined, write_operators
from netgrad.caffe2.onnx_import.registry import writes
from netgrad.caffe2.reads import outside_reads, reads_inside, written_names
from netgrad.core import UnsupportedOperatorError
from netgrad.onnx.body import Body
from netgrad.onnx.view import Structure, TensorInfo


@writes("If")
def _if(n: Node) -> None:
    """Both nets write the operator's outputs."""
    nets: dict[str, NetDef] = {}
    errors: list[UnsupportedOperatorError] = []
    for argument, attribute in (("then_net", "then_branch"), ("else_net", "else_branch")):
        try:
            nets[argument] = _branch(n, _body(n, attribute), argument)
        except UnsupportedOperatorError as error:
            errors.append(error)
    if errors:
        raise combined(errors)
    # all that is written, because the gradient reads of it what is an output
    written = dict.fromkeys([*n.outputs, *(blob for net in nets.values() for blob in written_names(net.op))])
    n.write("If", _inputs(n.inputs[0], *nets.values()), list(written), **nets)


def _branch(n: Node, body: Body, wish: str) -> NetDef:
    target = n.inner(body.types, wish)
    write_operators(body.operators, n.opset, target, body.outputs)
    for found, output in zip(body.outputs, n.outputs, strict=True):
        _check_tensor(n, target, found)
        target.write("Copy", [found], output)
    target.net.external_output.extend(n.outputs)
    return target.net


@writes("Loop")
def _loop(n: Node) -> None:
    """A ``While``, whose net gives what is carried, the turn and the condition their next values."""
    body = _body(n, "body")
    carried = len(body.inputs) - 2
    turn, going_on, *states = body.inputs
    collected = {at: _nothing_yet(n, body, at) for at in range(carried, len(n.outputs)) if n.reads_output(at)}
    rank = len(body.types.get(turn, TensorInfo()).shape or ())  # none; early models declare [1]
    one = np.ones((1,) * rank, np.int64)
    n.write("ConstantFill", [], [turn], shape=list(one.shape), value=0, dtype=TensorProto.INT64)
    for at, state in enumerate(states, 2):
        n.write("Copy", [n.inputs[at]], [state])
    given = [n.inputs[1]] if n.has(1) else []
    if n.has(0):
        given.append(n.step("GT", [n.inputs[0], turn], broadcast=1))
    if not given:
        raise n.refused("it would never end: it has neither a number of turns nor a condition")
    condition = n.fresh("condition")
    _write_condition(n.target, given, condition)

    inside = n.inner(body.types, "loop_net")
    inside.write("Copy", [condition], going_on)
    write_operators(body.operators, n.opset, inside, body.outputs)
    for at, rows in collected.items():
        row = inside.write("ExpandDims", [body.outputs[1 + at]], n.fresh("row"), dims=[0])
        more = n.fresh("more_rows")
        inside.write("Concat", [rows, row], more, axis=0)
        inside.net.op[-1].output.append(n.fresh("sizes"))
        inside.write("Copy", [more], rows)
    again, *results = body.outputs[: 1 + carried]
    for at, result in enumerate(results):
        _check_tensor(n, inside, result)
        if result in states:  # which is overwritten itself
            results[at] = inside.write("Copy", [result], n.fresh("kept"))
    given = [again] if n.has(1) else []
    if again in body.inputs or again in results:
        given = [inside.write("Copy", [again], n.fresh("again"))] if given else []
    for result, state in zip(results, states, strict=True):
        inside.write("Copy", [result], state)
    inside.write("Add", [turn, n.parameter(one, "one")], turn)
    if n.has(0):
        given.append(inside.write("GT", [n.inputs[0], turn], n.fresh("more"), broadcast=1))
    _write_condition(inside, given, condition)
    written = [condition, turn, *states, *collected.values()]
    inside.net.external_output.extend(written)
    n.write("While", _inputs(condition, inside.net), written, loop_net=inside.net)
    for at, output in enumerate(n.outputs):
        if at < carried or at in collected:
            n.write("Copy", [states[at] if at < carried else collected[at]], [output])


def _nothing_yet(n: Node, body: Body, at: int) -> str:
    """No rows so far, of a result that is collected over the turns."""
    info = body.types.get(body.outputs[1 + at], TensorInfo())
    dims = [dim for dim in info.shape or () if isinstance(dim, int)]
    if info.dtype is None or info.shape is None or len(dims) < len(info.shape):
        raise n.refused(
            f"the type or shape of '{body.outputs[1 + at]}', of which each turn gives one, is not known"
        )
    value = 0.0 if info.dtype.is_floating_point() else 0
    arguments = {"shape": [0, *dims], "value": value, "dtype": n.number_of(info.dtype)}
    return n.write("ConstantFill", [], [n.fresh("rows")], **arguments)


def _write_condition(target: Target, given: list[str], condition: str) -> None:
    """Go on where all that is given holds."""
    if len(given) == 2:
        target.write("And", given, condition, broadcast=1)
    else:
        target.write("Copy", given, condition)


def _body(n: Node, attribute: str) -> Body:
    found = n.op.attributes[attribute]
    assert isinstance(found, Body), "the standard says so"
    return found


def _inputs(condition: str, *nets: NetDef) -> list[str]:
    """What an operator reads: the condition, and what its nets read from around, which they are told."""
    for net in nets:
        net.external_input.extend([*outside_reads(net.op), *reads_inside(net.op)])
    return list(dict.fromkeys([condition, *(blob for net in nets for blob in net.external_input)]))


def _check_tensor(n: Node, target: Target, blob: str) -> None:
    structure = target.types.get(blob, TensorInfo()).structure
    if structure is not Structure.TENSOR:
        raise n.refused(f"its graph gives '{blob}', which is a {structure.value}")
