"""Gradient rule of Scan."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.onnx.body import Body
from netgrad.onnx.builder import Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.repetition import Repetition
from netgrad.onnx.rules.saving import given_draws, saved_states
from netgrad.onnx.rules.subgraph import Draft, Reads, arrive, sum_type, write, zero_sum

_AXES, _DIRECTIONS = "scan_output_axes", "scan_output_directions"


@rule(
    "Scan",
    attributes=(
        "body",
        "num_scan_inputs",
        "scan_input_axes",
        "scan_input_directions",
        _AXES,
        _DIRECTIONS,
    ),
)
def scan(op: RuleContext, *dy: Value | None) -> Sequence[Value | None]:
    """S_{t+1}, Z_t = body(S_t, X_t, C) for the slices X_t; the outputs are S_n and the stacked Z.

    A Scan in the other direction over the same slices, the saved S_t and the slices of dZ: its body computes
    step t again, runs the backward pass of the body, hands on dS_t, adds to dC and gives dX_t.
    """
    parts = _parts(op)
    b, body, count = op.builder, parts.body, op.attribute("num_scan_inputs")
    names = body.inputs[parts.states :]
    axes, directions = _numbers(op, "scan_input_axes", count), _numbers(op, "scan_input_directions", count)
    stacked = len(parts.scan_outputs)
    output_axes, output_directions = _numbers(op, _AXES, stacked), _numbers(op, _DIRECTIONS, stacked)
    elements = [m for m in range(count) if op.wants(parts.states + m)]
    states = parts.active_states(dy, [names[m] for m in elements])
    captured = parts.captured
    for k in captured:
        if not op.required(k).is_tensor:
            raise op.refuse(
                f"it reads '{op.operator.inputs[k]}', a {op.required(k).structure.value}, whose gradient is "
                f"a sum over the steps, and a Scan carries tensors only",
                "write it as a Loop, or read tensors inside it",
            )
    sources = {k: op.operator.inputs[k] for k in captured}
    reads = Reads(op)
    draft = Draft(op, body, reads)

    cotangents: dict[str, Value] = {}
    for j in states:
        arriving = draft.input(reads.fresh(f"state_cotangent_{j}"), parts.info(parts.state_inputs[j]))
        arrive(draft.builder, cotangents, parts.state_outputs[j], arriving)
    sums = {k: draft.input(reads.fresh(f"sum_{k}"), sum_type(op.required(k).info)) for k in captured}
    scanned: list[Value] = []  # what the gradient scans over, with the axis and the direction of each
    places: list[tuple[int, int]] = []
    for k, cotangent in enumerate(dy):
        if cotangent is None or k < parts.states:
            continue
        name = parts.scan_outputs[k - parts.states]
        arrive(draft.builder, cotangents, name, draft.input(reads.fresh(f"cotangent_{k}"), parts.info(name)))
        scanned.append(cotangent)
        places.append((output_axes[k - parts.states], 1 - output_directions[k - parts.states]))
    drawn = given_draws(parts)
    for name in drawn:
        draft.give(name)
    wrt = [*(parts.state_inputs[j] for j in states), *(names[m] for m in elements), *sources.values()]
    gradients = draft.differentiate(cotangents, list(dict.fromkeys(wrt)))

    for name in (parts.state_inputs[j] for j in states):
        draft.output(gradients.get(name), name)
    for k in captured:
        draft.add_to(sums[k], gradients.get(sources[k]))
    for m in elements:
        draft.output(gradients.get(names[m]), names[m])

    _, read = draft.finish()
    saved = saved_states(parts, [j for j, name in enumerate(parts.state_inputs) if name in read])
    for j, (stack,) in saved.states.items():
        draft.input(parts.state_inputs[j], parts.info(parts.state_inputs[j]))
        scanned.append(stack)
        places.append((0, 1))
    for name, stack in drawn.items():
        if name in read:
            draft.input(name, parts.info(name))
            scanned.append(stack)
            places.append((0, 1))
    for m, name in enumerate(names):
        if name in read or not scanned:
            draft.input(name, parts.info(name))
            scanned.append(op.required(parts.states + m))
            places.append((axes[m], 1 - directions[m]))

    initial: list[Value] = []
    for j in states:
        cotangent = dy[j]
        initial.append(b.zeros_like(op.required(j)) if cotangent is None else cotangent)
    initial += [zero_sum(op, k) for k in captured]
    targets = [*states, *captured, *(parts.states + m for m in elements)]
    results = write(
        op,
        "Scan",
        [*initial, *scanned],
        {"body": draft},
        reads,
        [sum_type(op.required(k).info) if k in captured else op.required(k).info.plain for k in targets],
        num_scan_inputs=len(scanned),
        scan_input_axes=_unless_zero([axis for axis, _ in places]),
        scan_input_directions=_unless_zero([direction for _, direction in places]),
        scan_output_axes=_unless_zero([axes[m] for m in elements]),
        scan_output_directions=_unless_zero([1 - directions[m] for m in elements]),
    )
    contributions: list[Value | None] = [None] * len(op.inputs)
    for k, result in zip(targets, results, strict=True):
        contributions[k] = b.assume_like(result, op.required(k))
    for j in range(parts.states):
        if op.wants(j) and contributions[j] is None:
            contributions[j] = b.zeros_like(op.required(j))
    return contributions


def _parts(op: RuleContext) -> Repetition:
    body = op.operator.attributes["body"]
    assert isinstance(body, Body), "a prepared Scan holds its body"
    states = len(op.inputs) - len(body.captured) - op.attribute("num_scan_inputs")
    return Repetition(op, body, 0, body.inputs[:states], body.outputs[:states], body.outputs[states:])


def _numbers(op: RuleContext, name: str, count: int) -> list[int]:
    """A list attribute; left out, it is all zeros."""
    return list(op.attribute(name) or [0] * count)


def _unless_zero(numbers: list[int]) -> list[int] | None:
    return numbers if any(numbers) else None
