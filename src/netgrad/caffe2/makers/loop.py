"""The maker of ``While``, whose loop is a ``Do``: a loop over the gradient of its body, backwards.

Each iteration of the forward loop left a workspace on the stack, and the gradient of the body takes one off,
so that the loop goes on as long as there is one. The gradients of what the loop carries go from iteration to
iteration; those of what it only reads are added up. (The original kept only the last iteration's.)
"""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2 import backward
from netgrad.caffe2.arguments import Arguments
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.held_nets import HeldNets
from netgrad.caffe2.makers.control import (
    dense_copy,
    entry_gradient,
    gradient_message,
    gradient_net,
    gradient_operator,
    known,
    net_argument,
    own_gradients,
    written_blobs,
    zeros,
)
from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import Makers, net_maker
from netgrad.caffe2.reads import outside_reads
from netgrad.core import BackwardPass, Gradient, Operator
from netgrad.core.registry import RuleResult


@net_maker("While")
def _while(op: Operator, grads: Sequence[Gradient | None], rules: Makers) -> RuleResult:
    """A ``While`` over the gradient of the body."""
    body = _body(op)
    operators, own = own_gradients(op, grads)
    given = {str(op.outputs[at]): grad for at, grad in own.items()}
    running, written, result = _steady(body, list(given), rules)
    read = dict.fromkeys(str(blob) for blob in body.input[:-1])
    steps = {blob: entry_gradient(result, blob, running.get(blob)) for blob in read}
    _check_condition(op, [*running, *(blob for blob, step in steps.items() if step is not None)])
    found = [blob for blob in read if blob not in running and steps[blob] is not None]
    totals = {**running, **{blob: _running(blob) for blob in found}}

    workspace, condition = op_workspace(op, body), f"{body.output[-1]}/_WHILE_GRAD_CONDITION_"
    more = OperatorDef(type="HasScope", input=[body.output[-1]], output=[condition], name="")
    operators.append(_forward_read(more, [workspace], condition, op))
    for blob, name in totals.items():
        source = given.get(blob)
        if source is None:
            operators.append(_forward_read(zeros(blob, name), [known(op, blob)], name, op))
        else:
            operators.append(_forward_read(dense_copy(source, blob, name), [source], name, op))

    for blob, name in running.items():
        step = steps.get(blob)
        if step is None:
            written.append(zeros(name, name))
        elif step != name:
            written.append(dense_copy(step, blob, name))
    for blob in found:
        step, each = steps[blob], f"{blob}/_WHILE_GRAD_STEP_"
        assert step is not None, "found before"
        written.append(dense_copy(step, blob, each))
        written.append(OperatorDef(type="Sum", input=[totals[blob], each], output=[totals[blob]], name=""))

    loop_net = net_argument(op, "loop_net")
    assert loop_net is not None, "asked before"
    message = gradient_message(
        op,
        loop_net=gradient_net(loop_net, written),
        cond_net=NetDef(name="gradient_loop_cond_net", op=[more]),
    )
    blobs, workspaces = written_blobs(written)
    kept = [condition, *totals.values(), *workspaces]
    reads = dict.fromkeys(outside_reads([*written, more]))
    for name in (condition, *totals.values()):
        reads.pop(name, None)
    inputs = [condition, *totals.values(), *(known(op, name) for name in reads)]
    writes = [blob for blob in blobs if blob not in kept]
    attributes = HeldNets(message, [condition, *totals.values(), *reads], writes, kept)
    operators.append(gradient_operator(op, inputs, writes, attributes))

    gradients: list[Gradient | None] = [None] * len(op.inputs)
    for blob, name in totals.items():
        if blob in op.inputs[1:]:
            out = f"{blob}_grad"
            copy = OperatorDef(type="Copy", input=[name], output=[out], name="")
            operators.append(_forward_read(copy, [name], out, op))
            gradients[op.inputs.index(blob, 1)] = out
    return operators, gradients


def op_workspace(op: Operator, body: OperatorDef) -> str:
    """The stack of workspaces of the body, after the loop."""
    return known(op, body.output[-1])


def _running(blob: str) -> str:
    return f"{blob}/_WHILE_GRAD_"


def _body(op: Operator) -> OperatorDef:
    net = net_argument(op, "loop_net")
    if net is None or len(net.op) != 1 or net.op[0].type != "Do":
        raise Refusal("the loop of a While that is differentiated is a single Do")
    body: OperatorDef = net.op[0]
    if to_operator(body).attributes.get("reuse_workspace", 0):
        raise Refusal("a loop that reuses its workspace keeps nothing for its gradient (reuse_workspace)")
    return body


def _steady(
    body: OperatorDef, blobs: Sequence[str], rules: Makers
) -> tuple[dict[str, str], list[OperatorDef], BackwardPass]:
    """The outputs of the body that have a gradient in some iteration, and the gradient of the body then."""
    running = {blob: _running(blob) for blob in blobs if blob in body.output}
    while True:
        written, result = backward.differentiate([body], running, rules=rules)
        more = [
            blob
            for blob in body.output[:-1]
            if blob not in running and blob in body.input and entry_gradient(result, blob, None) is not None
        ]
        if not more:
            return running, written, result
        running.update((blob, _running(blob)) for blob in more)


def _check_condition(op: Operator, blobs: Sequence[str]) -> None:
    """The net of the condition may not change what the loop is differentiated by."""
    net = net_argument(op, "cond_net")
    changed = [blob for one in (net.op if net else ()) for blob in one.output if blob in blobs]
    if changed:
        raise Refusal(f"the net of its condition changes '{changed[0]}', which has a gradient")


def _forward_read(definition: OperatorDef, inputs: Sequence[str], output: str, op: Operator) -> Operator:
    """An operator around the loop, which reads these very blobs."""
    message = to_operator(definition).attributes
    assert isinstance(message, Arguments), "made of a message"
    return Operator(definition.type, tuple(inputs), (output,), message, device=op.device)
