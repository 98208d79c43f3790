"""`netgrad lower`: write a model in operators that every runtime has."""

from __future__ import annotations

from typing import Annotated

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.options import (
    JsonOption,
    ModelArgument,
    QuietOption,
    default_output,
    read_model,
    write_model,
)


@verb
def lower(
    model: ModelArgument,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", help="Where to write: a file, or - for stdout. Default: MODEL_lowered.onnx."
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Write a model without the operators of ai.onnx.preview.training and ai.onnx.ml.

    Gradient nodes become their backward pass; optimizers and classical models become standard operators. An
    example:

    netgrad lower descent.onnx -o descent_lowered.onnx
    """
    from netgrad.transforms.lower import lower_with_account

    lowered, actions = lower_with_account(read_model(model))
    target = output or default_output(model, "_lowered")
    write_model(lowered, target)
    operators = sum(1 for _ in lowered.graph.all_nodes())
    if json:
        print_json({"version": 1, "file": target, "operators": operators, "prepared": list(actions)})
        return ExitStatus.DONE
    for action in actions:
        note(action, quiet=quiet)
    note(f"{operators} operators written to {'stdout' if target == '-' else target}", quiet=quiet)
    return ExitStatus.DONE
