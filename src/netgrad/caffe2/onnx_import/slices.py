"""Parts of tensors between bounds, which are arguments or computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.onnx_import.lookups import from_the_front
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_INT64 = TensorProto.INT64
_END = 2**31 - 1  # a bound from here on means the end, whatever the size


@writes("Slice")
def _slice(n: Node) -> None:
    """One operator for each axis: Caffe2 cuts along one; steps other than 1 are lookups."""
    if n.info(1).constant is None or n.info(2).constant is None:
        _computed_slice(n)
        return
    starts, ends = n.numbers(1), n.numbers(2)
    axes = n.numbers(3) if n.has(3) else list(range(len(starts)))
    steps = n.numbers(4) if n.has(4) else [1] * len(starts)
    x, written = n.inputs[0], 0
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        axis, written = n.axis(axis), written + 1
        output = n.outputs[0] if written == len(starts) else n.fresh("slice")
        if step == 1:
            first, last = _bounds(n, axis, start, end)
            rank = n.rank()
            n.write(
                "Slice",
                [x],
                [output],
                starts=[first if k == axis else 0 for k in range(rank)],
                ends=[last if k == axis else -1 for k in range(rank)],
            )
        else:
            places = np.arange(n.dim(0, axis), dtype=np.int64)[_python_slice(start, end, step)]
            n.write("Gather", [x, n.parameter(places, "places")], [output], axis=axis)
        x = output
    if not starts:
        n.write("Copy")


def _computed_slice(n: Node) -> None:
    """One operator for each axis, if the axes are known: Caffe2 cuts along one. Else one for all of them."""
    if n.has(4) and any(step != 1 for step in n.numbers(4)):
        raise n.refused("bounds that are computed have steps of 1 in Caffe2")
    bounds = [from_the_front(n, n.step("Cast", [n.inputs[at]], to=_INT64), 1, "Sub") for at in (1, 2)]
    count = (n.info(1).shape or (None,))[0]
    known: list[int] | None = None
    if n.has(3):
        if n.info(3).constant is not None:
            known = n.axes_in_order(3)
    elif isinstance(count, int) and len(n.info(1).shape or ()) == 1:
        known = list(range(count))
    if known is None:
        if n.has(3):
            axes = from_the_front(n, n.step("Cast", [n.inputs[3]], to=_INT64), n.rank(), "Add")
        else:  # the first ones, as many as there are bounds
            axes = n.step("Range", [n.step("Size", [n.inputs[1]])])
        n.write("Slice", [n.inputs[0], *_among_all(n, bounds, axes)])
        return
    x, rank = n.inputs[0], n.rank()
    for k, axis in enumerate(known):
        output = n.outputs[0] if k == len(known) - 1 else n.fresh("slice")
        whole = [_all_but(n, axis, rank, default, bounds[at], k) for at, default in enumerate((0, -1))]
        x = n.write("Slice", [x, *whole], [output])
    if not known:
        n.write("Copy")


def _all_but(n: Node, axis: int, rank: int, default: int, numbers: str, k: int) -> str:
    """A bound for each axis: number ``k`` of those that are given for one axis, all for the others."""
    parts = [n.step("Slice", [numbers], starts=[k], ends=[k + 1])]
    if axis:
        parts.insert(0, n.parameter(np.full(axis, default, np.int64), "before"))
    if axis < rank - 1:
        parts.append(n.parameter(np.full(rank - 1 - axis, default, np.int64), "behind"))
    return n.write("Concat", parts, [n.fresh("bounds"), n.fresh("sizes")], axis=0)


def _among_all(n: Node, given: Sequence[str], axes: str) -> list[str]:
    """A bound for each axis: those that are given, among those that take all."""
    bounds = []
    for default, numbers in zip((0, -1), given, strict=True):
        bound = n.step("ConstantFill", [], shape=[n.rank()], value=default, dtype=_INT64)
        bounds.append(n.write("ScatterAssign", [bound, axes, numbers], [bound]))
    return bounds


def _python_slice(start: int, end: int, step: int) -> slice:
    """With a negative step, an end before the first element stands for all down to it."""
    return slice(start, None if step < 0 and end <= -_END else end, step)


def _bounds(n: Node, axis: int, start: int, end: int) -> tuple[int, int]:
    """Bounds as Caffe2 counts them: a negative b means dim + 1 + b, and -1 is the end."""
    shape = n.info(0).shape or ()
    dim = shape[axis] if axis < len(shape) else None
    if isinstance(dim, int):
        first, last, _ = slice(start, end).indices(dim)
        return first, max(first, last)
    if start <= -_END:
        start = 0
    return start if start >= 0 else start - 1, end - 1 if end < 0 else -1 if end >= _END else end
