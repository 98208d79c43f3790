"""The commands ``convert-caffe2-to-onnx`` and ``convert-onnx-to-caffe2``, as objects of ``click``."""

from __future__ import annotations

import json
from typing import BinaryIO

from onnx import ModelProto

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.onnx.backend import Caffe2Backend
from netgrad.caffe2.python.onnx.frontend import caffe2_net_to_onnx_model

try:
    import click
except ImportError as error:
    raise ImportError(
        "these commands are made with the package click: pip install 'netgrad[caffe2]'; "
        "'netgrad convert' does the same without"
    ) from error

_HELP = {"help_option_names": ["-h", "--help"]}


def _to_onnx(
    caffe2_net: BinaryIO,
    caffe2_net_name: str | None,
    caffe2_init_net: BinaryIO | None,
    value_info: str | None,
    output: BinaryIO,
) -> None:
    net = NetDef.FromString(caffe2_net.read())
    net.name = caffe2_net_name or net.name
    if not net.name:
        raise click.BadParameter("the net has no name, so --caffe2-net-name is needed")
    init_net = None
    if caffe2_init_net is not None:
        init_net = NetDef.FromString(caffe2_init_net.read())
        init_net.name = f"{net.name}_init"
    model = caffe2_net_to_onnx_model(net, init_net, json.loads(value_info) if value_info else None)
    output.write(model.SerializeToString())


def _to_caffe2(onnx_model: BinaryIO, output: BinaryIO, init_net_output: BinaryIO) -> None:
    model = ModelProto.FromString(onnx_model.read())
    init_net, predict_net = Caffe2Backend.onnx_graph_to_caffe2_net(model)
    init_net_output.write(init_net.SerializeToString())
    output.write(predict_net.SerializeToString())


caffe2_to_onnx = click.Command(
    "caffe2-to-onnx",
    context_settings=_HELP,
    callback=_to_onnx,
    help="Convert a Caffe2 net to an ONNX model.",
    params=[
        click.Argument(["caffe2_net"], type=click.File("rb")),
        click.Option(["--caffe2-net-name"], type=str, help="The name of the net, if it has none."),
        click.Option(["--caffe2-init-net"], type=click.File("rb"), help="The net that writes parameters."),
        click.Option(
            ["--value-info"],
            type=str,
            help="Type and shape of each input as JSON, such as '{\"x\": [1, [1, 3, 224, 224]]}'.",
        ),
        click.Option(["-o", "--output"], required=True, type=click.File("wb"), help="The model's file."),
    ],
)

onnx_to_caffe2 = click.Command(
    "onnx-to-caffe2",
    context_settings=_HELP,
    callback=_to_caffe2,
    help="Convert an ONNX model to a pair of Caffe2 nets.",
    params=[
        click.Argument(["onnx_model"], type=click.File("rb")),
        click.Option(["-o", "--output"], required=True, type=click.File("wb"), help="The net's file."),
        click.Option(
            ["--init-net-output"], required=True, type=click.File("wb"), help="The init net's file."
        ),
    ],
)
