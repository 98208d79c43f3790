"""Reductions, running sums and products, softmax and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch.nn import functional

from tests.parity.torch_operators.table import operator, register, single, whole

Tensor = torch.Tensor
Reduction = Callable[[Tensor, list[int]], Tensor]


def _prod(x: Tensor, axes: list[int]) -> Tensor:
    for axis in axes:
        x = torch.prod(x, axis, keepdim=True)
    return x


REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": lambda x, axes: torch.sum(x, axes, keepdim=True),
    "ReduceMean": lambda x, axes: torch.mean(x, axes, keepdim=True),
    "ReduceMax": lambda x, axes: torch.amax(x, axes, keepdim=True),
    "ReduceMin": lambda x, axes: torch.amin(x, axes, keepdim=True),
    "ReduceProd": _prod,
    "ReduceL1": lambda x, axes: torch.sum(torch.abs(x), axes, keepdim=True),
    "ReduceL2": lambda x, axes: torch.linalg.vector_norm(x, 2, axes, keepdim=True),
    "ReduceLogSum": lambda x, axes: torch.log(torch.sum(x, axes, keepdim=True)),
    "ReduceLogSumExp": lambda x, axes: torch.logsumexp(x, axes, keepdim=True),
    "ReduceSumSquare": lambda x, axes: torch.sum(x * x, axes, keepdim=True),
}


def _reduce(
    reduction: Reduction,
    x: Tensor,
    given: Tensor | None = None,
    *,
    axes: Sequence[int] | None = None,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Tensor:
    """Axes are an input or, in older opsets, an attribute; without any all are reduced."""
    chosen = whole(given) if given is not None else list(axes or ())
    if not chosen and noop_with_empty_axes:
        return x
    reduced = sorted({axis % x.dim() for axis in chosen} or set(range(x.dim())))
    if not x.dim():
        return reduction(x.reshape(1), [0]).reshape(())
    y = reduction(x, reduced)
    if keepdims:
        return y
    return y.reshape([n for axis, n in enumerate(x.shape) if axis not in reduced])


for _op_type, _reduction in REDUCTIONS.items():
    register(_op_type, partial(_reduce, _reduction))


def _running(
    cumulate: Callable[[Tensor, int], Tensor],
    start: float,
    x: Tensor,
    axis_given: Tensor,
    *,
    exclusive: int = 0,
    reverse: int = 0,
) -> Tensor:
    axis = whole(axis_given)[0] % x.dim()
    x = x.flip(axis) if reverse else x
    if exclusive:
        first = torch.full_like(x.narrow(axis, 0, 1), start)
        x = torch.cat([first, x.narrow(axis, 0, x.shape[axis] - 1)], axis)
    y = cumulate(x, axis)
    return y.flip(axis) if reverse else y


register("CumSum", partial(_running, torch.cumsum, 0.0))
register("CumProd", partial(_running, torch.cumprod, 1.0))


@operator("Softmax")
def softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.softmax(x, axis)


@operator("LogSoftmax")
def log_softmax(x: Tensor, *, axis: int = -1) -> Tensor:
    return torch.log_softmax(x, axis)


# ---- normalizations: their `stash_type` is for half precision, and everything here is float64 ------------


@operator("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    return x / torch.linalg.vector_norm(x, p, axis, keepdim=True)


@operator("LayerNormalization")
def layer_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = single(1e-5),
    stash_type: int = 1,
) -> Tensor:
    shape = x.shape[axis % x.dim() :]
    return functional.layer_norm(x, shape, scale, bias, epsilon)


@operator("RMSNormalization")
def rms_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = single(1e-5), stash_type: int = 1
) -> Tensor:
    return functional.rms_norm(x, list(x.shape[axis % x.dim() :]), scale, epsilon)


def _per_channel(x: Tensor, weight: Tensor) -> Tensor:
    return weight.reshape(-1, *[1] * (x.dim() - 2))


@operator("BatchNormalization")
def batch_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = single(1e-5),
    momentum: float = 0.9,
) -> Tensor:
    """In inference mode, by its formula, since PyTorch's has no gradient by the mean and the variance."""
    scale, bias, mean, var = (_per_channel(x, each) for each in (scale, bias, mean, var))
    return (x - mean) / torch.sqrt(var + epsilon) * scale + bias


@operator("InstanceNormalization")
def instance_normalization(
    x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = single(1e-5)
) -> Tensor:
    y = functional.layer_norm(x, x.shape[2:], eps=epsilon)
    return y * _per_channel(x, scale) + _per_channel(x, bias)


@operator("GroupNormalization")
def group_normalization(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = single(1e-5),
    stash_type: int = 1,
) -> Tensor:
    """The form of opset 21, with a scale and a bias for each channel."""
    assert scale.numel() == x.shape[1], "a scale for each channel"
    return torch.group_norm(x, num_groups, scale, bias, epsilon)
