"""Blobs: places for values, shared by the workspaces that know them."""

from __future__ import annotations

from typing import Any, ClassVar, TypeGuard

import numpy as np
import onnx_ir
from onnxruntime import OrtValue

from netgrad.caffe2.blobs import from_records
from netgrad.caffe2.caffe2_pb2 import BlobProto, TensorProto
from netgrad.caffe2.lowering.context import ELEMENT_TYPES
from netgrad.caffe2.running import packed
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.stored import Stored
from netgrad.caffe2.tensors import to_array, to_message
from netgrad.runtime.results import Results
from netgrad.runtime.values import copy_from_value, share_as_value

Array = np.ndarray[Any, Any]

TENSOR_TYPES = frozenset(ELEMENT_TYPES.values()) - {onnx_ir.DataType.STRING}
"""The element types of tensors that ONNX Runtime computes with."""


def is_tensor(value: Any) -> TypeGuard[OrtValue | Array]:
    """Whether a value is a tensor of numbers or truth values."""
    return isinstance(value, OrtValue) or (isinstance(value, np.ndarray) and value.dtype != object)


def is_text(value: Any) -> TypeGuard[Array]:
    """Whether a value is a tensor of texts."""
    return isinstance(value, np.ndarray) and value.dtype == object


def shape_of(value: OrtValue | Array) -> tuple[int, ...]:
    """The shape of a tensor."""
    return tuple(value.shape() if isinstance(value, OrtValue) else value.shape)


def as_array(value: OrtValue | Array) -> Array:
    """A tensor's content, to be read only."""
    return copy_from_value(value) if isinstance(value, OrtValue) else value


def fed(value: Any) -> Any:
    """What a blob holds after it was fed ``value``: a copy of an array, a message's tensor, or a text.

    Raises:
        RunError: There are no tensors of that element type.
    """
    if isinstance(value, TensorProto):
        value = to_array(value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes | Stored):
        return value
    array = np.asarray(value)
    if array.dtype.kind in "SUO":
        texts = array.astype(object)
        for at, text in np.ndenumerate(texts):
            if isinstance(text, str):  # as in the original, texts are bytes
                texts[at] = text.encode()
        return texts
    # As the original's bare NumPy array does, a tensor keeps the type that it was given.
    if onnx_ir.DataType.from_numpy(array.dtype) not in TENSOR_TYPES:
        raise RunError(f"there are no tensors of element type {array.dtype}: convert the array before")
    return np.array(array, order="C")


