"""What readers, writers, builders of readers, and pipes between them do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.schema import Field, from_blob_list

Read = tuple[list[Any], Any, Any]
"""Nets (or steps) that read a batch, the blob that says whether the end has come, and the batch."""


class Reader:
    """Adds operators that read one batch after the other.

    A class that derives from it has `read` or `read_ex`. What it adds may run in several threads at once,
    each of which gets batches of its own.
    """

    def __init__(self, schema: Field | None = None) -> None:
        """Note what the batches are; without it they are lists of blobs."""
        assert schema is None or isinstance(schema, Field), f"a schema is a Field, not {schema!r}"
        self._schema = schema

    def schema(self) -> Any:
        """What the batches are.

        Raises:
            AssertionError: The reader doesn't know.
        """
        assert self._schema is not None, "Schema not provided for this reader."
        return self._schema

    def _set_schema(self, schema: Field | None) -> None:
        self._schema = schema

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Add what runs once before all reading to ``init_net``, and what runs after it to ``finish_net``."""

    def read(self, read_net: Any) -> tuple[Any, Any]:
        """Add operators that read a batch.

        Returns:
            The blob that says whether the end has come, and the batch.

        Raises:
            NotImplementedError: The class has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no read")

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """The nets that read a batch, in order; what runs once per thread is added to the two nets."""
        net = core.Net("reader_body")
        return ([net], *self.read(net))

    def read_record(self, read_net: Any) -> tuple[Any, Any]:
        """`read`, with the batch as a record if the schema is known."""
        should_stop, fields = self.read(read_net)
        return should_stop, self._record(fields)

    def read_record_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """`read_ex`, with the batch as a record if the schema is known."""
        nets, should_stop, fields = self.read_ex(local_init_net, local_finish_net)
        return nets, should_stop, self._record(fields)

    def _record(self, fields: Any) -> Any:
        return fields if self._schema is None or fields is None else from_blob_list(self._schema, fields)

    def reset(self, net: Any) -> None:
        """Add operators that let it start anew.

        Raises:
            NotImplementedError: It can't.
        """
        raise NotImplementedError(f"{type(self).__name__} can't be reset")

    def execution_step(
        self, reader_net_name: str | None = None, external_should_stop: Any = None
    ) -> tuple[core.ExecutionStep, Any]:
        """A step that reads batch after batch until the end, to which nets that use them can be added.

        Args:
            reader_net_name: Name of its net.
            external_should_stop: A blob that stops it before the end.

        Returns:
            The step, and the batch.
        """
        net = core.Net(reader_net_name or "reader")
        should_stop, fields = self.read_record(net)
        if external_should_stop is not None:
            should_stop = net.Or([external_should_stop, should_stop])
        name = f"{reader_net_name or 'reader'}_step"
        return core.execution_step(name, net, should_stop_blob=should_stop), fields


class Writer:
    """Adds operators that write one batch after the other. A class that derives from it has `write`."""

    _schema: Field | None = None

    def schema(self) -> Any:
        """What was written last, if it was a record."""
        return self._schema

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Add what runs once before all writing to ``init_net``, and what runs after it to ``finish_net``."""
        self.commit(finish_net)

    def write(self, writer_net: Any, fields: Any) -> Any:
        """Add operators that write a batch, a list of blobs.

        Raises:
            NotImplementedError: The class has none.
        """
        raise NotImplementedError(f"{type(self).__name__} has no write")

    def write_ex(self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any) -> list[Any]:
        """The nets that write a batch; they may set ``stop_blob`` where nothing more can be written."""
        net = core.Net("write_net")
        self.write(net, fields)
        return [net]

    def write_record(self, writer_net: Any, fields: Any) -> Any:
        """`write` of a record, or of a list of blobs."""
        return self.write(writer_net, self._blobs(fields))

    def write_record_ex(
        self, fields: Any, local_init_net: Any, local_finish_net: Any, stop_blob: Any = None
    ) -> tuple[list[Any], Any]:
        """`write_ex` of a record or a list of blobs; returns its nets and the stop blob."""
        blobs = self._blobs(fields)
        if stop_blob is None:
            stop_blob = local_init_net.NextName("dequeue_status")
        return self.write_ex(blobs, local_init_net, local_finish_net, stop_blob), stop_blob

    def _blobs(self, fields: Any) -> list[Any]:
        if isinstance(fields, Field):
            self._schema = fields
            return fields.field_blobs()
        return list(fields)

    def commit(self, finish_net: Any) -> None:
        """Add operators that say that nothing more is written; some writers need none."""


