"""Makers of the operators that hold nets: ``Do`` and ``If``. The same backward pass runs on their nets.

``Do`` runs a net in a workspace of its own, a fresh one each time. Blobs of the net are bound to blobs
outside, and the workspaces are kept on a stack, which is the operator's last input and output; its gradient
takes the last one off, so that it finds what the net has left there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from netgrad.caffe2 import backward
from netgrad.caffe2.arguments import Arguments, make_argument
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.held_nets import HeldNets
from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import Makers, net_maker
from netgrad.caffe2.reads import outside_reads
from netgrad.core import BackwardPass, Gradient, GradientSlice, Operator
from netgrad.core.registry import RuleResult


@net_maker("Do")
def _do(op: Operator, grads: Sequence[Gradient | None], rules: Makers) -> RuleResult:
    """A ``Do`` over the gradient of the net, in the workspace that the forward one has left."""
    body = Body.of(op)
    operators, own = own_gradients(op, grads)
    starts = {body.inner[op.outputs[at]]: grad for at, grad in own.items() if op.outputs[at] in body.inner}
    given = {f"{blob}/_DO_OPERATOR_INNER_GRAD_": grad for blob, grad in starts.items()}
    inside, result = backward.differentiate(
        body.net.op, {blob: f"{blob}/_DO_OPERATOR_INNER_GRAD_" for blob in starts}, rules=rules
    )
    bound: dict[str, str] = {}
    gradients: list[Gradient | None] = [None] * len(op.inputs)
    for at, outer in enumerate(op.inputs[:-1]):
        blob = body.inner[outer]
        gradient = entry_gradient(result, blob, given_start(starts, blob))
        if gradient is not None and f"{outer}_grad" not in bound.values():
            copy = f"{blob}/_DO_OPERATOR_INNER_GRAD_COPY_"
            inside.append(dense_copy(gradient, blob, copy))
            bound[copy] = gradients[at] = f"{outer}_grad"
    writes = [str(gradient) for gradient in gradients if gradient is not None]
    if not writes:
        return [], gradients
    reads: dict[str, str] = {}
    saved = []
    for blob in outside_reads(inside):
        source = given.get(blob) or body.outer.get(blob)
        if source is None:
            saved.append(blob)
        else:
            reads[source] = bound[blob] = latest(op, source)
    blobs = [*reads, *writes]
    net = gradient_net(body.net, inside)
    message = gradient_message(
        op,
        net=net,
        inner_blobs=list(bound),
        outer_blobs_idx=[blobs.index(outer) for outer in bound.values()],
        saved_fwd_blobs=saved,
    )
    workspace = op.outputs[-1]
    attributes = HeldNets(message, [*reads, workspace], writes, [workspace])
    operators.append(gradient_operator(op, [*reads.values(), workspace], writes, attributes))
    return operators, gradients


@net_maker("If")
def _if(op: Operator, grads: Sequence[Gradient | None], rules: Makers) -> RuleResult:
    """An ``If`` over the gradients of both nets; each writes the same gradients."""
    operators, own = own_gradients(op, grads)
    starts = {str(op.outputs[at]): grad for at, grad in own.items()}
    then_net, else_net = net_argument(op, "then_net"), net_argument(op, "else_net")
    if then_net is None:
        raise Refusal("it has no then_net")
    branches = [_Branch.of(net or NetDef(), starts, rules) for net in (then_net, else_net)]
    found = _common_gradients(op, branches, starts)
    if all(gradient is None or gradient == starts.get(blob) for blob, gradient in found.items()):
        return operators, [found.get(blob) for blob in op.inputs]
    for branch in branches:
        branch.operators += branch.copies + branch.fills
    condition = op.inputs[0]
    reads = dict.fromkeys(blob for branch in branches for blob in outside_reads(branch.operators))
    reads.pop(condition, None)
    writes, workspaces = written_blobs([one for branch in branches for one in branch.operators])
    given = {str(gradient): gradient for gradient in own.values()}
    inputs = [condition, *(given.get(name) or known(op, name) for name in reads)]
    nets = {"then_net": gradient_net(then_net, branches[0].operators)}
    if else_net is not None:
        nets["else_net"] = gradient_net(else_net, branches[1].operators)
    elif branches[1].operators:
        nets["else_net"] = gradient_net(then_net, branches[1].operators, "_auto_else_zero_blobs_")
    attributes = HeldNets(gradient_message(op, **nets), [condition, *reads], writes, workspaces)
    operators.append(gradient_operator(op, inputs, writes, attributes))
    first = {blob: at for at, blob in reversed(list(enumerate(op.inputs)))}
    return operators, [found.get(blob) if first[blob] == at else None for at, blob in enumerate(op.inputs)]


@dataclass(slots=True)
class _Branch:
    """The gradient of one branch: its operators, and what they leave as the gradient of each input."""

    operators: list[OperatorDef]
    result: BackwardPass
    starts: Mapping[str, str]
    copies: list[OperatorDef] = field(default_factory=list)
    fills: list[OperatorDef] = field(default_factory=list)

    @staticmethod
    def of(net: NetDef, starts: Mapping[str, str], rules: Makers) -> _Branch:
        operators, result = backward.differentiate(net.op, dict(starts), rules=rules)
        return _Branch(operators, result, starts)

    def gradient(self, blob: str) -> Gradient | None:
        return entry_gradient(self.result, blob, self.starts.get(blob))


def _common_gradients(
    op: Operator, branches: Sequence[_Branch], starts: Mapping[str, str]
) -> dict[str, Gradient | None]:
    """For each input one name that both branches leave its gradient under."""
    found: dict[str, Gradient | None] = {}
    for blob in dict.fromkeys(op.inputs[1:]):
        entries = [branch.gradient(blob) for branch in branches]
        start = starts.get(blob)
        if entries.count(None) == len(entries):
            continue
        if all(entry == start for entry in entries):
            found[blob] = start
            continue
        name = f"{blob}_grad"
        if any(entry not in (name, start, None) for entry in entries) or (name == start and None in entries):
            name = f"{blob}_grad_of_if"  # a gradient that is another blob's too, under its name
        for branch, entry in zip(branches, entries, strict=True):
            if entry is None:
                branch.fills.append(zeros(blob, name))
            elif entry != name:
                branch.copies.append(dense_copy(entry, blob, name))
        found[blob] = name
    return found


# ---- what all of them need ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Body:
    """The net of a ``Do``, and which of its blobs are which outside."""

    net: NetDef
    inner: Mapping[str, str]
    outer: Mapping[str, str]

    @staticmethod
    def of(op: Operator) -> Body:
        """That of an operator.

        Raises:
            Refusal: It isn't as a ``Do`` has to be.
        """
        net = net_argument(op, "net")
        names = [blob.decode() for blob in op.attributes.get("inner_blobs", ())]
        places = op.attributes.get("outer_blobs_idx", ())
        if net is None or len(names) != len(places) or not op.inputs or not op.outputs:
            raise Refusal("a Do has a net, inner_blobs, as many outer_blobs_idx, and a workspace")
        if op.inputs[-1] != op.outputs[-1]:
            raise Refusal("the workspace is the last input and the last output of a Do")
        blobs = [str(blob) for blob in (*op.inputs[:-1], *op.outputs[:-1])]
        if any(not 0 <= at < len(blobs) for at in places):
            raise Refusal("outer_blobs_idx counts inputs and outputs without the workspace")
        outer = {name: blobs[at] for name, at in zip(names, places, strict=True)}
        inner = {blob: name for name, blob in outer.items()}
        if len(inner) < len(outer) or set(blobs) != set(inner):
            raise Refusal("blobs inside and outside of a Do correspond one to one")
        return Body(net, inner, outer)


def net_argument(op: Operator, name: str) -> NetDef | None:
    """A net that an operator holds; None if it doesn't."""
    found = op.attributes.get(name)
    return found if isinstance(found, NetDef) else None


