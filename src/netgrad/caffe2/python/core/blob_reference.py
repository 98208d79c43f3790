"""References to blobs: names that know their net."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.makers.types import is_operator, near_types, registered_types
from netgrad.caffe2.python import scope


class BlobReference:
    """The name of a blob, and the net that it came from.

    It equals a text (or bytes) of the same name and hashes like it, so that a dict with references as keys
    can be read with texts. Raw texts get the current name scope where an operator is created, references
    never do.

    Attributes:
        meta: Free notes.
    """

    def __init__(self, name: Any, net: Any = None) -> None:
        """Take a text, bytes (as UTF-8), a reference or anything that has a text form."""
        self._name = name.decode() if isinstance(name, bytes) else str(name)
        self._from_net = net
        self.meta: dict[str, Any] = {}

    def __hash__(self) -> int:
        return hash(self._name)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return self._name == other
        if isinstance(other, bytes):
            return self._name.encode() == other
        if isinstance(other, BlobReference):
            return self._name == other._name
        return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f'BlobReference("{self._name}")'

    def __add__(self, other: object) -> BlobReference:
        if not isinstance(other, str):
            raise RuntimeError(f"a text can be added to a blob reference, not {other!r}")
        return BlobReference(self._name + other, self._from_net)

    def __radd__(self, other: object) -> BlobReference:
        if not isinstance(other, str):
            raise RuntimeError(f"a blob reference can be added to a text, not to {other!r}")
        return BlobReference(other + self._name, self._from_net)

    def Net(self) -> Any:
        """The net that it came from, or None."""
        return self._from_net

    def GetNameScope(self) -> str:
        """Everything up to and including the last ``/``."""
        return self._name[: self._name.rfind("/") + 1]

    def GetUnscopedName(self) -> str:
        """Everything after the last ``/``."""
        return self._name[self._name.rfind("/") + 1 :]

    def __getattr__(self, type_: str) -> Callable[..., Any]:
        """``reference.OpType(more_inputs, outputs, ...)`` adds an operator that reads the blob first."""
        if type_.startswith("__"):
            raise AttributeError(type_)
        if not is_operator(type_):
            raise AttributeError(f"there is no operator {type_}{near_types(type_)}")
        if self._from_net is None:
            raise AttributeError(f"{self!r} comes from no net, so that {type_} can't be added to one")

        def create(inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
            more = [] if inputs is None else inputs if isinstance(inputs, list) else [inputs]
            return getattr(self._from_net, type_)([self, *more], *args, **kwargs)

        return create

    def __dir__(self) -> list[str]:
        own = list(super().__dir__())
        return own if self._from_net is None else sorted({*own, *registered_types()})


def ScopedName(name: str) -> str:
    """A name with the current name scope in front."""
    return scope.CurrentNameScope() + name


def ScopedBlobReference(name: str, *args: Any, **kwargs: Any) -> BlobReference:
    """A reference to a name with the current name scope in front."""
    return BlobReference(ScopedName(name), *args, **kwargs)


def references(blobs: Any) -> list[BlobReference]:
    """The operands of an operator as references: raw names get the name scope.

    Raises:
        TypeError: ``blobs`` is neither a name, a reference nor a list or tuple of them.
    """
    if isinstance(blobs, str | bytes | BlobReference):
        blobs = [blobs]
    elif not isinstance(blobs, list | tuple):
        raise TypeError(
            f"blobs are names, references or a list of them, not {blobs!r} ({type(blobs).__name__})"
        )
    found = []
    for blob in blobs:
        if isinstance(blob, BlobReference):
            found.append(blob)
        elif isinstance(blob, str | bytes):
            found.append(ScopedBlobReference(blob.decode() if isinstance(blob, bytes) else blob))
        else:
            raise TypeError(f"a blob is a name or a reference, not {blob!r} ({type(blob).__name__})")
    return found


def output_to_list(op_output: Any) -> list[Any]:
    """What an operator call returned, as a list.

    Raises:
        AssertionError: It is nothing that one returns.
    """
    assert op_output is None or isinstance(op_output, list | tuple | BlobReference), f"{op_output!r}"
    if op_output is None:
        return []
    return [op_output] if isinstance(op_output, BlobReference) else list(op_output)
