"""How much memory nets need, with and without sharing."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.memonger.assignments import NamedRange
from netgrad.caffe2.tensors import ELEMENTS

logger = logging.getLogger(__name__)


class Statistics(NamedTuple):
    """Bytes without and with sharing."""

    baseline_nbytes: int
    optimized_nbytes: int


def blob_nbytes(blob: Any) -> int:
    """The bytes of a blob in the current workspace; 0, and a warning, if there is none or it is no tensor."""
    try:
        return int(workspace.FetchBlob(blob).nbytes)
    except Exception as error:
        logger.warning("the size of blob '%s' is unknown: %s", blob, error)
        return 0


def collect_blob_sizes(net: NetDef) -> dict[str, int]:
    """The bytes of all blobs of a net that has run in the current workspace."""
    return {blob: blob_nbytes(blob) for op in net.op for blob in (*op.input, *op.output)}


def compute_statistics(assignments: Iterable[Sequence[NamedRange]]) -> Statistics:
    """The bytes of blobs in the current workspace, each for itself, and if they share memory."""
    sizes = [[blob_nbytes(blob) for blob, _ in assignment] for assignment in assignments]
    return Statistics(sum(map(sum, sizes)), sum(map(max, sizes)))


def estimate_memory_usage(
    protos: Iterable[NetDef], shapes: Mapping[str, Sequence[int]], types: Mapping[str, int], devicescope: Any
) -> tuple[int, int, Counter[str]]:
    """The bytes that nets allocate on a device if they run one after the other.

    Args:
        protos: The nets, which stay as they are.
        shapes: Shapes by blob.
        types: Element types by blob, as the numbers of messages.
        devicescope: The device; ``Free`` and ``Alias`` count on every one.

    Returns:
        All that is allocated, the most at one time, and how much each operator type allocates.
    """
    total = now = most = 0
    allocated: dict[str, int] = {}
    by_type: Counter[str] = Counter()
    for op in (op for proto in protos for op in proto.op):
        if op.type in ("Free", "Alias"):
            now -= sum(allocated.pop(blob, 0) for blob in op.output)
        elif op.device_option == devicescope:
            for blob in op.output:
                if blob not in allocated:
                    allocated[blob] = size = _bytes(blob, shapes, types)
                    total, now = total + size, now + size
                    most = max(most, now)
                    by_type[op.type] += size
    return total, most, by_type


def _bytes(blob: str, shapes: Mapping[str, Sequence[int]], types: Mapping[str, int]) -> int:
    if blob not in shapes or blob not in types:
        logger.warning("the shape or the type of blob '%s' is unknown", blob)
        return 0
    return math.prod(map(int, shapes[blob])) * int(np.dtype(ELEMENTS[types[blob]]).itemsize)
