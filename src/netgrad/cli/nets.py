"""Caffe2 nets where a verb takes a model: the options that describe them, and the reading."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrad.cli.options import read_model
from netgrad.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

    from netgrad.caffe2 import SavedModel
    from netgrad.onnx.view import Dim

InitOption = Annotated[
    str | None,
    typer.Option(
        "--init",
        metavar="NET",
        show_default=False,
        help="MODEL is a Caffe2 net, and this net writes its parameters.",
    ),
]
ShapeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        metavar="NAME=DIMS",
        show_default=False,
        help="The shape of an input of a Caffe2 net, such as data=N,3,224,224; letters are dims that vary. "
        "Repeatable.",
    ),
]
TypeOption = Annotated[
    list[str] | None,
    typer.Option(
        "--type",
        metavar="NAME=TYPE",
        show_default=False,
        help="The element type of an input of a Caffe2 net that is not float32, such as label=int32; "
        "repeatable.",
    ),
]

NET_ENDINGS = (".pb", ".pbtxt", ".prototxt", ".minidb")
"""Endings of files that can be nets; all but the last can be ONNX models as well."""

_ONNX_TEXT = re.compile(rb"^\s*(ir_version|opset_import)\b", re.MULTILINE)
_ONNX_START = b"\x08"  # the tag of ir_version, which comes first; a net has a text where that number is


def is_net(model: str, init: str | None) -> bool:
    """Whether the MODEL argument is a Caffe2 net or predictor file rather than an ONNX model."""
    if init is not None:
        return True
    path = Path(model)
    ending = path.suffix.lower()
    if ending not in NET_ENDINGS or not path.is_file():
        return False
    if ending == ".minidb":
        return True
    content = path.read_bytes()
    return not (content.startswith(_ONNX_START) if ending == ".pb" else _ONNX_TEXT.search(content))


def read_net(model: str, init: str | None) -> SavedModel:
    """The Caffe2 model that the MODEL argument and ``--init`` name.

    Raises:
        InvalidModelError: A file can't be read, or is something else.
    """
    from netgrad.caffe2 import load

    source = sys.stdin.buffer.read() if model == "-" else model
    return load(source) if init is None else load(init, source)


def read_any(
    model: str,
    init: str | None,
    shape: Sequence[str] | None,
    dtype: Sequence[str] | None,
    *,
    arrays: Mapping[str, np.ndarray[Any, Any]] | None = None,
    samples: bool = False,
    of: Sequence[str] | None = None,
) -> ir.Model:
    """The model of the MODEL argument in ONNX, which a Caffe2 net is converted to.

    Args:
        model: The argument.
        init: The option ``--init``.
        shape: The options ``--shape``.
        dtype: The options ``--type``.
        arrays: Values of inputs; where the options say nothing, an input has their shape and type.
        samples: Whether the first axis of ``arrays`` counts samples, of which a batch has another number.
        of: Blobs that have to be outputs, besides the net's own.

    Raises:
        InvalidArgumentError: An option doesn't fit, or an input of a net has no shape.
        InvalidModelError: The model can't be read.
        UnsupportedOperatorError: An operator of a net can't be written in ONNX.
    """
    if not is_net(model, init):
        given = [option for option, value in (("--shape", shape), ("--type", dtype)) if value]
        if given:
            raise InvalidArgumentError(f"{given[0]} describes a Caffe2 net, and '{model}' is an ONNX model")
        return read_model(model)
    net = read_net(model, init)
    outputs = None if of is None else list(dict.fromkeys([*net.outputs, *of]))
    return as_onnx(net, shape, dtype, arrays=arrays, samples=samples, outputs=outputs)


def as_onnx(
    net: SavedModel,
    shape: Sequence[str] | None,
    dtype: Sequence[str] | None,
    *,
    arrays: Mapping[str, np.ndarray[Any, Any]] | None = None,
    samples: bool = False,
    outputs: Sequence[str] | None = None,
) -> ir.Model:
    """A Caffe2 model in ONNX, with its own outputs or others; see `read_any`."""
    import onnx_ir

    from netgrad.caffe2 import to_onnx

    shapes: dict[str, Sequence[Dim]] = {}
    types: dict[str, str] = {}
    for name in net.inputs:
        if arrays is not None and name in arrays:
            found = arrays[name].shape
            shapes[name] = ["N", *found[1:]] if samples and found else found
            types[name] = str(arrays[name].dtype)
    shapes.update((name, dims(text)) for name, text in pairs(shape, "--shape").items())
    types.update(pairs(dtype, "--type"))
    return onnx_ir.from_proto(to_onnx(net, shapes, types=types, outputs=outputs))


def pairs(given: Sequence[str] | None, option: str) -> dict[str, str]:
    """The values of a repeatable option NAME=VALUE.

    Raises:
        InvalidArgumentError: One is of another form.
    """
    found = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InvalidArgumentError(f"{option} is NAME=VALUE, not '{text}'")
        found[name] = value
    return found


def dims(text: str) -> list[Dim]:
    """The dims that a text such as ``N,3,224`` names."""
    return [int(dim) if dim.isdecimal() else dim for dim in text.split(",")]
