"""What tasks give back: blobs, lists of blobs, or records of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from netgrad.caffe2.python.schema import Field, from_blob_list

FetchFunction = Callable[[Any], Any]


class TaskOutput:
    """A blob, a list of blobs or a record; once the task has run, `fetch` gives the content.

    Attributes:
        names: The blobs.
    """

    def __init__(self, names: Any) -> None:
        """Note what the output is: a blob, a list or tuple of blobs, or a record (a schema's field)."""
        self._schema = names if isinstance(names, Field) else None
        if self._schema is not None:
            names = self._schema.field_blobs()
        self._is_scalar = not isinstance(names, list | tuple)
        self.names: list[Any] = [names] if self._is_scalar else names
        self._values: list[Any] | None = None
        self._fetch: FetchFunction | None = None

    def set(self, values: Sequence[Any], _fetch_func: FetchFunction | None = None) -> None:
        """Note where the session has put the output, and how it is fetched from there."""
        assert len(values) == len(self.names), f"{len(values)} values for {len(self.names)} blobs"
        self._values, self._fetch = list(values), _fetch_func

    def get(self) -> Any:
        """Where the session has put the output.

        Raises:
            AssertionError: It hasn't run the task.
        """
        assert self._values is not None, "Output value not set yet."
        return self._shaped(self._values)

    def fetch(self) -> Any:
        """The content: of one blob, a list, or a record of it.

        Raises:
            AssertionError: The task hasn't run.
        """
        assert self._fetch is not None, "Cannot fetch value for this output."
        assert self._values is not None, "Output value not set yet."
        return self._shaped([self._fetch(value) for value in self._values])

    def _shaped(self, values: list[Any]) -> Any:
        if self._is_scalar:
            return values[0]
        if self._schema is not None:
            return from_blob_list(self._schema, values)
        return values

    def __repr__(self) -> str:
        return f"TaskOutput(names={self.names}, values={self._values})"


class TaskOutputList:
    """The outputs of a task one after the other.

    Attributes:
        outputs: The outputs.
    """

    def __init__(self, outputs: Iterable[TaskOutput] | None = None) -> None:
        self.outputs = list(outputs or ())

    def names(self) -> list[Any]:
        """All their blobs."""
        return [name for output in self.outputs for name in output.names]

    def set_values(self, values: Sequence[Any], _fetch_func: FetchFunction | None = None) -> None:
        """Give each its part of the values.

        Raises:
            AssertionError: There are more or fewer values than blobs.
        """
        assert len(values) == len(self.names()), "Wrong number of output values."
        at = 0
        for output in self.outputs:
            output.set(values[at : at + len(output.names)], _fetch_func)
            at += len(output.names)

    def __repr__(self) -> str:
        return f"TaskOutputList(outputs={self.outputs})"