class ReaderBuilder:
    """Makes readers, perhaps several on several nodes. A class that derives from it has all three methods."""

    def schema(self) -> Any:
        """What the batches are."""
        raise NotImplementedError(f"{type(self).__name__} has no schema")

    def setup(self, **kwargs: Any) -> Any:
        """Prepare once what all readers share; returns blobs by name that say whether one has finished."""
        raise NotImplementedError(f"{type(self).__name__} has no setup")

    def new_reader(self, **kwargs: Any) -> Any:
        """A reader, or a pipe that has one."""
        raise NotImplementedError(f"{type(self).__name__} has no new_reader")


class PipedReaderBuilder(ReaderBuilder):
    """A builder each of whose readers goes through a function, such as one that adds a pipe behind it."""

    def __init__(self, builder: ReaderBuilder, piper: Callable[..., Any]) -> None:
        """Take a builder, and a function of ``reader`` and of what `new_reader` is called with."""
        self._builder = builder
        self._piper = piper

    def schema(self) -> Any:
        """That of the builder inside."""
        return self._builder.schema()

    def setup(self, **kwargs: Any) -> Any:
        """That of the builder inside."""
        return self._builder.setup(**kwargs)

    def new_reader(self, **kwargs: Any) -> Any:
        """A reader of what the function returns."""
        return reader_of(self._piper(reader=self._builder.new_reader(**kwargs), **kwargs))


class Pipe:
    """Something that is written at one end and read at the other, and knows what goes through it."""

    def __init__(self, schema: Field | None = None, obj_key: str | None = None) -> None:
        """Start a pipe.

        Args:
            schema: What goes through; without it what is written first.
            obj_key: Key under which nets that read and write note it, so that its `setup` is asked then.
        """
        self._num_writers = 0
        self._num_readers = 0
        self._schema = schema
        self._obj_key = obj_key

    def schema(self) -> Any:
        """What goes through, or None while that isn't known."""
        return self._schema

    def setup(self, global_init_net: Any) -> Any:
        """Add what runs once before all reading and writing."""

    def reader(self) -> Any:
        """A reader of it."""
        raise NotImplementedError(f"{type(self).__name__} has no reader")

    def writer(self) -> Any:
        """A writer into it."""
        raise NotImplementedError(f"{type(self).__name__} has no writer")

    def num_readers(self) -> int:
        """How many nets read it."""
        return self._num_readers

    def num_writers(self) -> int:
        """How many nets write it."""
        return self._num_writers

    def _new_writer(self, writer_schema: Field | None, writer_init_net: Any) -> None:
        if self._schema is None:
            self._schema = writer_schema
        self._num_writers += 1
        self._note(writer_init_net)

    def _new_reader(self, reader_init_net: Any) -> None:
        self._num_readers += 1
        self._note(reader_init_net)

    def _note(self, net: Any) -> None:
        if self._obj_key is not None:
            net.add_attribute(self._obj_key, self)


def reader_of(source: Any) -> Any:
    """A reader as it is, or that of a pipe or data set.

    Raises:
        ValueError: ``source`` has no reader.
    """
    if isinstance(source, Reader):
        return source
    if hasattr(source, "reader"):
        return source.reader()
    raise ValueError(f"a reader, or something with one, is needed, not {type(source).__name__}")
