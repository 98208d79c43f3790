"""What happens to records between reading and writing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Reader
from netgrad.caffe2.python.dataio.base import Read
from netgrad.caffe2.python.net_builder import NetBuilder
from netgrad.caffe2.python.schema import Field, as_record
from netgrad.caffe2.python.task import TaskGroup


class Output:
    """What a processor gives back.

    Attributes:
        nets: The nets that it has made; those of the active net builder if it gives none.
        record: The record that is written, or None.
        should_stop: A blob that stops the reading where it holds, or None.
    """

    def __init__(self, nets: Any = None, record: Any = None, should_stop: Any = None) -> None:
        built = NetBuilder.current().get()
        assert nets is None or not built, "Cannot both use `ops` syntax and return a list of nets."
        if nets is None:
            nets = built
        self.nets = [nets] if isinstance(nets, core.Net) else list(nets)
        self.record = None if record is None else as_record(record)
        self.should_stop = should_stop


def normalize_processor_output(output: Any) -> Output:
    """What a processor gives back: an `Output`; a record; a record and a stop blob; nets, record and stop."""
    if isinstance(output, Output):
        return output
    if isinstance(output, Field):
        return Output(record=output)
    if not isinstance(output, tuple):
        return Output(output)
    if len(output) == 2 and isinstance(output[0], Field) and isinstance(output[1], core.BlobReference):
        return Output(None, *output)
    return Output(*output)


class NetProcessor:
    """A net as a processor, which is copied for each thread: from its input record to its output record.

    Attributes:
        name: Its name.
        net: The net.
        thread_init_nets: Nets that run once, copied for each thread likewise.
    """

    def __init__(
        self,
        net: core.Net,
        stop_signal: core.BlobReference | None = None,
        thread_init_nets: Sequence[core.Net] | None = None,
        name: str | None = None,
    ) -> None:
        """Take a net with an input record, and perhaps a blob of it that stops the reading."""
        assert isinstance(net, core.Net), f"a net is needed, not {net!r}"
        assert stop_signal is None or isinstance(stop_signal, core.BlobReference), f"{stop_signal!r}"
        self.name = name or str(net)
        self.net = net
        self.thread_init_nets = list(thread_init_nets or ())
        self._stop_signal = stop_signal
        self._blob_maps: list[dict[str, str]] = []
        self._frozen = False
        self._cloned_init_nets: list[core.Net] = []

    def schema(self) -> Any:
        """What it gives."""
        return self.net.output_record()

    def setup(self, init_net: Any) -> list[core.Net]:
        """The copies of the nets that run once; no copy is made any more."""
        self._frozen = True
        nets, self._cloned_init_nets = self._cloned_init_nets, []
        return nets

    def __call__(self, rec: Any) -> Output:
        """A copy of the net that reads a record.

        Raises:
            AssertionError: Its `setup` or `blob_maps` were asked before.
        """
        assert not self._frozen, f"processor {self.name} has been set up already"
        prefix = f"{NetBuilder.current().name}/"
        names: dict[str, str] = {}
        for net in self.thread_init_nets:
            self._cloned_init_nets.append(core.clone_and_bind_net(net, f"{net}{prefix}", prefix, names)[0])
        copy, names = core.clone_and_bind_net(self.net, f"{self.net}{prefix}", prefix, names, rec)
        self._blob_maps.append(names)
        stop = self._stop_signal
        if stop is not None and str(stop) in names:
            stop = core.BlobReference(names[str(stop)], copy)
        return Output([copy], copy.output_record(), stop)

    def blob_maps(self) -> list[dict[str, str]]:
        """The names of the blobs in each copy; no copy is made any more."""
        self._frozen = True
        return self._blob_maps


def make_processor(processor: Any, reader: Reader | None = None) -> Any:
    """A processor as it is, a net as a `NetProcessor`, or without one what gives back what it gets.

    A processor with a ``schema_func`` of the reader gets a ``schema`` by it.
    """
    if processor is None:
        return lambda rec: rec
    if isinstance(processor, core.Net):
        return NetProcessor(processor)
    if reader is not None and hasattr(processor, "schema_func"):
        schema_func: Callable[[Reader], Any] = processor.schema_func
        processor.schema = lambda: schema_func(reader)
    return processor


def processor_name(processor: Any) -> str:
    """The name of a processor, reader or writer: its own, or that of its function, module or class."""
    if hasattr(processor, "name"):
        return str(processor.name)
    if hasattr(processor, "__name__"):
        return str(processor.__module__ if processor.__name__ == "<lambda>" else processor.__name__)
    return type(processor).__name__


class ProcessingReader(Reader):
    """Reads what a processor makes of the batches of another reader.

    Attributes:
        reader: The other reader.
        processor: The processor.
    """

    def __init__(self, reader: Reader, processor: Any) -> None:
        super().__init__()
        self.reader = reader
        self.processor = make_processor(processor, reader)

    def schema(self) -> Any:
        """What the processor gives."""
        return self.processor.schema()

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """That of the reader."""
        self.reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """The nets of the reader, then those of the processor, which may stop the reading."""
        nets, status, record = self.reader.read_record_ex(local_init_net, local_finish_net)
        with NetBuilder() as builder:
            result = normalize_processor_output(self.processor(record))
        nets = [*nets, *result.nets]
        stops = [stop for stop in (result.should_stop, builder.step_stop_blob) if stop is not None]
        if stops:
            stop_net = core.Net("stop_net")
            for stop in stops:
                stop_net.Or([status, stop], [status])
            nets.append(stop_net)
        if hasattr(self.processor, "setup"):
            local_init_net.add_attribute(TaskGroup.LOCAL_SETUP, self.processor)
        self._set_schema(result.record)
        return nets, status, result.record.field_blobs() if result.record is not None else None
