"""Operators that move elements about, and those that make tensors of a shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from tests.parity.torch_operators.table import operator, whole

Tensor = torch.Tensor


@operator("Constant")
def constant(
    *,
    value: Tensor | None = None,
    value_float: float | None = None,
    value_int: int | None = None,
    value_floats: Sequence[float] | None = None,
    value_ints: Sequence[int] | None = None,
) -> Tensor:
    if value is not None:
        return value
    if value_float is not None or value_floats is not None:
        return torch.tensor(value_floats if value_float is None else value_float, dtype=torch.float32)
    return torch.tensor(value_ints if value_int is None else value_int, dtype=torch.int64)


@operator("ConstantOfShape")
def constant_of_shape(shape: Tensor, *, value: Tensor | None = None) -> Tensor:
    value = torch.zeros(1, dtype=torch.float32) if value is None else value
    return value.reshape(()).expand(whole(shape))


@operator("Range")
def range_(start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    return torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)


@operator("Shape")
def shape_of(x: Tensor, *, start: int = 0, end: int | None = None) -> Tensor:
    return torch.tensor(list(x.shape)[start:end], dtype=torch.int64)


@operator("Size")
def size(x: Tensor) -> Tensor:
    return torch.tensor(x.numel(), dtype=torch.int64)


@operator("Reshape")
def reshape(x: Tensor, shape: Tensor) -> Tensor:
    return x.reshape([x.shape[axis] if n == 0 else n for axis, n in enumerate(whole(shape))])


@operator("Transpose")
def transpose(x: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    return x.permute(list(reversed(range(x.dim()))) if perm is None else list(perm))


@operator("Concat")
def concat(*parts: Tensor, axis: int) -> Tensor:
    return torch.cat(parts, axis)


@operator("Split")
def split(
    x: Tensor, sizes: Tensor | None = None, *, axis: int = 0, num_outputs: int = 0
) -> tuple[Tensor, ...]:
    """In parts of given sizes, or in so many equal ones, of which the last may be smaller."""
    if sizes is not None:
        return torch.split(x, whole(sizes), axis)
    assert num_outputs, "Split without sizes and without the number of outputs"
    return torch.split(x, -(-x.shape[axis] // num_outputs), axis)


@operator("Slice")
def slice_(
    x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    first, last = whole(starts), whole(ends)
    along = list(range(len(first))) if axes is None else whole(axes)
    by = [1] * len(first) if steps is None else whole(steps)
    for axis, start, end, step in zip(along, first, last, by, strict=True):
        n = x.shape[axis]
        start = max(start + n if start < 0 else start, 0)
        end = end + n if end < 0 else end
        if step > 0:
            kept = range(min(start, n), min(max(end, 0), n), step)
        else:
            kept = range(min(start, n - 1), max(end, -1), step)
        x = torch.index_select(x, axis, torch.tensor(list(kept), dtype=torch.int64))
    return x


@operator("Pad")
def pad(
    x: Tensor,
    pads: Tensor,
    value: Tensor | None = None,
    axes: Tensor | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Along one axis after the other; a negative pad cuts."""
    amounts = whole(pads)
    along = list(range(x.dim())) if axes is None else whole(axes)
    for k, axis in enumerate(along):
        before, after = amounts[k], amounts[k + len(along)]
        if mode != "constant":
            taken = np.pad(np.arange(x.shape[axis]), (before, after), mode=mode)  # type: ignore[call-overload]
            x = torch.index_select(x, axis, torch.from_numpy(taken))
            continue
        x = x.narrow(axis, max(-before, 0), x.shape[axis] - max(-before, 0) - max(-after, 0))
        fill = x.new_zeros(()) if value is None else value.reshape(())
        shape = list(x.shape)
        margins = [fill.expand([*shape[:axis], max(n, 0), *shape[axis + 1 :]]) for n in (before, after)]
        x = torch.cat([margins[0], x, margins[1]], axis)
    return x


@operator("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    along = list(range(x.dim())) if axes is None else axes
    for axis, wanted in zip(along, whole(shape), strict=True):
        n = x.shape[axis]
        before = (wanted - n) // 2 if wanted > n else -((n - wanted) // 2)
        amounts = [0] * (2 * x.dim())
        position = 2 * (x.dim() - 1 - axis % x.dim())
        amounts[position : position + 2] = [before, wanted - n - before]
        x = functional.pad(x, amounts)
    return x


@operator("Expand")
def expand(x: Tensor, shape: Tensor) -> Tensor:
    return x.expand(torch.broadcast_shapes(x.shape, tuple(whole(shape))))


@operator("Tile")
def tile(x: Tensor, repeats: Tensor) -> Tensor:
    return x.repeat(whole(repeats))


@operator("Squeeze")
def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
    gone = (
        [k for k, n in enumerate(x.shape) if n == 1] if axes is None else [k % x.dim() for k in whole(axes)]
    )
    return x.reshape([n for axis, n in enumerate(x.shape) if axis not in gone])


@operator("Unsqueeze")
def unsqueeze(x: Tensor, axes: Tensor) -> Tensor:
    given = whole(axes)
    for axis in sorted(k % (x.dim() + len(given)) for k in given):
        x = x.unsqueeze(axis)
    return x


@operator("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(prod(x.shape[:axis]), prod(x.shape[axis:]))


@operator("Trilu")
def triangle(x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    diagonal = 0 if k is None else whole(k)[0]
    return torch.triu(x, diagonal) if upper else torch.tril(x, diagonal)


@operator("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int) -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    y = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


@operator("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, c, h, w = x.shape
    b = blocksize
    if mode == "CRD":
        return functional.pixel_shuffle(x, b)
    y = x.reshape(n, b, b, c // (b * b), h, w).permute(0, 3, 4, 1, 5, 2)
    return y.reshape(n, c // (b * b), h * b, w * b)


@operator("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    rows: list[Any] = []
    along = time_axis - (time_axis > batch_axis)
    for row, length in zip(x.unbind(batch_axis), whole(lengths), strict=True):
        head, rest = torch.split(row, [length, row.shape[along] - length], along)
        rows.append(torch.cat([head.flip(along), rest], along))
    return torch.stack(rows, batch_axis)
