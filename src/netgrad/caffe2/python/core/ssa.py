"""Versions of the blobs of a net as scripts count them, and what follows from them.

The numbers differ from those of the backward pass: the first write of a blob always makes version 1, and what
is read before any write has version 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

Versioned: TypeAlias = "tuple[str, int]"
Ssa: TypeAlias = "list[tuple[list[Versioned], list[Versioned]]]"


def get_ssa(net: Any, blob_versions: Mapping[str, int] | None = None) -> tuple[Ssa, dict[str, int]]:
    """For each operator of a net (or message) its versioned inputs and outputs; and the final versions."""
    proto = net.Proto() if hasattr(net, "Proto") else net
    versions = dict(blob_versions or {})
    ssa: Ssa = []
    for op in proto.op:
        inputs = [(name, versions.setdefault(name, 0)) for name in op.input]
        outputs = []
        for name in op.output:
            versions[name] = versions.get(name, 0) + 1
            outputs.append((name, versions[name]))
        ssa.append((inputs, outputs))
    return ssa, versions


def get_undefined_blobs(ssa: Ssa) -> set[str]:
    """Names that are read before anything writes them."""
    return {name for inputs, _ in ssa for name, version in inputs if version == 0}


def get_output_producers(ssa: Ssa) -> dict[Versioned, int]:
    """For each versioned output the index of its operator."""
    return {output: index for index, (_, outputs) in enumerate(ssa) for output in outputs}


def get_op_ids_in_path(
    ssa: Ssa, blob_versions: Mapping[str, int], inputs: Iterable[str], outputs: Sequence[str]
) -> list[int]:
    """The indices of the operators that are needed to compute ``outputs`` from ``inputs``, in order.

    Inputs and outputs are meant at their final versions.
    """
    given = {(name, blob_versions.get(name, 0)) for name in inputs}
    producers = get_output_producers(ssa)
    wanted = [(name, blob_versions.get(name, 0)) for name in outputs]
    used: set[int] = set()
    while wanted:
        blob = wanted.pop()
        if blob in given or blob not in producers or producers[blob] in used:
            continue
        used.add(producers[blob])
        wanted += ssa[producers[blob]][0]
    return sorted(used)
