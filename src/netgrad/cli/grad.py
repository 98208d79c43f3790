"""`netgrad grad`: add the gradient to a model."""

from __future__ import annotations

from typing import Annotated

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.options import (
    JsonOption,
    ModelArgument,
    OfOption,
    QuietOption,
    StopOption,
    StraightThroughOption,
    WrtOption,
    chosen,
    default_output,
    names,
    read_model,
    write_model,
)


@verb
def grad(
    model: ModelArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="Where to write: a file, or - for stdout. Default: MODEL_grad.onnx."
        ),
    ] = None,
    wrt: WrtOption = None,
    of: OfOption = None,
    cotangent: Annotated[
        str,
        typer.Option(
            help="ones: the objective is the sum of OF. input: the new model takes the cotangent <of>_grad "
            "as an input."
        ),
    ] = "ones",
    accumulation: Annotated[
        str,
        typer.Option(
            help="How gradients of a value used more than once are added: auto, sum, running, fused."
        ),
    ] = "auto",
    stop: StopOption = None,
    straight_through: StraightThroughOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Write a model that also computes its gradient, in standard operators.

    Each name in --wrt adds an output NAME_grad of the same shape. An example:

    netgrad grad model.onnx --wrt image --of logits --cotangent input -o model_grad.onnx
    """
    from netgrad.core.errors import InvalidArgumentError
    from netgrad.onnx.rules.choices import choices_of
    from netgrad.transforms.grad import differentiate

    if cotangent not in ("ones", "input"):
        raise InvalidArgumentError(f"--cotangent is '{cotangent}'; it can be ones or input")
    if accumulation not in ("auto", "sum", "running", "fused"):
        raise InvalidArgumentError(
            f"--accumulation is '{accumulation}'; it can be auto, sum, running or fused"
        )
    result = differentiate(
        read_model(model),
        wrt=names(wrt),
        of=names(of),
        cotangent=cotangent,  # type: ignore[arg-type]  # checked above
        accumulation=accumulation,  # type: ignore[arg-type]  # checked above
        choices=choices_of(**chosen(stop, straight_through)),
    )
    for name in result.unreached:
        note(f"warning: '{name}' does not influence the target: its gradient is zeros")
    target = output or default_output(model, "_grad")
    write_model(result.model, target)
    after = sum(1 for _ in result.model.graph.all_nodes())
    if json:
        print_json(
            {
                "version": 1,
                "file": target,
                "operators": {"forward": len(result.forward), "total": after},
                "gradients": result.outputs,
                "cotangents": result.seeds,
                "unreached": list(result.unreached),
                "accumulations": len(result.backward.accumulations),
                "prepared": list(result.actions),
            }
        )
        return ExitStatus.DONE
    added = after - len(result.forward)
    shown = ", ".join(list(result.outputs.values())[:6])
    more = f" and {len(result.outputs) - 6} more" if len(result.outputs) > 6 else ""
    note(f"{len(result.forward)} operators forward, {added} added for the gradient", quiet=quiet)
    note(f"new outputs: {shown}{more}", quiet=quiet)
    note(f"written to {'stdout' if target == '-' else target}", quiet=quiet)
    note(f"next: netgrad check {model}", quiet=quiet or model == "-")
    return ExitStatus.DONE