def own_gradients(op: Operator, grads: Sequence[Gradient | None]) -> tuple[list[Operator], dict[int, str]]:
    """The gradients of the outputs that have one, by position; where two share a blob, one gets a copy."""
    operators: list[Operator] = []
    own: dict[int, str] = {}
    for at, grad in enumerate(grads):
        if grad is None:
            continue
        assert not isinstance(grad, GradientSlice), "made dense before"
        if grad in own.values():
            copy = f"{op.outputs[at]}_{grad}_DEDUP"
            operators.append(Operator("Copy", (grad,), (copy,), Arguments(OperatorDef()), device=op.device))
            grad = copy
        own[at] = grad
    return operators, own


def given_start(starts: Mapping[str, str], blob: str) -> str | None:
    """The start gradient of a blob of the net of a ``Do``, as it is called inside."""
    return f"{blob}/_DO_OPERATOR_INNER_GRAD_" if blob in starts else None


def entry_gradient(result: BackwardPass, blob: str, start: str | None) -> Gradient | None:
    """The gradient of the value that a blob has before a net runs.

    Args:
        result: The backward pass over the net.
        blob: The blob.
        start: The gradient that its last value has been given; it is passed on if the net doesn't touch it.
    """
    for op in result.forward:
        if blob in op.inputs:
            return result.gradient_of(blob, 0)
        if blob in op.outputs:
            return None
    return start


