"""Operators that print, check or drop blobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_PRINTED_ELEMENTS = 1000


@runs("Print")
def _print(call: Call) -> None:
    """Print a tensor, or append it to a file of its name in the root folder."""
    name, value = call.definition.input[0], call.value(0)
    every = call.argument("every_n", 1)
    call.memory["runs"] = call.memory.get("runs", 0) + 1
    if every > 1 and (call.memory["runs"] - 1) % every:
        return
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
    elif is_tensor(value) or is_text(value):
        limit = call.argument("limit", 0) or _PRINTED_ELEMENTS
        array = as_array(value)
        shape = ",".join(str(dim) for dim in array.shape)
        elements = ",".join(_text(element) for element in array.reshape(-1)[:limit])
        text = f"Tensor {name} of type {array.dtype}. Dims: ({shape}): {elements}"
    else:
        text = call.blob(0).description(name).decode()
    if call.argument("to_file", 0):
        file = Path(call.workspace.root_folder) / (name.replace("/", "_") + ".log")
        with file.open("a") as out:
            out.write(text + "\n")
    else:
        print(text, flush=True)


def _text(element: object) -> str:
    if isinstance(element, bytes):
        return element.decode("utf-8", "replace")
    return str(element.item() if isinstance(element, np.generic) else element)


@runs("Assert")
def _assert(call: Call) -> None:
    if not bool(call.array(0).all()):
        raise call.error(call.argument("error_msg", "") or "the assertion does not hold")


@runs("Free")
def _free(call: Call) -> None:
    """The blobs stay, and hold nothing."""
    for name in call.definition.output:
        call.workspace.create_blob(name).value = None


@runs("NanCheck")
def _nan_check(call: Call) -> None:
    """A copy of the first input, or an error where it has an element that is no finite number."""
    _enforce_finite(call)
    call.write(0, call.array(0))


@runs("EnforceFinite")
def _enforce_finite(call: Call) -> None:
    """An error where the input has a number that is not finite."""
    array = call.array(0)
    odd = int((~np.isfinite(array)).sum())
    if odd:
        raise call.error(f"{odd} elements of input '{call.definition.input[0]}' are not finite")
