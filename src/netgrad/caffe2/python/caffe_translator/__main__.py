"""The command: a model of Caffe from two files to two files of nets."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from google.protobuf import text_format

from netgrad.caffe2.caffe_pb2 import NetParameter
from netgrad.caffe2.python.caffe_translator.registry import ConvertTensorProtosToInitNet, TranslateModel


def main(arguments: Sequence[str] | None = None) -> None:
    """Translate a model with one input and one output."""
    parser = argparse.ArgumentParser(
        prog="caffe_translator",
        description="Translate a trained model of Caffe to Caffe2.",
        epilog="example: caffe_translator deploy.prototxt model.caffemodel --remove_legacy_pad",
    )
    parser.add_argument("prototext", help="the net as text")
    parser.add_argument("caffemodel", help="the trained net")
    parser.add_argument("--init_net", default="init_net.pb", help="where the net that fills parameters goes")
    parser.add_argument("--predict_net", default="predict_net.pb", help="where the net goes")
    parser.add_argument("--remove_legacy_pad", action="store_true", help="give plain pads to pools")
    parser.add_argument("--input_dims", nargs="+", type=int, default=[], help="the shape of the input")
    given = parser.parse_args(arguments)
    caffe_net, trained = NetParameter(), NetParameter()
    text_format.Merge(Path(given.prototext).read_text(), caffe_net, allow_unknown_field=True)
    trained.ParseFromString(Path(given.caffemodel).read_bytes())
    net, parameters = TranslateModel(
        caffe_net,
        trained,
        is_test=True,
        remove_legacy_pad=given.remove_legacy_pad,
        input_dims=given.input_dims,
    )
    source = net.op[0].input[0]
    net.external_input.extend([source, *(tensor.name for tensor in parameters.protos)])
    net.external_output.append(net.op[-1].output[0])
    init_net = ConvertTensorProtosToInitNet(parameters, source)
    Path(given.predict_net).write_bytes(net.SerializeToString())
    Path(f"{given.predict_net}txt").write_text(str(net))
    Path(given.init_net).write_bytes(init_net.SerializeToString())


if __name__ == "__main__":
    main()
