"""Makers of the units of recurrent nets, and of Python operators."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.arguments import Arguments, make_argument
from netgrad.caffe2.makers.notation import Line, Refusal
from netgrad.caffe2.makers.registry import maker
from netgrad.core import Gradient, Operator
from netgrad.core.tape import without_occurrence


@maker("LSTMUnit")
def _lstm_unit(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "LSTMUnitGradient(I*,O0,O1,G0,G1)->(D0,D1,D2)"


@maker("GRUUnit")
def _gru_unit(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "GRUUnitGradient(I*,O0,G0)->(D0,D1)"


@maker("Recurrent", partial=True)
def _recurrent(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "RecurrentGradient(I0,I1,I2,I3,O3,O0,G0)->(D0,D1,D2,D3,O4,O3)"


@maker("RecurrentNetwork", partial=True)
def _recurrent_network(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    """The net of a backward step is an argument, made beforehand.

    The original asks for the gradients of the outputs that the forward operator lists, and ignores others;
    here the gradient operator lists those that there are.
    """
    if not op.attributes.get("backward_link_internal"):
        raise Refusal(
            "it says nothing of a backward step (arguments 'backward_link_internal', 'backward_step_net'): "
            "it was made with forward_only=True"
        )
    given = [at for at, grad in enumerate(grads) if grad is not None]
    listed = op.attributes.get("outputs_with_grads", ())
    written = _places(
        op, [0, *op.attributes.get("param", ()), *op.attributes.get("initial_recurrent_state_ids", ())]
    )
    reads = ",".join(f"G{at}" for at in (listed if sorted(listed) == given else given))
    text = f"RecurrentNetworkGradient({reads},I*,O*)->({','.join(f'D{at}' for at in written)})"
    if sorted(listed) == given:
        return Line(text)
    assert isinstance(op.attributes, Arguments), "made of a message"
    kept = [argument for argument in op.attributes.message.arg if argument.name != "outputs_with_grads"]
    return Line(text, copies_arguments=False, arguments=(*kept, make_argument("outputs_with_grads", given)))


def _places(op: Operator, places: Sequence[int]) -> list[int]:
    """The inputs that get gradients; an input that is named twice counts as the next one of that name."""
    names = [without_occurrence(name) for name in op.inputs]
    found: list[int] = []
    for at in places:
        others = [k for k, name in enumerate(names) if name == names[at] and k not in found]
        if not others:
            raise Refusal(f"input '{names[at]}' has several roles and is listed once: list it for each")
        found.append(at if at in others else others[0])
    return found


@maker("Python", "PythonDLPack", partial=True)
def _python(op: Operator, grads: Sequence[Gradient | None]) -> str:
    """Only the chosen gradients are read and written, all without a choice."""
    outputs = op.attributes.get("grad_output_indices", ()) or range(len(op.outputs))
    inputs = op.attributes.get("grad_input_indices", ()) or range(len(op.inputs))
    given = ",".join(f"G{at}" for at in outputs)
    return f"{op.type}Gradient(I*,O*,{given})->({','.join(f'D{at}' for at in inputs)})"
