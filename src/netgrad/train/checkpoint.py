"""Checkpoints: everything a training needs to go on as if it had never stopped, in one safetensors file.

A file is written whole or not at all, and read with a check of every byte.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import safetensors.numpy

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, NetgradError
from netgrad.onnx.files import replacing

Array: TypeAlias = npt.NDArray[Any]

_KEY = "netgrad.checkpoint"
_LAYOUT = 1
"""Version of the metadata."""

_DTYPES: dict[str, npt.DTypeLike] = {
    **{f"F{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"I{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"U{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    "BOOL": "bool",
    "BF16": ir.DataType.BFLOAT16.numpy(),
}
"""By safetensors' name of an element type: NumPy's."""


# not `safetensors.numpy.load`, which has no bfloat16
_deserialize: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = safetensors.deserialize


@dataclass(frozen=True)
class Checkpoint:
    """The content of a checkpoint.

    Attributes:
        tensors: By name: parameters, optimizer state, carried tensors, counters.
        facts: Everything else, of the kinds that JSON has.
    """

    tensors: Mapping[str, Array]
    facts: Mapping[str, Any]


def write(checkpoint: Checkpoint, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint, whole or not at all: a failure leaves an older file as it was.

    Raises:
        NetgradError: The file cannot be written (no such folder, no permission, a full disk).
        InvalidArgumentError: ``path`` is a folder.
    """
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InvalidArgumentError(f"cannot write '{path}': it is a folder")
    facts = {**checkpoint.facts, "layout": _LAYOUT, "crc32": _checksum(checkpoint.tensors)}
    tensors = {name: np.array(array, order="C") for name, array in checkpoint.tensors.items()}
    content = safetensors.numpy.save(tensors, {_KEY: json.dumps(facts)})
    try:
        with replacing(target) as file:
            file.write(content)
    except OSError as error:
        raise NetgradError(f"cannot write '{path}': {error.strerror or error}") from error


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        InvalidModelError: The file is missing, truncated, damaged, or no checkpoint of netgrad.
    """
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidModelError(f"cannot read the checkpoint '{path}': there is no such file") from None
    except OSError as error:
        raise InvalidModelError(f"cannot read the checkpoint '{path}': {error.strerror or error}") from None
    try:
        tensors = {name: _array(entry) for name, entry in _deserialize(content)}
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + size])
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise InvalidModelError(
            f"the checkpoint '{path}' is damaged or no safetensors file ({error})"
        ) from None
    text = header.get("__metadata__", {}).get(_KEY)
    if text is None:
        raise InvalidModelError(f"'{path}' is a safetensors file, but no checkpoint of netgrad")
    facts = json.loads(text)
    if facts.get("layout") != _LAYOUT:
        raise InvalidModelError(
            f"the checkpoint '{path}' was written by another version of netgrad "
            f"(layout {facts.get('layout')}, not {_LAYOUT})"
        )
    if facts.get("crc32") != _checksum(tensors):
        raise InvalidModelError(f"the checkpoint '{path}' is damaged: its checksum does not fit its content")
    return Checkpoint(tensors, facts)


def differences(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> list[str]:
    """In what the tensors of a checkpoint differ from those that a training step has, a line each."""
    problems = [f"it has no '{name}'" for name in wanted if name not in found]
    problems += [f"it has '{name}', which the step does not" for name in sorted(found) if name not in wanted]
    problems += [
        f"its '{name}' is {_say(found[name])}, the step's is {_say(wanted[name])}"
        for name in wanted
        if name in found and _say(found[name]) != _say(wanted[name])
    ]
    return problems


def _say(array: Array) -> str:
    return f"{array.dtype.name}{list(array.shape)}"


def _array(entry: Mapping[str, Any]) -> Array:
    return np.frombuffer(bytes(entry["data"]), _DTYPES[entry["dtype"]]).reshape(entry["shape"]).copy()


def _checksum(tensors: Mapping[str, Array]) -> int:
    """CRC-32 over names and bytes, in the order of the names."""
    value = 0
    for name in sorted(tensors):
        value = zlib.crc32(tensors[name].tobytes(), zlib.crc32(name.encode(), value))
    return value
