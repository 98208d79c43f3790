"""`netgrad convert`: a Caffe2 model as an ONNX model, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import NET_ENDINGS, ShapeOption, TypeOption, as_onnx, dims, is_net, pairs, read_net
from netgrad.cli.options import JsonOption, QuietOption, names, read_model, write_model
from netgrad.core.errors import InvalidArgumentError


@verb
def convert(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="The net that predicts (.pb or .pbtxt), or a predictor file (minidb), which holds all; or "
            "an ONNX model.",
        ),
    ],
    init: Annotated[
        str | None,
        typer.Option(
            "--init",
            metavar="NET",
            show_default=False,
            help="The net that writes the parameters; of an ONNX model, where to write it. Default then: "
            "init_net.pb beside the output.",
        ),
    ] = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
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
        typer.Option(
            "-o",
            "--output",
            help="Where to write: a file, or - for stdout. Default: NET.onnx. The endings .pb, .pbtxt and "
            ".minidb make nets of an ONNX model.",
        ),
    ] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Write a Caffe2 model as an ONNX model, whose initializers are its parameters; or the other way round.

    An example, and its way back:

    netgrad convert predict_net.pb --init init_net.pb --shape data=N,3,224,224 -o model.onnx

    netgrad convert model.onnx -o predict_net.pb --init init_net.pb
    """
    to_nets = output is not None and output.lower().endswith(NET_ENDINGS)
    if to_nets and not is_net(model, None):
        account = _to_nets(model, str(output), init, shape, dtype, names(of))
    else:
        account = _to_onnx(model, output, init, shape, dtype, names(of))
    if json:
        print_json({"version": 1, **account})
    else:
        target = account["file"]
        note(
            f"{account['operators']} operators and {account['parameters']} parameters written to "
            f"{'stdout' if target == '-' else target}",
            quiet=quiet,
        )
    return ExitStatus.DONE


def _to_onnx(
    model: str,
    output: str | None,
    init: str | None,
    shape: list[str] | None,
    dtype: list[str] | None,
    of: list[str] | None,
) -> dict[str, Any]:
    net = read_net(model, init)
    converted = as_onnx(net, shape, dtype, outputs=of)
    target = output or str(Path(model).with_suffix(".onnx"))
    write_model(converted, target)
    return {
        "file": target,
        "inputs": net.inputs,
        "parameters": len(net.parameters),
        "operators": sum(1 for _ in converted.graph.all_nodes()),
    }


def _to_nets(
    model: str,
    output: str,
    init: str | None,
    shape: list[str] | None,
    dtype: list[str] | None,
    of: list[str] | None,
) -> dict[str, Any]:
    from netgrad.caffe2 import from_onnx, save, save_predictor

    if dtype or of:
        raise InvalidArgumentError("--type and --of are for Caffe2 nets: an ONNX model says both itself")
    shapes = {name: dims(text) for name, text in pairs(shape, "--shape").items()}
    net = from_onnx(read_model(model), shapes=shapes)
    account: dict[str, Any] = {"file": output}
    if output.lower().endswith(".minidb"):
        if init is not None:
            raise InvalidArgumentError("a predictor file holds the parameters: --init has nothing to write")
        save_predictor(net, output)
    else:
        account["init"] = init or str(Path(output).with_name(f"init_net{Path(output).suffix}"))
        save(net, account["init"], output)
    return {
        **account,
        "inputs": net.inputs,
        "parameters": len(net.parameters),
        "operators": len(net.predict_net.op),
    }
