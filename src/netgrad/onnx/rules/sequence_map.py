"""Gradient rule of SequenceMap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from netgrad.onnx.body import Body
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.subgraph import Draft, Reads, arrive, index_type, sum_type, write, zero_sum
from netgrad.onnx.sequences import element, empty_sequence, zeros_like
from netgrad.onnx.view import Structure, TensorInfo


@rule("SequenceMap", attributes=("body",))
def sequence_map(op: RuleContext, *dy: Value | None) -> Sequence[Value | None]:
    """Y_i = body(S_i, X, C) for the tensors of the sequences S; X are tensors, C what the body reads besides.

    A Loop over the same tensors, which computes the body again and its backward pass: it appends dS_i to dS
    and adds to dX and dC.
    """
    body = op.operator.attributes["body"]
    assert isinstance(body, Body), "a prepared SequenceMap holds its body"
    b, explicit = op.builder, len(op.inputs) - len(body.captured)
    mapped = [k for k in range(explicit) if op.required(k).structure is Structure.SEQUENCE]
    wanted = [k for k in range(len(op.inputs)) if op.wants(k)]
    reads = Reads(op)
    draft = Draft(op, body, reads)
    inner = draft.builder

    iteration = draft.input(reads.fresh("iteration"), index_type())
    going = draft.input(reads.fresh("going"), TensorInfo(ir.DataType.BOOL, ()))
    sources = {
        k: body.inputs[k] if k < explicit else op.operator.inputs[k] for k in wanted
    }  # names in the body
    states = {
        k: draft.input(reads.fresh(f"gradients_{k}"), op.required(k).info)
        if k in mapped
        else draft.input(reads.fresh(f"sum_{k}"), sum_type(op.required(k).info))
        for k in wanted
    }
    for k, name in enumerate(body.inputs):
        given = inner.value(reads.add(f"input_{k}", op.required(k)), op.required(k).info)
        if k in mapped:
            draft.define(name, "SequenceAt", [given, iteration])
        else:
            draft.define(name, "Identity", [given])
    cotangents: dict[str, Value] = {}
    for k, cotangent in enumerate(dy):
        if cotangent is not None:
            given = inner.value(reads.add(f"cotangents_{k}", cotangent), cotangent.info)
            arrive(inner, cotangents, body.outputs[k], element(inner, given, iteration))
    gradients = draft.differentiate(cotangents, list(dict.fromkeys(sources.values())))

    draft.outputs.append(going.name)
    for k in wanted:
        gradient = gradients.get(sources[k])
        if k not in mapped:
            draft.add_to(states[k], gradient)
            continue
        if gradient is None:
            gradient = zeros_like(inner, draft.value(sources[k]))
        draft.hand_on(inner.op("SequenceInsert", states[k], gradient), states[k])

    explicit_inputs: list[Value] = [b.op("SequenceLength", op.input), b.constant(np.bool_(True))]
    explicit_inputs += [
        empty_sequence(b, op.required(k).info) if k in mapped else zero_sum(op, k) for k in wanted
    ]
    infos = [op.required(k).info.plain if k in mapped else sum_type(op.required(k).info) for k in wanted]
    results = write(op, "Loop", explicit_inputs, {"body": draft}, reads, infos)
    contributions: list[Value | None] = [None] * len(op.inputs)
    for k, result in zip(wanted, results, strict=True):
        contributions[k] = b.assume_like(result, op.required(k))
    return contributions
