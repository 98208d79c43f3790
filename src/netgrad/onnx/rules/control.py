"""Gradient rule of If."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.onnx.body import Body
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.draws import handed_out
from netgrad.onnx.rules.subgraph import Draft, Reads, arrive, write
from netgrad.onnx.view import TensorInfo


@rule("If", attributes=("then_branch", "else_branch"), not_differentiable=(0,))
def if_(op: RuleContext, *dy: Value | None) -> Sequence[Value | None]:
    """Y = then(C) if condition else else(C), C what the branches read from outside; dC = that of the branch.

    An If on the same condition, with zeros for what a branch does not read. The branch that did not run is
    not differentiated at run time either; each branch computes its forward values again.
    """
    wanted = [k for k in range(1, len(op.inputs)) if op.wants(k)]
    reads = Reads(op)
    drafts: dict[str, Draft] = {}
    cotangents = {
        k: reads.add(f"cotangent_{k}", cotangent) for k, cotangent in enumerate(dy) if cotangent is not None
    }
    sources = {k: op.operator.inputs[k] for k in wanted}
    for branch in ("then_branch", "else_branch"):
        body = op.operator.attributes[branch]
        assert isinstance(body, Body), "a prepared If holds its branches"
        draft = drafts[branch] = Draft(op, body, reads)
        for name, k in dict(handed_out(body, body.outputs, op.rules.types)).items():
            drawn = op.optional_output(k)
            if drawn is not None:
                formal = reads.add(f"drawn_{name}", drawn)
                draft.give(name)
                draft.define(name, "Identity", [draft.builder.value(formal, body.types[name].plain)])
        arriving: dict[str, Value] = {}
        for k, formal in cotangents.items():
            draft.types[formal] = _output_info(op, body, k).plain
            arrive(draft.builder, arriving, body.outputs[k], draft.builder.value(formal, draft.types[formal]))
        gradients = draft.differentiate(arriving, list(dict.fromkeys(sources.values())))
        for name in sources.values():
            draft.output(gradients.get(name), name)
    results = write(op, "If", [op.input], drafts, reads, [op.required(k).info.plain for k in wanted])
    contributions: list[Value | None] = [None] * len(op.inputs)
    for k, result in zip(wanted, results, strict=True):
        contributions[k] = op.builder.assume_like(result, op.required(k))
    return contributions


def _output_info(op: RuleContext, body: Body, k: int) -> TensorInfo:
    """What is known of output ``k`` of a branch, which may be a value from outside."""
    name = body.outputs[k]
    return body.types.get(name) or op.rules.types.get(name, TensorInfo())
