"""Feeding and fetching blobs."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.errors import RunError

_TEXT_SIZE = 32  # what the original counts for a text besides its characters


def FeedBlob(name: Any, arr: Any, device_option: Any = None) -> bool:
    """Write an array, a ``TensorProto``, or a text to a blob, which is created if it isn't there.

    Args:
        name: The blob's name or a reference; no name scope is added.
        arr: The content, which is copied.
        device_option: Where the blob lies; there is only the memory of the processor.

    Raises:
        RunError: There are no tensors of the array's element type.
    """
    return current().feed_blob(_name(name), arr, device_option)


def FetchBlob(name: Any) -> Any:
    """A copy of a blob's array, or the bytes of a text; of anything else a description.

    Raises:
        UnknownBlobError: There is no such blob; it is a ``RuntimeError`` and a ``KeyError``.
    """
    return current().fetch_blob(_name(name))


def FetchBlobs(names: Sequence[Any]) -> list[Any]:
    """`FetchBlob` of each."""
    return [FetchBlob(name) for name in names]


def HasBlob(name: Any) -> bool:
    """Whether there is a blob of that name."""
    return current().has_blob(_name(name))


def Blobs() -> list[str]:
    """The names of all blobs."""
    return current().names()


def CreateBlob(name: Any) -> bool:
    """Create a blob that holds nothing yet, if it isn't there."""
    current().create_blob(_name(name))
    return True


def ResetBlob(name: Any) -> None:
    """Let a blob hold nothing.

    Raises:
        UnknownBlobError: There is no such blob.
    """
    current().needed(_name(name)).value = None


def GetBlobSizeBytes(name: Any) -> int:
    """The size of a tensor in bytes.

    Raises:
        RunError: The blob holds no tensor.
    """
    value = current().needed(_name(name)).value
    if is_text(value):
        return sum(_TEXT_SIZE + len(text) for text in value.reshape(-1))
    if not is_tensor(value):
        raise RunError(f"blob {name} holds no tensor")
    return as_array(value).nbytes


def SerializeBlob(name: Any) -> bytes:
    """A blob as a ``BlobProto``.

    Raises:
        UnknownBlobError: There is no such blob.
        RunError: It holds what has no form as a message, such as a queue.
    """
    return current().needed(_name(name)).serialize(_name(name))


def DeserializeBlob(name: Any, serialized: bytes) -> None:
    """Write what `SerializeBlob` has given to a blob."""
    current().create_blob(_name(name)).deserialize(serialized)


def _name(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


class _Blobs(MutableMapping[Any, Any]):
    """The blobs of the current workspace: reading fetches, writing feeds."""

    def __getitem__(self, key: Any) -> Any:
        return FetchBlob(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        FeedBlob(key, value)

    def __delitem__(self, key: Any) -> None:
        if not current().remove_blob(key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(Blobs())

    def __len__(self) -> int:
        return len(Blobs())

    def __contains__(self, key: object) -> bool:
        return HasBlob(key)


blobs = _Blobs()
