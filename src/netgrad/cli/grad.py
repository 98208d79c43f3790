"""`netgrad grad`: add the gradient to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.grad_net import grad_net, tell
from netgrad.cli.nets import NET_ENDINGS, InitOption, ShapeOption, TypeOption, is_net, read_any
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
    write_model,
)


@verb
def grad(
    model: ModelArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            help="Where to write: a file, or - for stdout. Default: MODEL_grad.onnx; of a Caffe2 net, in its "
            "own form. The ending .onnx makes an ONNX model of a net.",
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
    init: InitOption = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Write a model that also computes its gradient, in standard operators.

    Each name in --wrt adds an output NAME_grad of the same shape. A Caffe2 net gets Caffe2's gradient
    operators, unless the output is an ONNX model. An example:

    netgrad grad model.onnx --wrt image --of logits --cotangent input -o model_grad.onnx
    """
    from netgrad.core.errors import InvalidArgumentError
    from netgrad.onnx.rules.choices import choices_of
    from netgrad.transforms.grad import differentiate

    choices = chosen(stop, straight_through)
    if cotangent not in ("ones", "input"):
        raise InvalidArgumentError(f"--cotangent is '{cotangent}'; it can be ones or input")
    if accumulation not in ("auto", "sum", "running", "fused"):
        raise InvalidArgumentError(
            f"--accumulation is '{accumulation}'; it can be auto, sum, running or fused"
        )
    target = output or default_output(model, "_grad")
    if is_net(model, init) and target.lower().endswith(NET_ENDINGS):
        if any(choices.values()) or accumulation not in ("auto", "sum"):
            raise InvalidArgumentError(
                "--stop, --straight-through and --accumulation are for ONNX models",
                hint=f"name the output {Path(target).stem}.onnx, to differentiate the net as an ONNX model",
            )
        return grad_net(model, init, target, names(wrt), names(of), cotangent, json, quiet)
    result = differentiate(
        read_any(model, init, shape, dtype, of=names(of)),
        wrt=names(wrt),
        of=names(of),
        cotangent=cotangent,  # type: ignore[arg-type]  # checked above
        accumulation=accumulation,  # type: ignore[arg-type]  # checked above
        choices=choices_of(**choices),
    )
    for name in result.unreached:
        note(f"warning: '{name}' does not influence the target: its gradient is zeros")
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
    tell(len(result.forward), added, list(result.outputs.values()), quiet)
    note(f"written to {'stdout' if target == '-' else target}", quiet=quiet)
    note(f"next: netgrad check {model}", quiet=quiet or model == "-")
    return ExitStatus.DONE
