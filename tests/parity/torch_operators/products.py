"""Matrix products, convolutions and pools."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional

from tests.parity.torch_operators.table import operator, register, single

Tensor = torch.Tensor

register("MatMul", torch.matmul)


@operator("Gemm")
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    y = alpha * ((a.T if transA else a) @ (b.T if transB else b))
    return y if c is None else y + beta * c


@operator("Einsum")
def einsum(*operands: Tensor, equation: str) -> Tensor:
    return torch.einsum(equation, *operands)


# ---- windows ---------------------------------------------------------------------------------------------


def padded(x: Tensor, pads: Sequence[int] | None, value: float = 0.0) -> Tensor:
    """With ONNX's pads: all begins and then all ends, which needn't be the same."""
    if pads is None or not any(pads):
        return x
    half = len(pads) // 2
    in_pairs = [pad for axis in reversed(range(half)) for pad in (pads[axis], pads[axis + half])]
    return functional.pad(x, in_pairs, value=value)


@operator("Conv")
def conv(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    ones = [1] * (x.dim() - 2)
    function = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}[x.dim()]
    return function(padded(x, pads), w, b, stride=strides or ones, dilation=dilations or ones, groups=group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    group: int = 1,
) -> Tensor:
    ones = [1] * (x.dim() - 2)
    function = {
        3: functional.conv_transpose1d,
        4: functional.conv_transpose2d,
        5: functional.conv_transpose3d,
    }[x.dim()]
    y = function(x, w, b, stride=strides or ones, dilation=dilations or ones, groups=group)
    return padded(y, None if pads is None else [-pad for pad in pads])


@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
) -> Tensor:
    ones = [1] * (x.dim() - 2)
    function = {3: functional.max_pool1d, 4: functional.max_pool2d, 5: functional.max_pool3d}[x.dim()]
    x = padded(x, pads, float("-inf"))
    return function(x, kernel_shape, stride=strides or ones, dilation=dilations or ones)


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    count_include_pad: int = 0,
) -> Tensor:
    """Sums over windows, by what counts in each."""
    kernel = x.new_ones(1, 1, *kernel_shape)
    whole = padded(x.reshape(-1, 1, *x.shape[2:]), pads)
    counted = torch.ones_like(whole) if count_include_pad else padded(x.new_ones(1, 1, *x.shape[2:]), pads)
    sums, counts = (conv(each, kernel, strides=strides, dilations=dilations) for each in (whole, counted))
    y = sums / counts
    return y.reshape(*x.shape[:2], *y.shape[2:])


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    return torch.mean(x, list(range(2, x.dim())), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    return torch.amax(x, list(range(2, x.dim())), keepdim=True)


@operator("LRN")
def local_response_normalization(
    x: Tensor, *, size: int, alpha: float = single(1e-4), beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    before, channels = (size - 1) // 2, x.shape[1]
    squares = functional.pad(x * x, [0, 0] * (x.dim() - 2) + [before, size - 1 - before])
    summed = sum(squares.narrow(1, k, channels) for k in range(size))
    return x / (bias + alpha / size * summed) ** beta
