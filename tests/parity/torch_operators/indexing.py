"""Operators that read and write by index."""

from __future__ import annotations

from functools import partial
from math import prod

import torch

from tests.parity.torch_operators.table import operator, register, whole

Tensor = torch.Tensor

REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
"""What PyTorch calls the reductions of a scatter."""


def _wrapped(indices: Tensor, size: int) -> Tensor:
    indices = indices.to(torch.int64)
    return torch.where(indices < 0, indices + size, indices)


@operator("Gather")
def gather(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    axis %= x.dim()
    y = torch.index_select(x, axis, _wrapped(indices, x.shape[axis]).reshape(-1))
    return y.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


@operator("GatherElements")
def gather_elements(x: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    return torch.gather(x, axis, _wrapped(indices, x.shape[axis]))


def _rows(sizes: tuple[int, ...], tuples: Tensor) -> Tensor:
    """The number of the row that each index tuple names, if the leading axes are made one."""
    rows = torch.zeros(tuples.shape[:-1], dtype=torch.int64)
    for axis, n in enumerate(sizes):
        rows = rows * n + _wrapped(tuples[..., axis], n)
    return rows


@operator("GatherND")
def gather_nd(x: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    depth = indices.shape[-1]
    batch, sizes = x.shape[:batch_dims], x.shape[batch_dims : batch_dims + depth]
    rest = x.shape[batch_dims + depth :]
    rows = _rows(tuple(sizes), indices).reshape(prod(batch), -1)
    rows = rows + prod(sizes) * torch.arange(prod(batch)).reshape(-1, 1)
    flat = x.reshape(prod(batch) * prod(sizes), *rest)
    return torch.index_select(flat, 0, rows.reshape(-1)).reshape((*indices.shape[:-1], *rest))


def _scattered(x: Tensor, axis: int, indices: Tensor, updates: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return torch.scatter(x, axis, indices, updates)
    return torch.scatter_reduce(x, axis, indices, updates, REDUCTIONS[reduction], include_self=True)


@operator("ScatterElements")
def scatter_elements(
    x: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    return _scattered(x, axis, _wrapped(indices, x.shape[axis]), updates, reduction)


@operator("ScatterND")
def scatter_nd(x: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    depth = indices.shape[-1]
    rows = _rows(tuple(x.shape[:depth]), indices).reshape(-1, 1)
    width = prod(x.shape[depth:])
    flat = x.reshape(-1, width)
    updates = updates.reshape(-1, width)
    return _scattered(flat, 0, rows.expand(updates.shape), updates, reduction).reshape(x.shape)


@operator("TopK")
def top_k(
    x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    """Of equal elements the first comes first."""
    order = torch.argsort(x.detach(), dim=axis, descending=bool(largest), stable=True)
    order = order.narrow(axis, 0, whole(k)[0])
    return torch.gather(x, axis, order), order


def _arg(largest: int, x: Tensor, *, axis: int = 0, keepdims: int = 1) -> Tensor:
    _, found = top_k(x, torch.tensor([1]), axis=axis, largest=largest)
    return found if keepdims else found.squeeze(axis)


register("ArgMax", partial(_arg, 1))
register("ArgMin", partial(_arg, 0))


@operator("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return torch.index_select(x, axis, torch.nonzero(condition).reshape(-1))


@operator("OneHot")
def one_hot(indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    n = whole(depth)[0]
    axis = axis % (indices.dim() + 1)
    places = torch.arange(n).reshape(-1, *[1] * (indices.dim() - axis))
    hot = _wrapped(indices, n).unsqueeze(axis) == places
    return torch.where(hot, values[1], values[0])
