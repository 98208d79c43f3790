"""The backward step of a ``RecurrentNetwork``: its net, and the arguments that say how it is linked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.recurrence import Link, undefined

Differentiate: TypeAlias = (
    "Callable[[Sequence[OperatorDef], dict[str, str]], tuple[Iterable[OperatorDef], Mapping[Any, Any]]]"
)
"""Gives the gradient operators of a list of operators for given gradients, and the gradient of each blob."""


def by_makers(
    operators: Sequence[OperatorDef], given: dict[str, str]
) -> tuple[list[OperatorDef], Mapping[str, Any]]:
    """Differentiate with netgrad's own gradient makers."""
    written, result = differentiate(operators, given)
    return written, result.gradients


def link_arguments(prefix: str, links: Sequence[Link]) -> dict[str, list[Any]]:
    """The arguments that say links."""
    return {
        f"{prefix}_internal": [link.internal for link in links],
        f"{prefix}_external": [link.external for link in links],
        f"{prefix}_offset": [link.offset for link in links],
    }


def backward_arguments(
    step: NetDef,
    row: tuple[str, str],
    states: Mapping[str, tuple[str, str]],
    references: Sequence[str],
    *,
    name: str = "RecurrentBackwardStep",
    outputs_with_grads: Sequence[int] = (0,),
    recomputed: Collection[str] = (),
    by: Differentiate = by_makers,
) -> dict[str, Any]:
    """What a ``RecurrentNetwork`` has to say for its gradient.

    Args:
        step: The net of one step.
        row: The blob of the step net that is the step's row, and the sequence.
        states: For each blob of the step net that is a state before a step: the state's sequence, and the
            blob that is the state after the step.
        references: The operator's further inputs, behind the sequence and the initial states.
        name: The name of the net of a backward step.
        outputs_with_grads: The outputs whose gradients the gradient operator takes.
        recomputed: Blobs of the step net that the backward pass computes again.
        by: What differentiates the step net.

    Raises:
        Refusal: A row, a state or a parameter has no dense gradient.
    """
    after = [blob for _, blob in states.values()]
    backward = _Backward(step, after, set(recomputed), name, by)
    links: list[Link] = []
    for before, (state, end) in states.items():
        links.append(Link(f"{end}_grad", f"{state}_grad", 1))
        links.append(Link(backward.gradient(before), f"{state}_grad", 0))
    links.append(Link(backward.gradient(row[0]), f"{row[1]}_grad", 0))
    backward.declare([f"{blob}_grad" for blob in after])
    # a blob that has several roles is an operand, with a gradient, for each
    places = {blob: at for at, blob in enumerate(references, 1 + len(states))}
    params = [blob for blob in places if blob in backward.gradients]
    arguments: dict[str, Any] = {
        "param": [places[blob] for blob in params],
        **link_arguments("backward_link", links),
        "outputs_with_grads": outputs_with_grads,
        "recompute_blobs_on_backward": sorted(recomputed),
        "param_grads": [backward.gradient(blob) for blob in params],
    }
    if len(backward.net.op):
        arguments["backward_step_net"] = backward.net
    return arguments


class _Backward:
    """The net of a backward step.

    It finds the gradients of the states after the step under ``<state>_grad``; nothing outside sees what else
    the step gives.

    Attributes:
        net: The net.
        gradients: The gradient of each blob of the step net.
    """

    def __init__(
        self, step: NetDef, states: Sequence[str], recomputed: set[str], name: str, by: Differentiate
    ) -> None:
        given = {blob: f"{blob}_grad" for blob in (*step.external_output, *states) if blob in states}
        operators, gradients = by(step.op, given)
        self.gradients = {str(blob): gradient for blob, gradient in gradients.items() if gradient is not None}
        self.net = NetDef(name=name, type="simple")
        for op in step.op:
            if not recomputed.isdisjoint(op.output):
                others = set(op.output) - recomputed
                assert not others, f"{op.type} would compute {sorted(others)} again, which is not asked for"
                self.net.op.add().CopyFrom(op)
        self.net.op.extend(operators)
        written = {blob for op in step.op for blob in op.output}
        self.net.external_input.extend(
            blob for blob in undefined(self.net) if blob in written and blob not in step.external_output
        )
        self._step = step

    def gradient(self, blob: str) -> str:
        """The dense gradient of a blob of the step net.

        Raises:
            Refusal: There is none, or a sparse one.
        """
        found = self.gradients.get(blob)
        if found is None or hasattr(found, "indices"):
            kind = "has no gradient" if found is None else "has a sparse gradient"
            raise Refusal(
                f"'{blob}' {kind} in step net '{self._step.name}': a recurrent net needs a dense one of its "
                "row, its states and its parameters; pass forward_only=True for a net that is not trained"
            )
        return str(found)

    def declare(self, gradients: Iterable[str]) -> None:
        """List the blobs that the net is given."""
        self.net.external_input.extend(gradients)
        self.net.external_input.extend(self._step.external_input)
        self.net.external_input.extend(self._step.external_output)
