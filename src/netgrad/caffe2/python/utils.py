"""Small helpers of scripts around messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import Argument, OperatorDef, TensorProto
from netgrad.caffe2.tensors import to_array, to_message
from netgrad.core import NetgradError

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"


def MakeArgument(key: str, value: Any) -> Argument:
    """See `netgrad.caffe2.arguments.make_argument`."""
    return make_argument(key, value)


def NumpyArrayToCaffe2Tensor(arr: Any, name: str | None = None) -> TensorProto:
    """An array as a message.

    Raises:
        RuntimeError: There are no tensors of its element type.
    """
    try:
        return to_message(np.asarray(arr), None if name is None else str(name))
    except NetgradError as error:
        raise RuntimeError(str(error)) from error


def Caffe2TensorToNumpyArray(tensor: TensorProto) -> np.ndarray[Any, Any]:
    """The array of a message.

    Raises:
        RuntimeError: It has elements of an unknown type.
    """
    try:
        return to_array(tensor)
    except NetgradError as error:
        raise RuntimeError(str(error)) from error


def CaffeBlobToNumpyArray(blob: Any) -> np.ndarray[Any, Any]:
    """The array of a blob of Caffe, the forerunner."""
    if blob.num != 0:  # the old form, always with four dims
        return np.asarray(blob.data, np.float32).reshape(blob.num, blob.channels, blob.height, blob.width)
    return np.asarray(blob.data, np.float32).reshape(tuple(blob.shape.dim))


def TryReadProtoWithClass(cls: type[Message], s: Any) -> Message:
    """A message from its text form or else its binary form."""
    message = cls()
    try:
        text_format.Parse(s, message)
        return message
    except (text_format.ParseError, UnicodeDecodeError):
        message.ParseFromString(s)
        return message


def GetContentFromProto(obj: Message, function_map: Mapping[type[Message], Callable[[Any], Any]]) -> Any:
    """What the function for the class of ``obj`` gives."""
    for cls, function in function_map.items():
        if type(obj) is cls:
            return function(obj)
    return None


def GetContentFromProtoString(s: bytes, function_map: Mapping[type[Message], Callable[[Any], Any]]) -> Any:
    """What the function for the first class that ``s`` can be read as gives.

    Raises:
        DecodeError: It is none of them.
    """
    for cls, function in function_map.items():
        try:
            return function(TryReadProtoWithClass(cls, s))
        except DecodeError:
            continue
    raise DecodeError("the bytes are none of the messages asked for")


def ConvertProtoToBinary(proto_class: type[Message], filename: str, out_filename: str) -> None:
    """Rewrite a file in binary form."""
    with open(filename, "rb") as file:
        message = TryReadProtoWithClass(proto_class, file.read())
    with open(out_filename, "wb") as file:
        file.write(message.SerializeToString())


def OpAlmostEqual(op_a: OperatorDef, op_b: OperatorDef, ignore_fields: Any = None) -> bool:
    """Whether two operators are equal apart from some fields."""
    copies = []
    for op in (op_a, op_b):
        copy = OperatorDef()
        copy.CopyFrom(op)
        for field in [ignore_fields] if isinstance(ignore_fields, str) else ignore_fields or ():
            copy.ClearField(field)
        copies.append(copy)
    return bool(copies[0] == copies[1])


def raiseIfNotEqual(a: Any, b: Any, msg: str) -> None:
    """Raise if two things differ.

    Raises:
        Exception: They do.
    """
    if a != b:
        raise Exception(f"{msg}. {a} != {b}")


def debug(f: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that does nothing: errors are raised where they occur."""
    return f


class DebugMode:
    """Runs a function; errors are raised where they occur."""

    @classmethod
    def run(cls, func: Callable[[], Any]) -> Any:
        """What ``func`` returns."""
        return func()


def GetGPUMemoryUsageStats() -> dict[str, Any]:
    """Nothing: operators run on the processor."""
    return {}
