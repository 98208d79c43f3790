"""Reading files of text: a row per line, its fields separated by tabs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_TYPES: dict[int, Any] = {TensorProto.STRING: object, TensorProto.FLOAT: np.float32}


class TextFile:
    """Goes over the rows of a file, several times if wanted.

    Attributes:
        types: The element types of the fields, as numbers.
        rows: What has not been read.
    """

    def __init__(self, path: Path, passes: int, types: list[int]) -> None:
        self.path = path
        self.types = types
        self.rows = self._read(passes)

    def _read(self, passes: int) -> Iterator[list[bytes]]:
        for _ in range(passes):
            with self.path.open("rb") as file:
                for number, line in enumerate(file, 1):
                    row = line.removesuffix(b"\n").split(b"\t")
                    if len(row) != len(self.types):
                        raise ValueError(
                            f"line {number} of {self.path} has {len(row)} fields, not {len(self.types)}"
                        )
                    yield row


@runs("CreateTextFileReader")
def _create(call: Call) -> None:
    path = Path(call.argument("filename", ""))
    types = list(call.argument("field_types", ()))
    if not path.is_file():
        raise call.error(f"there is no file '{path}'")
    if not types or not all(number in _TYPES for number in types):
        raise call.error(f"fields are texts (STRING) or numbers (FLOAT), not of the types {types}")
    call.put(0, TextFile(path, call.argument("num_passes", 1), types))


@runs("TextFileReaderRead")
def _read(call: Call) -> None:
    """The next rows, a vector for each field; fewer, and then none, at the end."""
    reader = call.value(0)
    if not isinstance(reader, TextFile):
        raise call.error(f"input '{call.definition.input[0]}' was not written by CreateTextFileReader")
    if len(call.definition.output) != len(reader.types):
        raise call.error(f"the file has {len(reader.types)} fields, not {len(call.definition.output)}")
    try:
        rows = list(islice(reader.rows, call.argument("batch_size", 1)))
        columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in reader.types]
        for at, (number, column) in enumerate(zip(reader.types, columns, strict=True)):
            values = column if number == TensorProto.STRING else [float(text) for text in column]
            array = np.empty(len(values), _TYPES[number])
            array[:] = values
            call.put(at, array)
    except ValueError as error:
        raise call.error(str(error)) from error
