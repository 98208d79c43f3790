"""Operators that print, check or drop blobs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.running.blob import as_array, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs

_PRINTED_ELEMENTS = 1000

# What element types are called in the files that scripts read back.
_TYPES = {
    "bool": "bool",
    "float16": "c10::Half",
    "float32": "float",
    "float64": "double",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "object": "std::__cxx11::basic_string<char>",
    "uint8": "unsigned char",
    "uint16": "short unsigned int",
}


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
        shape = "".join(f"{dim}," for dim in array.shape)
        elements = ",".join(_text(element) for element in array.reshape(-1)[:limit])
        kind = _TYPES.get(array.dtype.name, array.dtype.name)
        text = f"Tensor {name} of type {kind}. Dims: ({shape}): {elements}"
    else:
        text = call.blob(0).description(name).decode()
    if call.argument("to_file", 0):
        _add_line(call, name.replace("/", "_") + ".log", text)
    else:
        print(text, flush=True)


def _text(element: object) -> str:
    if isinstance(element, bytes):
        return element.decode("utf-8", "replace")
    if isinstance(element, float | np.floating):
        return f"{element:g}"
    return str(int(element) if isinstance(element, np.generic) else element)


def _add_line(call: Call, file: str, line: str) -> None:
    """Write a line to a file in the root folder, which is new when the operator runs first."""
    is_new = file not in call.memory
    call.memory[file] = True
    with (Path(call.workspace.root_folder) / file).open("w" if is_new else "a") as out:
        out.write(line + "\n")


def _is_filed(definition: OperatorDef) -> bool:
    return any(argument.name == "to_file" and value_of(argument) for argument in definition.arg)


@runs("Summarize", when=_is_filed)
def _summarize(call: Call) -> None:
    """Write minimum, maximum, mean and deviation to a file of the tensor's name in the root folder."""
    x = call.array(0)
    if x.dtype != np.float32 or not x.size:
        raise call.error(f"summaries are of floats, and there are {x.size} elements of type {x.dtype}")
    deviation = x.std(ddof=1, dtype=np.float64) if x.size > 1 else 0.0
    summary = np.array([x.min(), x.max(), x.mean(dtype=np.float64), deviation], np.float32)
    name = call.definition.input[0].replace("/", "#") + ".summary"
    _add_line(call, name, " ".join(_text(element) for element in summary))
    if call.definition.output:
        call.write(0, summary)


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
