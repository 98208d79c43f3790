"""Operators of the reference evaluator that are replaced for measuring: its own are rough or very slow.

They are written from the standard's text, for NumPy in whatever precision comes in, and used nowhere else.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

_erf = np.frompyfunc(math.erf, 1, 1)


class Erf(OpRun):
    """Erf in the precision of its input; the package's own rounds to float32."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (np.asarray(_erf(x)).astype(x.dtype),)


class Gelu(OpRun):
    """Gelu in the precision of its input; the package's own is built on its Erf."""

    op_domain = ""

    def _run(self, x: Any, approximate: str | None = None) -> tuple[Any]:
        if approximate == "tanh":
            return ((x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2).astype(x.dtype),)
        return ((x * (1 + np.asarray(_erf(x / math.sqrt(2))).astype(x.dtype)) / 2).astype(x.dtype),)


class LogSoftmax(OpRun):
    """LogSoftmax that stays finite; the package's own takes the logarithm of a softmax that underflows."""

    op_domain = ""

    def _run(self, x: Any, axis: int | None = None) -> tuple[Any]:
        if not x.size:
            return (x,)
        shifted = x - x.max(axis=axis, keepdims=True)
        return ((shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype),)


class LRN(OpRun):
    """Local response normalisation over all channels; the package's own stops at the batch size."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        alpha: Any = None,  # the evaluator reads the defaults None as "an attribute of the node"
        beta: Any = None,
        bias: Any = None,
        size: int | None = None,
    ) -> tuple[Any]:
        assert size is not None, "the standard requires it"
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(x**2, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
        sums = sum(squares[:, k : k + x.shape[1]] for k in range(size))
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


_COLUMNS = 1 << 23
"""Numbers that a convolution gathers for one matrix product."""


class Conv(OpRun):
    """Convolution as matrix products over some kernel positions each."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        w: Any,
        b: Any = None,
        auto_pad: Any = None,
        dilations: Any = None,
        group: Any = None,
        kernel_shape: Any = None,
        pads: Any = None,
        strides: Any = None,
    ) -> tuple[Any]:
        groups = group or 1
        window = _Window(x.shape[2:], w.shape[2:], strides, dilations, pads, auto_pad, False)
        padded = window.pad(x, 0)
        # kernel positions in front of channels, as the columns have them
        positions = math.prod(w.shape[2:])
        kernels = np.moveaxis(w.reshape(groups, w.shape[0] // groups, w.shape[1], positions), 3, 2)
        y = np.zeros((x.shape[0], groups, kernels.shape[1], math.prod(window.output)), x.dtype)
        parts = window.parts(padded)
        at_once = max(1, _COLUMNS // max(1, x.shape[0] * x.shape[1] * y.shape[3]))
        for start in range(0, kernels.shape[2], at_once):
            columns = [
                part.reshape(x.shape[0], groups, w.shape[1], y.shape[3])
                for part in itertools.islice(parts, at_once)
            ]
            weights = kernels[:, :, start : start + at_once].reshape(groups, kernels.shape[1], -1)
            y += np.matmul(weights, np.concatenate(columns, axis=2))
        y = y.reshape(x.shape[0], w.shape[0], *window.output)
        if b is not None:
            y += b.reshape(-1, *[1] * len(window.output))
        return (y,)


class ConvTranspose(OpRun):
    """Transposed convolution, one kernel position after the other; the package's own refuses many forms."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        w: Any,
        b: Any = None,
        auto_pad: Any = None,
        dilations: Any = None,
        group: Any = None,
        kernel_shape: Any = None,
        output_padding: Any = None,
        output_shape: Any = None,
        pads: Any = None,
        strides: Any = None,
    ) -> tuple[Any]:
        groups, image, kernel = group or 1, x.shape[2:], w.shape[2:]
        ones = [1] * len(image)
        strides, dilations, more = strides or ones, dilations or ones, output_padding or [0] * len(image)
        sizes = [
            (n - 1) * s + p + (k - 1) * d + 1
            for n, s, p, k, d in zip(image, strides, more, kernel, dilations, strict=True)
        ]
        wanted = list(output_shape or [])[-len(image) :]
        if not wanted and auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            wanted = [min(n * s, size) for n, s, size in zip(image, strides, sizes, strict=True)]
        if wanted:
            missing = [max(size - want, 0) for size, want in zip(sizes, wanted, strict=True)]
            before = [m // 2 if auto_pad == "SAME_UPPER" else m - m // 2 for m in missing]
        else:
            given = (None if auto_pad == "VALID" else pads) or [0] * 2 * len(image)
            before = given[: len(image)]
            wanted = [n - a - z for n, a, z in zip(sizes, before, given[len(image) :], strict=True)]
        room = [max(n, a + want) for n, a, want in zip(sizes, before, wanted, strict=True)]
        full: Any = np.zeros((x.shape[0], groups, w.shape[1], *room), x.dtype)
        columns = x.reshape(x.shape[0], groups, w.shape[0] // groups, math.prod(image))
        weights = w.reshape(groups, w.shape[0] // groups, *w.shape[1:])
        for position in itertools.product(*(range(k) for k in kernel)):
            slices = [
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(position, dilations, image, strides, strict=True)
            ]
            weight = np.swapaxes(weights[(slice(None), slice(None), slice(None), *position)], 1, 2)
            full[(..., *slices)] += np.matmul(weight, columns).reshape(*full.shape[:3], *image)
        kept = [slice(a, a + want) for a, want in zip(before, wanted, strict=True)]
        y = full.reshape(x.shape[0], groups * w.shape[1], *room)[(..., *kept)]
        return (y if b is None else y + b.reshape(-1, *ones),)


class MaxPool(OpRun):
    """Maximum and its place, one kernel position after the other."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        auto_pad: Any = None,
        ceil_mode: Any = None,
        dilations: Any = None,
        kernel_shape: Any = None,
        pads: Any = None,
        storage_order: Any = None,
        strides: Any = None,
    ) -> tuple[Any, ...]:
        window = _Window(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
        lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
        order = "F" if storage_order else "C"
        within = np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:], order=order)  # type: ignore[call-overload]
        places = within + math.prod(x.shape[2:]) * np.arange(math.prod(x.shape[:2])).reshape(
            *x.shape[:2], *[1] * len(window.output)
        )
        y = np.full((*x.shape[:2], *window.output), lowest, x.dtype)
        indices = np.zeros(y.shape, np.int64)
        for part, place in zip(
            window.parts(window.pad(x, lowest)), window.parts(window.pad(places, 0)), strict=True
        ):
            larger = part > y
            y = np.where(larger, part, y)
            indices = np.where(larger, place, indices)
        return (y, indices) if self.n_outputs > 1 else (y,)

    @property
    def n_outputs(self) -> int:
        """How many outputs the node has."""
        return sum(bool(name) for name in self.onnx_node.output)


class AveragePool(OpRun):
    """Mean over windows, one kernel position after the other."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        auto_pad: Any = None,
        ceil_mode: Any = None,
        count_include_pad: Any = None,
        dilations: Any = None,
        kernel_shape: Any = None,
        pads: Any = None,
        strides: Any = None,
    ) -> tuple[Any]:
        window = _Window(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
        ones = np.ones((1, 1, *x.shape[2:]), x.dtype)
        counted = window.pad(ones, 0, 1 if count_include_pad else 0)
        total = sum(window.parts(window.pad(x, 0)))
        return ((total / sum(window.parts(counted))).astype(x.dtype),)


class LpPool(OpRun):
    """Norm over windows; the package's own counts windows differently when rounding up."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        auto_pad: Any = None,
        ceil_mode: Any = None,
        dilations: Any = None,
        kernel_shape: Any = None,
        p: Any = None,
        pads: Any = None,
        strides: Any = None,
    ) -> tuple[Any]:
        window = _Window(x.shape[2:], kernel_shape, strides, dilations, pads, auto_pad, bool(ceil_mode))
        total = sum(window.parts(window.pad(np.abs(x) ** p, 0)))
        return ((total ** (1 / p)).astype(x.dtype),)


