"""Where the windows of convolutions and pools lie: strides, dilations and the several ways to give pads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.view import Dim


@dataclass(frozen=True)
class Windows:
    """Windows over the spatial axes of a tensor (N, C, D1, ..).

    Window ``o`` along an axis reads the positions ``o stride + k dilation - head`` for ``k`` below the kernel
    size; positions outside the tensor read the padding.

    Attributes:
        kernel: Kernel size per spatial axis; a symbol or None where it is known at run time only.
        strides: Distance of neighbouring windows.
        dilations: Distance of neighbouring elements of a window.
        head: Padding before each axis.
        tail: Padding after each axis.
        surplus: Elements at the end of each padded axis that no window reaches, None where unknown; left out
            where these are all that follow the last window that fits.
    """

    kernel: tuple[Dim, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    head: tuple[int, ...]
    tail: tuple[int, ...]
    surplus: tuple[int | None, ...] | None = None

    @property
    def rank(self) -> int:
        """Number of spatial axes."""
        return len(self.strides)

    @property
    def axes(self) -> list[int]:
        """The spatial axes of the tensor."""
        return list(range(2, 2 + self.rank))

    @property
    def static_kernel(self) -> tuple[int, ...] | None:
        """The kernel size where it is known along every axis."""
        known = tuple(size for size in self.kernel if isinstance(size, int))
        return known if len(known) == self.rank else None

    def extent(self, axis: int) -> int | None:
        """From the first to the last element of a window, both included."""
        size = self.kernel[axis]
        return (size - 1) * self.dilations[axis] + 1 if isinstance(size, int) else None

    def uncovered(self, axis: int, size: Dim) -> int | None:
        """How many elements at the end of a padded axis of ``size`` no window reaches; None where unknown."""
        if self.surplus is not None:
            return self.surplus[axis]
        if self.strides[axis] == 1:
            return 0
        extent = self.extent(axis)
        if extent is None or not isinstance(size, int):
            return None
        return (size + self.head[axis] + self.tail[axis] - extent) % self.strides[axis]

    @property
    def are_all_that_fit(self) -> bool:
        """Whether it is known that no window more would fit after the last one."""
        surplus = self.surplus or (0,) * self.rank
        return all(count is not None and count < s for count, s in zip(surplus, self.strides, strict=True))

    @property
    def read_single_elements(self) -> bool:
        """Whether every window is one element and nothing is padded."""
        return self.kernel == (1,) * self.rank and not any(self.head) and not any(self.tail)


@dataclass(frozen=True)
class RunTimePads:
    """Pads that depend on sizes known at run time only.

    Attributes:
        head: Before each spatial axis, int64 of shape (spatial axes,).
        tail: After each spatial axis, the same.
        size: Sizes of the spatial axes, the same.
    """

    head: Value
    tail: Value
    size: Value

    def pad(self, build: Builder, x: Value) -> Value:
        """``x`` with zeros around its spatial axes."""
        none = build.ints([0, 0])
        return build.op("Pad", x, build.concat([none, self.head, none, self.tail], axis=0))

    def crop(self, build: Builder, padded: Value, like: Value) -> Value:
        """The part of ``padded`` that lies over ``like``, the tensor before padding."""
        axes = build.ints(range(2, 2 + int(np.asarray(self.size.static_shape)[0])))
        return build.assume_like(build.op("Slice", padded, self.head, self.head + self.size, axes), like)


def windows_of(
    op: RuleContext, x: Value, kernel: Sequence[Dim], w: Value | None = None
) -> tuple[Windows, RunTimePads | None]:
    """The windows of a Conv, AveragePool or the like over ``x``.

    Args:
        op: Has the attributes strides, dilations, pads and auto_pad, as far as its type has them.
        x: What the windows lie over, (N, C, D1, ..).
        kernel: Kernel size per spatial axis.
        w: The weight, where there is one: its spatial sizes at run time are those of the kernel.

    Returns:
        The windows, and the pads where they depend on run-time sizes; the windows have none then, and are
        those over the padded tensor.
    """
    rank = len(kernel)
    strides = tuple(op.attribute("strides") or [1] * rank)
    dilations = tuple(op.attribute("dilations") or [1] * rank)
    mode = auto_pad(op)
    zeros = (0,) * rank
    unpadded = Windows(tuple(kernel), strides, dilations, zeros, zeros)
    if mode == "VALID":
        return unpadded, None
    if mode == "NOTSET":
        pads = op.attribute("pads") or [0] * (2 * rank)
        if min(pads, default=0) < 0:
            raise op.refuse("its pads are negative", "crop with Slice instead")
        return Windows(unpadded.kernel, strides, dilations, tuple(pads[:rank]), tuple(pads[rank:])), None

    totals = [_same_total(unpadded, axis, x.dim(2 + axis)) for axis in range(rank)]
    upper = mode == "SAME_UPPER"
    known = [total for total in totals if total is not None]
    if len(known) == rank:
        small, large = tuple(t // 2 for t in known), tuple(t - t // 2 for t in known)
        head, tail = (small, large) if upper else (large, small)
        return Windows(unpadded.kernel, strides, dilations, head, tail), None
    return unpadded, _same_at_run_time(op.builder, x, unpadded, w, upper=upper)


def auto_pad(op: RuleContext) -> str:
    """The attribute auto_pad: NOTSET, VALID, SAME_UPPER or SAME_LOWER."""
    mode = str(op.attribute("auto_pad", "NOTSET"))
    if mode not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise op.refuse(f"its auto_pad is {mode!r}")
    return mode


def _same_total(windows: Windows, axis: int, size: Dim) -> int | None:
    """Padding along an axis that makes ceil(size / stride) windows; None where unknown."""
    extent, stride = windows.extent(axis), windows.strides[axis]
    if extent is None:
        return None
    if stride == 1:
        return extent - 1
    if not isinstance(size, int):
        return None
    return max((-(-size // stride) - 1) * stride + extent - size, 0)


def _same_at_run_time(
    build: Builder, x: Value, windows: Windows, w: Value | None, *, upper: bool
) -> RunTimePads:
    size = build.assume_shape(build.op("Shape", x, start=2), (windows.rank,))
    stride, one = build.ints(windows.strides), build.ints([1])
    last = (size + (stride - one)) / stride - one
    total = last * stride + run_time_extents(build, windows, w) - size
    return halved(build, total, size, upper=upper)


def run_time_extents(build: Builder, windows: Windows, w: Value | None) -> Value:
    """The extents of the windows, int64 of shape (spatial axes,); those of ``w`` if they are unknown."""
    kernel = windows.static_kernel
    if kernel is not None:
        return build.ints([(k - 1) * d + 1 for k, d in zip(kernel, windows.dilations, strict=True)])
    assert w is not None, "a kernel without weight has static sizes"
    one = build.ints([1])
    return (build.op("Shape", w, start=2) - one) * build.ints(windows.dilations) + one


def halved(build: Builder, total: Value, size: Value, *, upper: bool) -> RunTimePads:
    """Total padding per axis, none where negative, on both sides; an odd one goes to the end if ``upper``."""
    total = build.op("Max", total, build.ints([0]))
    small = total / build.ints([2])
    large = total - small
    return RunTimePads(small, large, size) if upper else RunTimePads(large, small, size)