class Blob:
    """A place for one value.

    Attributes:
        memory: Memory that other blobs see as well, in the shape of this blob (see `share`); None: its own.
        any_shared: Whether any blob of the process has ever had such memory.
    """

    any_shared: ClassVar[bool] = False

    __slots__ = ("_alone", "_engine_value", "_later", "_value", "memory")

    def __init__(self) -> None:
        self._value: Any = None
        self._later: tuple[Results, int] | None = None  # where the value is that is there instead
        self._alone = False  # whether the array is one that nobody else has
        self._engine_value: tuple[Array, OrtValue] | None = None  # an array, and a value on its memory
        self.memory: Array | None = None

    @property
    def content(self) -> Any:
        """What is there, see `value`, to be read at once and not to be kept: `own` may change it in place."""
        if self.memory is not None:
            return self.memory
        later = self._later
        return self._value if later is None else later[0][later[1]]

    @property
    def value(self) -> Any:
        """What is there.

        None where nothing has been written; a tensor (a value of ONNX Runtime, or an array); an array of
        Python objects for texts; bytes for one text; or something opaque, such as a queue. Tensors are not
        changed in place but for those that `tensor` has given out.
        """
        self._alone = False
        return self.content if self.memory is None else np.array(self.memory)

    @value.setter
    def value(self, value: Any) -> None:
        """Write; a tensor of another shape or element type leaves memory that is shared."""
        self._alone = False
        self._engine_value = None
        if self.memory is not None:
            if is_tensor(value) and shape_of(value) == self.memory.shape:
                array = as_array(value)
                if array.dtype == self.memory.dtype:
                    np.copyto(self.memory, array)
                    return
            self.memory = None
        self._value = value
        self._later = None

    def write_later(self, results: Results, at: int) -> None:
        """Write one of the results of a run, which is looked at only when it is read."""
        if self.memory is not None:
            self.value = results[at]
            return
        self._alone = False
        self._engine_value = None
        self._later = results, at
        self._value = None

    def engine_value(self) -> OrtValue | None:
        """The tensor for one run of ONNX Runtime, without a copy; None if there is none of numbers."""
        value = self.content
        if isinstance(value, OrtValue):
            return value
        if not is_tensor(value):
            return None
        known = self._engine_value
        if known is not None and known[0] is value:
            return known[1]
        array = value if value.flags.c_contiguous else np.require(value, None, "C")
        shared = share_as_value(array)
        if array is value:
            self._engine_value = array, shared
        return shared

    def own(self) -> Array:
        """The array of a tensor, to be changed in place: a copy unless nobody else has it.

        Memory that is shared is changed for all that share it.
        """
        if self.memory is not None:
            return self.memory
        if not self._alone:
            value = self.content
            self.value = copy_from_value(value) if isinstance(value, OrtValue) else np.array(value, order="C")
            self._alone = True
        found: Array = self._value
        return found

    def share(self, memory: Array) -> None:
        """Let it hold a view of memory that other blobs have views of: what is written is seen there."""
        self.value = None
        self.memory = memory
        Blob.any_shared = True

    def feed(self, arg: Any, device_option: Any = None) -> bool:
        """Write an array, a ``TensorProto`` or a text; the device makes no difference."""
        self.value = fed(arg)
        return True

    def fetch(self) -> Any:
        """A copy of the array, or the bytes of a text, or a description of anything else."""
        value = self.content
        if isinstance(value, OrtValue):
            return copy_from_value(value)
        if isinstance(value, np.ndarray):
            return np.array(value)
        if isinstance(value, bytes):
            return value
        return self.description("the blob")

    def description(self, name: str) -> bytes:
        """What is said of a value that is no tensor and no text."""
        kind = "nullptr (uninitialized)" if self.content is None else type(self.content).__name__
        return f"{name}, a C++ native class of type {kind}.".encode()

    def serialize(self, name: str) -> bytes:
        """The content as a ``BlobProto`` of this name.

        Raises:
            RunError: It has no form as a message, as a queue.
        """
        value = self.content
        if isinstance(value, bytes):
            message = BlobProto(name=name, type="std::string", content=value)
        elif isinstance(value, Stored):
            message = value.to_message(name)
        elif packed.is_packed(value):
            message = packed.to_message(value, name)
        elif self.is_tensor():
            message = BlobProto(name=name, type="Tensor", tensor=to_message(as_array(value), name))
        else:
            raise RunError(f"blob {name} can't be serialized: it holds {type(value).__name__}")
        return bytes(message.SerializeToString())

    def deserialize(self, serialized: bytes) -> None:
        """Write what `serialize` has given."""
        records = packed.from_serialized(serialized)
        if records is not None:
            self.value = records
            return
        (content,) = from_records([("", serialized)]).values()
        self.feed(content)

    def is_tensor(self) -> bool:
        """Whether it holds a tensor."""
        return is_tensor(self.content) or is_text(self.content)

    def tensor(self) -> Tensor:
        """A view of the tensor that it holds, to read and write.

        Raises:
            RunError: It holds something else.
        """
        if not self.is_tensor():
            raise RunError(f"the blob holds no tensor but {self.description('').decode()[2:]}")
        return Tensor(self)


class Tensor:
    """The tensor of a blob, as Python operators get it."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob

    @property
    def data(self) -> Array:
        """The content; what is written into it is written into the blob.

        Raises:
            RunError: The blob has no tensor yet: call ``reshape``, ``init`` or ``feed`` first.
        """
        if self._blob.memory is not None:
            return self._blob.memory
        value = self._blob.value
        if value is None:
            raise RunError("the output has no tensor yet: call reshape, init or feed before data")
        if isinstance(value, OrtValue):
            self._blob.value = value = copy_from_value(value)
        found: Array = value
        return found

    @property
    def shape(self) -> tuple[int, ...]:
        """The dims; of a blob without a tensor none."""
        return () if self._blob.content is None else shape_of(self._blob.content)

    @property
    def _shape(self) -> list[int]:
        return list(self.shape)

    def reshape(self, dims: Any) -> None:
        """Give it another shape; a tensor of another size or without a type becomes new float32 memory."""
        shape = tuple(int(dim) for dim in dims)
        value = self._blob.value
        if is_tensor(value) and int(np.prod(shape_of(value))) == int(np.prod(shape)):
            self._blob.value = self.data.reshape(shape)
        else:
            dtype = as_array(value).dtype if is_tensor(value) else np.float32
            self._blob.value = np.zeros(shape, dtype)

    def init(self, dims: Any, caffe_type: int) -> None:
        """New memory of a shape and one of Caffe2's element types.

        Raises:
            RunError: There is no such type, or it is that of texts.
        """
        dtype = ELEMENT_TYPES.get(caffe_type)
        if dtype not in TENSOR_TYPES or dtype is None:
            raise RunError(f"no tensor can be initialized from Python with element type {caffe_type}")
        self._blob.value = np.zeros(tuple(int(dim) for dim in dims), dtype.numpy())

    def feed(self, arg: Any, device_option: Any = None) -> bool:
        """Write a copy of an array."""
        return self._blob.feed(arg, device_option)

    def fetch(self) -> Any:
        """A copy of the content."""
        return self._blob.fetch()