def written_blobs(operators: Sequence[OperatorDef]) -> tuple[list[str], list[str]]:
    """What operators write: blobs, and workspaces."""
    workspaces: dict[str, None] = {}
    blobs: dict[str, None] = {}
    for op in operators:
        read = set(op.input)
        # Of the operators that hold nets, the workspaces are what is read and written under one name.
        held = {name for name in op.output if name in read} if op.type in ("Do", "If", "While") else set()
        for name in op.output:
            (workspaces if name in held and _is_workspace(op, name) else blobs)[name] = None
    return list(blobs), list(workspaces)


def _is_workspace(op: OperatorDef, name: str) -> bool:
    if op.type == "Do":
        return bool(op.output[-1] == name)
    return any(
        _is_workspace(inner, name) for argument in op.arg for inner in argument.n.op if name in inner.output
    )


def known(op: Operator, name: str) -> str:
    """What a net of ``op`` means by a name: an output, or an input.

    Raises:
        Refusal: It is neither.
    """
    if name not in op.inputs and name not in op.outputs:
        raise Refusal(
            f"its gradient reads '{name}', which is neither an input nor an output of it: list it as one, "
            f"or put the net into a Do, which keeps what it has computed"
        )
    return latest(op, name)


def latest(op: Operator, name: str) -> str:
    """The value that a blob has after ``op``."""
    for blob in (*op.outputs, *op.inputs):
        if blob == name:
            return blob
    return name


def zeros(blob: str, name: str) -> OperatorDef:
    """A gradient of zeros for ``blob``."""
    return OperatorDef(
        type="ConstantFill", input=[blob], output=[name], name="", arg=[make_argument("value", 0.0)]
    )


def dense_copy(gradient: Gradient, blob: str, name: str) -> OperatorDef:
    """A gradient of ``blob`` under another name, as a tensor of the blob's shape."""
    if isinstance(gradient, GradientSlice):
        return OperatorDef(
            type="SparseToDense", input=[gradient.indices, gradient.values, blob], output=[name], name=""
        )
    return OperatorDef(type="Copy", input=[gradient], output=[name], name="")


def gradient_net(net: NetDef, operators: Sequence[OperatorDef], ending: str = "") -> NetDef:
    """A net with the settings of ``net`` and these operators."""
    gradient = NetDef()
    gradient.CopyFrom(net)
    del gradient.op[:], gradient.external_input[:], gradient.external_output[:]
    gradient.op.extend(operators)
    if net.name:
        gradient.name = f"{net.name}_grad{ending}"
    return gradient


def gradient_message(op: Operator, **arguments: object) -> OperatorDef:
    """What a gradient operator says besides its blobs: as its forward operator, with these arguments."""
    message = OperatorDef()
    if isinstance(op.attributes, Arguments):
        message.CopyFrom(op.attributes.message)
    del message.arg[:], message.control_input[:]
    message.arg.extend(make_argument(name, value) for name, value in arguments.items())
    message.is_gradient_op = True
    return message


def gradient_operator(
    op: Operator, inputs: Sequence[str], outputs: Sequence[str], attributes: Arguments
) -> Operator:
    """The gradient operator of ``op``, of its type, on its device and named after it."""
    name = f"{op.name}_grad" if op.name else ""
    return Operator(op.type, tuple(inputs), tuple(outputs), attributes, device=op.device, name=name)
