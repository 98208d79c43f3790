"""Small helpers of scripts around messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError, Message

from netgrad.caffe2.arguments import make_argument, value_of
from netgrad.caffe2.caffe2_pb2 import CPU, Argument, OperatorDef, TensorProto
from netgrad.caffe2.tensors import to_array, to_message
from netgrad.core import NetgradError

OPTIMIZER_ITERATION_NAME = "optimizer_iteration"
OPTIMIZER_ITERATION_LR_NAME = "optimizer_iteration_lr"
ITERATION_MUTEX_NAME = "iteration_mutex"
ITERATION_MUTEX_LR_NAME = "iteration_mutex_lr"


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
    """The memory of graphics devices, now and at most: none, as operators run on the processor."""
    none = np.zeros(0, np.int64)
    return {"total_by_gpu": none, "max_by_gpu": none, "total": 0, "max_total": 0}


def BuildUniqueMutexIter(
    init_net: Any, net: Any, iter: Any = None, iter_mutex: Any = None, iter_val: int = 0
) -> Any:
    """The counter of iterations of ``net``: an int64 blob that ``init_net`` starts and ``net`` counts up.

    Args:
        init_net: Where it starts; a counter that this net has already is taken.
        net: Where it goes up, before what reads it.
        iter: Its name.
        iter_mutex: The name of its mutex.
        iter_val: Where it starts.

    Returns:
        A reference to it.
    """
    core = import_module("netgrad.caffe2.python.core")
    name = core.BlobReference(OPTIMIZER_ITERATION_NAME if iter is None else iter)
    if init_net.BlobIsDefined(name):
        return init_net.GetBlobRef(name)
    with core.DeviceScope(core.DeviceOption(CPU, extra_info=["device_type_override:cpu"])):
        counter = init_net.ConstantFill([], name, shape=[1], value=iter_val, dtype=core.DataType.INT64)
        mutex_name = ITERATION_MUTEX_NAME if iter_mutex is None else iter_mutex
        mutex = init_net.CreateMutex([], [core.BlobReference(mutex_name)])
        net.AtomicIter([mutex, counter], [counter])
    return counter


def NHWC2NCHW(tensor: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view in which the last axis, the channels, comes right behind the first one."""
    assert tensor.ndim >= 1
    return np.moveaxis(tensor, -1, 1) if tensor.ndim > 1 else tensor


def NCHW2NHWC(tensor: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A view in which the second axis, the channels, comes last."""
    assert tensor.ndim >= 2
    return np.moveaxis(tensor, 1, -1)


def EnumClassKeyVals(cls: type) -> dict[str, Any]:
    """The constants of a class, by their names, which are upper case.

    Raises:
        AssertionError: ``cls`` is no class.
    """
    assert isinstance(cls, type), f"a class is needed, not {cls!r}"
    return {name: getattr(cls, name) for name in dir(cls) if name == name.upper()}


def ResetBlobs(blobs: Any) -> None:
    """Let blobs of the current workspace hold nothing."""
    core, workspace = (import_module(f"netgrad.caffe2.python.{name}") for name in ("core", "workspace"))
    names = [str(blob) for blob in blobs]
    device = core.DeviceOption(CPU)
    workspace.RunOperatorOnce(core.CreateOperator("Free", names, names, device_option=device))


def ArgsToDict(args: Any) -> dict[str, Any]:
    """The values of argument messages by name: numbers, bytes, or lists of them."""
    values = ((argument.name, value_of(argument)) for argument in args)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values}
