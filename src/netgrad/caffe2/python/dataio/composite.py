"""Several readers as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio.base import Read, Reader, ReaderBuilder, reader_of
from netgrad.caffe2.python.schema import Struct


class CompositeReader(Reader):
    """Reads a batch of each of its readers, until one of them is at its end."""

    def __init__(self, names: Sequence[str], readers: Sequence[Reader]) -> None:
        """Take readers that know their schemas, and the name of each one's field in the batch."""
        assert len(names) == len(readers), f"{len(names)} names for {len(readers)} readers"
        super().__init__(
            Struct(*[(name, reader.schema()) for name, reader in zip(names, readers, strict=True)])
        )
        self._names = list(names)
        self._readers = list(readers)

    def setup_ex(self, init_net: Any, finish_net: Any) -> None:
        """Those of all readers."""
        for reader in self._readers:
            reader.setup_ex(init_net, finish_net)

    def read_ex(self, local_init_net: Any, local_finish_net: Any) -> Read:
        """The nets of all readers one after the other; the last one's blob says whether any has ended.

        It is set behind each reader, so that a step stops before the next one has read in vain.
        """
        parts = [reader.read_record_ex(local_init_net, local_finish_net) for reader in self._readers]
        should_stop = parts[-1][1]
        nets: list[Any] = []
        fields: list[Any] = []
        for name, (own_nets, own_stop, record) in zip(self._names, parts, strict=True):
            nets += own_nets
            fields += record.field_blobs()
            if own_stop != should_stop:
                stop = core.Net(f"{name}_stop")
                stop.Or([should_stop, own_stop], should_stop)
                nets.append(stop)
        return nets, should_stop, fields

    def reset(self, net: Any) -> None:
        """Those of all readers."""
        for reader in self._readers:
            reader.reset(net)


class CompositeReaderBuilder(ReaderBuilder):
    """Builds readers of which each is one of several readers."""

    def __init__(self, names: Sequence[str], reader_builders: Sequence[ReaderBuilder]) -> None:
        """Take the builders, and the name of each one's field in the batch."""
        assert len(names) == len(reader_builders), f"{len(names)} names for {len(reader_builders)} builders"
        self._names = list(names)
        self._builders = list(reader_builders)
        self._schema = Struct(
            *[(name, builder.schema()) for name, builder in zip(names, reader_builders, strict=True)]
        )

    def schema(self) -> Struct:
        """A struct of those of the builders."""
        return self._schema

    def setup(self, **kwargs: Any) -> dict[Any, Any]:
        """Those of all builders; only the last one gets a ``limiter``, so that it counts whole batches only.

        Raises:
            AssertionError: Two builders give blobs of the same name.
        """
        limiter = kwargs.pop("limiter", None)
        finished: dict[Any, Any] = {}
        for builder in self._builders:
            more = {"limiter": limiter} if limiter is not None and builder is self._builders[-1] else {}
            own = builder.setup(**kwargs, **more) or {}
            assert not set(own) & set(finished), f"Overlapping keys: {sorted(set(own) & set(finished))}"
            assert not set(own.values()) & set(finished.values()), f"Overlapping values: {own} and {finished}"
            finished.update(own)
        return finished

    def new_reader(self, **kwargs: Any) -> CompositeReader:
        """A reader of all."""
        readers = [reader_of(builder.new_reader(**kwargs)) for builder in self._builders]
        reader = CompositeReader(self._names, readers)
        assert reader.schema() == self._schema, f"readers of another schema: {reader.schema()}"
        return reader
