"""Reading files of text: a row per line, its fields separated by tabs."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.dataio import Reader
from netgrad.caffe2.python.schema import Scalar, Struct, data_type_for_dtype


class TextFileReader(Reader):
    """Reads the lines of a file in batches, each of which is at the end of the data if it has no rows."""

    def __init__(
        self, init_net: Any, filename: str, schema: Struct, num_passes: int = 1, batch_size: int = 1
    ) -> None:
        """Open a file when ``init_net`` runs.

        Args:
            init_net: The net.
            filename: The file.
            schema: A struct of scalars: texts, and numbers of float32.
            num_passes: How often it is read.
            batch_size: How many lines a batch has.
        """
        assert isinstance(schema, Struct), f"a Struct is needed, not {schema!r}"
        for name, field in schema.get_children():
            assert isinstance(field, Scalar), f"a file has scalar fields only, and {name} is none"
        super().__init__(schema)
        types = [data_type_for_dtype(dtype) for dtype in schema.field_types()]
        self._reader = init_net.CreateTextFileReader(
            [], filename=filename, num_passes=num_passes, field_types=types
        )
        self._batch_size = batch_size

    def read(self, net: Any) -> tuple[Any, list[Any]]:
        """The next lines."""
        count = len(self.schema().field_names())
        fields = core.output_to_list(
            net.TextFileReaderRead([self._reader], count, batch_size=self._batch_size)
        )
        return net.IsEmpty([fields[0]]), fields
