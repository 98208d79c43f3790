"""In which form blobs are stored: how many elements a record holds, and floats in half of their bits."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from netgrad.caffe2.caffe2_pb2 import BlobSerializationOptions
from netgrad.core import InvalidArgumentError

CHUNK = 1_000_000
"""Elements that one record holds at most, where nobody says otherwise."""

WHOLE = sys.maxsize
"""So many elements that each tensor is one record."""


@dataclass(frozen=True)
class StoredForm:
    """How one blob is stored.

    Attributes:
        chunk: How many elements a record holds at most.
        bfloat16: Whether elements of float32 are stored as bfloat16, the upper half of their bits.
    """

    chunk: int = CHUNK
    bfloat16: bool = False


class StoredForms:
    """How the blobs of a database are stored.

    Args:
        chunk: How many elements a record holds at most, of blobs that no option is for.
        options: Each is for the blobs whose whole name its pattern matches (without one: for all); of several
            the first counts. A chunk size of 0 is `CHUNK`, a negative one `WHOLE`.

    Raises:
        InvalidArgumentError: A pattern is no regular expression.
    """

    def __init__(self, chunk: int = CHUNK, options: Iterable[BlobSerializationOptions] = ()) -> None:
        self._others = StoredForm(chunk)
        self._options: list[tuple[re.Pattern[str], StoredForm]] = []
        for option in options:
            size = CHUNK if option.chunk_size == 0 else WHOLE if option.chunk_size < 0 else option.chunk_size
            bfloat16 = option.float_format == BlobSerializationOptions.FLOAT_BFLOAT16
            self._options.append((_pattern(option.blob_name_regex or ".*"), StoredForm(size, bfloat16)))

    def of(self, name: str) -> StoredForm:
        """How the blob of this name is stored."""
        return next((form for pattern, form in self._options if pattern.fullmatch(name)), self._others)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.DOTALL)
    except re.error as error:
        raise InvalidArgumentError(f"the pattern '{text}' of names of blobs is wrong: {error}") from error