class GlobalLpPool(OpRun):
    """Norm over all spatial axes; the package has none."""

    op_domain = ""

    def _run(self, x: Any, p: Any = None) -> tuple[Any]:
        total = (np.abs(x) ** p).sum(axis=tuple(range(2, x.ndim)), keepdims=True)
        return ((total ** (1 / p)).astype(x.dtype),)


class GlobalAveragePool(OpRun):
    """Mean over all spatial axes; the package's own refuses an empty batch."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),)


class GlobalMaxPool(OpRun):
    """Maximum over all spatial axes; the package's own knows two of them only."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class _Window:
    """Where a window of some shape stands on an image: sizes and slices of Conv and the poolings.

    Attributes:
        output: The number of positions along each axis.
    """

    def __init__(
        self,
        image: Sequence[int],
        kernel: Sequence[int],
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        pads: Sequence[int] | None,
        auto_pad: str | None,
        ceil_mode: bool,
    ) -> None:
        rank = len(image)
        self._kernel = tuple(kernel)
        self._strides = tuple(strides or [1] * rank)
        self._dilations = tuple(dilations or [1] * rank)
        extents = [(k - 1) * d + 1 for k, d in zip(self._kernel, self._dilations, strict=True)]
        given = list(pads or [0] * 2 * rank)
        self._pads = list(zip(given[:rank], given[rank:], strict=True))
        if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
            for axis, (size, extent, stride) in enumerate(zip(image, extents, self._strides, strict=True)):
                missing = max((math.ceil(size / stride) - 1) * stride + extent - size, 0)
                small, large = missing // 2, missing - missing // 2
                self._pads[axis] = (small, large) if auto_pad == "SAME_UPPER" else (large, small)
        elif auto_pad == "VALID":
            self._pads = [(0, 0)] * rank
        sizes = []
        for size, extent, stride, (before, after) in zip(
            image, extents, self._strides, self._pads, strict=True
        ):
            room = size + before + after - extent
            count = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
            if ceil_mode and (count - 1) * stride >= size + before:
                count -= 1  # a window that starts in the padding behind is left out
            sizes.append(count)
        self.output = tuple(sizes)
        # rounding up may need more room behind than the padding gives
        self._behind = [
            max(0, (count - 1) * stride + extent - size - before - after)
            for count, stride, extent, size, (before, after) in zip(
                sizes, self._strides, extents, image, self._pads, strict=True
            )
        ]

    def pad(self, x: Any, fill: Any, fill_pads: Any = None) -> Any:
        """``x`` padded with ``fill_pads`` (else ``fill``); what rounding up needs beyond, with ``fill``."""
        within = fill if fill_pads is None else fill_pads
        inner = np.pad(x, [(0, 0), (0, 0), *self._pads], constant_values=within)
        return np.pad(inner, [(0, 0), (0, 0), *((0, n) for n in self._behind)], constant_values=fill)

    def parts(self, padded: Any) -> Iterator[Any]:
        """For each kernel position, in row-major order, the elements under it at all window positions."""
        for position in itertools.product(*(range(k) for k in self._kernel)):
            slices = [
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, n, s in zip(position, self._dilations, self.output, self._strides, strict=True)
            ]
            yield padded[(slice(None), slice(None), *slices)]


class Optional(OpRun):
    """An optional as its content; the package's own is a list of one, which OptionalGetElement gives out."""

    op_domain = ""

    def _run(self, x: Any = None, type: Any = None) -> tuple[Any]:  # named as the attribute
        return (x,)


OPERATORS: tuple[type[OpRun], ...] = (
    AveragePool, Conv, ConvTranspose, Erf, Gelu, GlobalAveragePool, GlobalLpPool, GlobalMaxPool, LRN,
    LogSoftmax, LpPool, MaxPool, Optional,
)  # fmt: skip
"""What replaces the package's own."""
