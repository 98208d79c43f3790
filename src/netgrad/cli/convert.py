"""`netgrad convert`: a Caffe2 model as an ONNX model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import as_onnx, read_net
from netgrad.cli.options import JsonOption, QuietOption, names, write_model

if TYPE_CHECKING:
    pass


@verb
def convert(
    net: Annotated[
        str,
        typer.Argument(
            metavar="NET",
            show_default=False,
            help="The net that predicts (.pb or .pbtxt), or a predictor file (minidb), which holds all.",
        ),
    ],
    init: Annotated[
        str | None,
        typer.Option("--init", metavar="NET", show_default=False, help="The net that writes the parameters."),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            metavar="NAME=DIMS",
            show_default=False,
            help="The shape of an input, such as data=N,3,224,224; letters are dims that vary. Repeatable.",
        ),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="NAME=TYPE",
            show_default=False,
            help="The element type of an input that is not float32, such as label=int32; repeatable.",
        ),
    ] = None,
    of: Annotated[
        list[str] | None,
        typer.Option(
            "--of",
            metavar="NAMES",
            show_default=False,
            help="The blobs that become outputs. Default: the net's own.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("-o", "--output", help="Where to write: a file, or - for stdout. Default: NET.onnx."),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Write a Caffe2 model as an ONNX model, whose initializers are its parameters.

    An example:

    netgrad convert predict_net.pb --init init_net.pb --shape data=N,3,224,224 -o model.onnx
    """
    model = read_net(net, init)
    converted = as_onnx(model, shape, dtype, outputs=names(of))
    target = output or str(Path(net).with_suffix(".onnx"))
    write_model(converted, target)
    account = {
        "file": target,
        "inputs": model.inputs,
        "parameters": len(model.parameters),
        "operators": sum(1 for _ in converted.graph.all_nodes()),
    }
    if json:
        print_json({"version": 1, **account})
    else:
        note(
            f"{account['operators']} operators and {account['parameters']} parameters written to "
            f"{'stdout' if target == '-' else target}",
            quiet=quiet,
        )
    return ExitStatus.DONE
