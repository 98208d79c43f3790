"""Gradient rule of DeformConv."""

from __future__ import annotations

import functools

import numpy as np
import onnx_ir as ir

from netgrad.onnx.builder import Value
from netgrad.onnx.half import working_type
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.placing import count_up, joined, length, product
from netgrad.onnx.rules.precision import widened
from netgrad.onnx.rules.sampling import LINEAR, Pixels, Taps, axis_taps, image_taps, times, zero_outside


@rule(
    "DeformConv",
    attributes=("dilations", "group", "kernel_shape", "offset_group", "pads", "strides"),
)
def deform_conv(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y = W C + B with the columns C = M S of samples S of X at p = o stride - pad + k dilation + offset.

    X is (N, C, H, W), W (oC, C / group, kH, kW), the offset (N, offset_group kH kW 2, oH, oW) and the mask M
    (N, offset_group kH kW, oH, oW). With dC = W^T dY and dS = M dC: dW = dY C^T, dM = S dC summed over the
    channels of a group, dX = the weights of the taps times dS added at the taps, doffset = their slopes times
    dS X. S is computed anew, as no operator gives it.

    Kink: at whole positions the derivative by the offset is that to the right and to below.

    Source: https://onnx.ai/onnx/operators/onnx__DeformConv.html.
    """
    if op.rank(op.input) != 4:
        raise op.refuse("its input has not two spatial axes", "no runtime has a kernel for it")
    b, parts = op.builder, _Parts(op, working_type(op.floating(dy)))
    seeds = b.op("Reshape", widened(b, dy), parts.grouped_outputs, allowzero=1)
    grads: list[Value | None] = [None] * len(op.inputs)
    dcolumns = parts.per_sample(b.transpose(parts.weights(), [0, 2, 1]) @ seeds)
    mask = op.optional(4)
    factor = None if mask is None else b.unsqueeze(parts.per_position(b.cast(mask, parts.dtype)), [2])
    dsamples = dcolumns if factor is None else dcolumns * factor
    taps, places = parts.taps()
    if op.wants(0):
        updates = b.unsqueeze(taps.weights, [3]) * b.unsqueeze(dsamples, [2])
        grads[0] = parts.pixels.collected(b, updates, places)
    if op.wants(1) or op.wants(2) or op.wants(4):
        read = b.op("Gather", b.cast(parts.pixels.rows(b), parts.dtype), places, axis=0)
        samples = b.squeeze(b.unsqueeze(taps.weights, [2]) @ read, [2])
        if op.wants(1):
            columns = parts.per_channel(samples if factor is None else samples * factor)
            products = b.reduce_sum(seeds @ b.transpose(columns, [0, 1, 3, 2]), [0])
            grads[1] = b.reshape_like(products, op.required(1))
        if op.wants(2):
            grads[2] = _by_offset(op, parts, taps, read, dsamples)
        if mask is not None and op.wants(4):
            grads[4] = b.reshape_like(b.reduce_sum(samples * dcolumns, [2]), mask)
    if op.optional(3) is not None and op.wants(3):
        grads[3] = b.reduce_sum(widened(b, dy), [0, 2, 3])
    return grads


class _Parts:
    """The tensors of one DeformConv by images, groups and positions; sizes are 1-D int64 tensors.

    Attributes:
        dtype: Element type to compute in.
        pixels: X, with its offset groups as images of their own.
        kernel: kH and kW.
        windows: oH and oW.
        outputs: oH oW.
        positions: kH kW oH oW.
        grouped_outputs: The shape (N, groups, oC / groups, oH oW).
    """

    def __init__(self, op: RuleContext, dtype: ir.DataType) -> None:
        b, w, offset = op.builder, op.required(1), op.required(2)
        given, self._groups = op.attribute("kernel_shape"), b.ints([op.attribute("group")])
        self._op, self.dtype = op, dtype
        self._offset_groups = int(op.attribute("offset_group"))
        b.assume_shape(op.input, (None,) * 4)
        self.pixels = Pixels(op.input, self._offset_groups)
        self.kernel = [b.ints([given[axis]]) if given else length(b, w, 2 + axis) for axis in range(2)]
        self.windows = [length(b, offset, 2 + axis) for axis in range(2)]
        self.outputs = product(b, offset, 2, 4)
        self.positions = times(b, times(b, *self.kernel), self.outputs)
        images, made = length(b, op.input, 0), length(b, w, 0)
        share = (
            made / self._groups
            if made.constant is None
            else b.constant(made.constant // self._groups.constant)
        )
        self._inner = times(b, length(b, w, 1), times(b, *self.kernel))  # C / group kH kW
        self._share = share
        self._images = images
        self.grouped_outputs = joined(b, [images, self._groups, share, self.outputs])

    def weights(self) -> Value:
        """W as (groups, oC / groups, C / groups kH kW)."""
        b = self._op.builder
        shape = joined(b, [self._groups, self._share, self._inner])
        return b.op("Reshape", b.cast(self._op.required(1), self.dtype), shape, allowzero=1)

    def per_position(self, tensor: Value) -> Value:
        """(N, offset groups kH kW, oH, oW) as (N offset groups, kH kW oH oW)."""
        b = self._op.builder
        return b.op("Reshape", tensor, joined(b, [self.pixels.batch(b), self.positions]), allowzero=1)

    def per_sample(self, columns: Value) -> Value:
        """(N, groups, C / groups kH kW, oH oW) as (N offset groups, kH kW oH oW, C / offset groups)."""
        b = self._op.builder
        shape = joined(b, [self.pixels.batch(b), self.pixels.channels(b), self.positions])
        return b.transpose(b.op("Reshape", columns, shape, allowzero=1), [0, 2, 1])

    def per_channel(self, samples: Value) -> Value:
        """The inverse of `per_sample`."""
        b = self._op.builder
        shape = joined(b, [self._images, self._groups, self._inner, self.outputs])
        return b.op("Reshape", b.transpose(samples, [0, 2, 1]), shape, allowzero=1)

    def taps(self) -> tuple[Taps, Value]:
        """The taps of all positions, and their rows in the matrix of pixels."""
        op, b, pixels = self._op, self._op.builder, self.pixels
        sizes = pixels.sizes(b)
        offset = b.cast(op.required(2), self.dtype)
        shape = joined(b, [pixels.batch(b), *self.kernel, b.ints([2]), *self.windows])
        apart = b.op("Reshape", offset, shape, allowzero=1)
        axes = []
        for axis in range(2):
            position = b.squeeze(b.slice(apart, 3, axis, axis + 1), [3]) + self._centres(axis)
            flat = self.per_position(position)
            place = functools.partial(zero_outside, b, size=sizes[axis])
            axes.append(axis_taps(b, flat, LINEAR, place))
        taps = image_taps(b, axes, sizes, LINEAR, 2)
        image = b.reshape(count_up(b, pixels.batch(b)), [-1, 1, 1])
        return taps, taps.places + image * pixels.area(b)

    def _centres(self, axis: int) -> Value:
        """Positions along ``axis`` without the offset: (kH, 1, oH, 1) or (kW, 1, oW)."""
        op, b = self._op, self._op.builder
        stride = (op.attribute("strides") or [1, 1])[axis]
        dilation = (op.attribute("dilations") or [1, 1])[axis]
        pad = (op.attribute("pads") or [0] * 4)[axis]
        kernel, outputs = self.kernel[axis], self.windows[axis]
        behind = [1] * (1 - axis)
        if kernel.constant is not None and outputs.constant is not None:
            elements = np.arange(kernel.constant[0]).reshape(-1, 1, 1, *behind) * dilation
            windows = np.arange(outputs.constant[0]).reshape(-1, *behind) * stride - pad
            return b.constant((elements + windows).reshape(len(elements), 1, -1, *behind), self.dtype)
        within = b.reshape(count_up(b, kernel) * b.ints([dilation]), [-1, 1, 1, *behind])
        first = b.reshape(count_up(b, outputs) * b.ints([stride]) - b.ints([pad]), [-1, *behind])
        return b.cast(within + first, self.dtype)


def _by_offset(op: RuleContext, parts: _Parts, taps: Taps, read: Value, dsamples: Value) -> Value:
    """The gradient of the offset: for each position the derivatives along both axes."""
    b = op.builder
    dweights = b.squeeze(read @ b.unsqueeze(dsamples, [3]), [3])
    elements = times(b, *parts.kernel)
    shape = joined(b, [parts.pixels.batch(b), elements, b.ints([1]), parts.outputs])
    along = [
        b.op("Reshape", b.reduce_sum(dweights * slopes, [2]), shape, allowzero=1) for slopes in taps.slopes
    ]
    return b.reshape_like(b.concat(along, axis=2), op.required(2))
