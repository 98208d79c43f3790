"""How many bytes the blobs of a workspace would take in a database."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import SerializationOptions
from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.stored_forms import StoredForm, StoredForms

# What an element takes. Numbers below 2 to the power of 28 take up to four bytes where their length varies.
_ELEMENT = {"int8": 2, "uint8": 2, "bool": 1, "int16": 3, "uint16": 3, "float16": 3, "object": 50}
_RECORD = 50  # of a tensor, besides its name and elements
_TEXT = 20  # of a text, besides its name and characters


@runs("EstimateAllBlobSizes")
def _estimate_all_blob_sizes(call: Call) -> None:
    """The names of the workspace's blobs, its own outputs among them, and estimates of their sizes.

    Blobs that hold neither tensors nor texts count 0.
    """
    shared = call.argument("include_shared", 1)
    forms = StoredForms(options=SerializationOptions.FromString(call.argument("options", b"")).options)
    held = call.workspace.names() if shared else call.workspace.local_names()
    names = list(dict.fromkeys([*held, *call.definition.output[:2]]))
    call.write(0, np.array([name.encode() for name in names], object))
    call.write(1, np.zeros(len(names), np.int64))  # so that it counts with its own size
    sizes = [
        _size(name, call.workspace.needed(name, call.definition).value, forms.of(name)) for name in names
    ]
    call.write(1, np.array(sizes, np.int64))


def _size(name: str, value: Any, form: StoredForm) -> int:
    if isinstance(value, str | bytes):
        return len(value.encode() if isinstance(value, str) else value) + len(name) + _TEXT
    if not is_tensor(value) and not is_text(value):
        return 0
    array = as_array(value)
    element = _ELEMENT.get(array.dtype.name, array.dtype.itemsize)
    if form.bfloat16 and array.dtype == np.float32:
        element = 2
    records: int = math.ceil(array.size / form.chunk)
    return records * (len(name) + _RECORD) + int(array.size * element)
