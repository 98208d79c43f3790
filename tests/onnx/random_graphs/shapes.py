"""Makers of operators that move elements about: reshaping, joining, cutting, repeating."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.onnx.random_graphs.makers import maker, register
from tests.onnx.random_graphs.writer import MOST_ELEMENTS, Drawn, Writer


@maker()
def reshape(g: Writer) -> None:
    x = g.any()
    shape = g.factors(x.size, g.number(1, 4))
    given = list(shape)
    if g.chance(0.4):
        given[g.number(0, len(given) - 1)] = -1
    for axis in range(min(len(given), x.rank)):
        if given[axis] == x.shape[axis] and g.chance(0.2):
            given[axis] = 0
    g.keep(g.emit("Reshape", x, g.ints(*given)), shape, x.bound)


@maker()
def reshape_at_run_time(g: Writer) -> None:
    """The shape is computed from that of another value."""
    x = g.ranked(2, 3, 4)
    shape = g.emit("Shape", x)
    first = g.emit("Gather", shape, g.ints(0), axis=0)
    g.keep(
        g.emit("Reshape", x, g.emit("Concat", first, g.ints(-1), axis=0)),
        (x.shape[0], x.size // x.shape[0]),
        x.bound,
    )


@maker(weight=1.5)
def transpose(g: Writer) -> None:
    x = g.ranked(2, 3, 4)
    perm = [int(k) for k in g.rng.permutation(x.rank)]
    if g.chance(0.2):
        g.keep(g.emit("Transpose", x), x.shape[::-1], x.bound)
        return
    g.keep(g.emit("Transpose", x, perm=perm), [x.shape[k] for k in perm], x.bound)


@maker(weight=1.5)
def concat(g: Writer) -> None:
    x = g.ranked(1, 2, 3, 4)
    axis = g.axis(x)
    parts = [x]
    for _ in range(g.number(0, 3)):
        rest = x.shape[:axis], x.shape[axis + 1 :]
        part = g.pick(lambda v, r=rest: v.rank == x.rank and (v.shape[:axis], v.shape[axis + 1 :]) == r)
        if part is None or g.chance(0.3):
            part = g.weight(*x.shape[:axis], g.number(1, 3), *x.shape[axis + 1 :])
        parts.append(part)
    shape = list(x.shape)
    shape[axis] = sum(part.shape[axis] for part in parts)
    y = g.emit("Concat", *parts, axis=g.signed(axis, x.rank))
    g.keep(y, shape, max(part.bound for part in parts))


@maker()
def split(g: Writer) -> None:
    x = g.pick(lambda v: v.rank >= 1 and max(v.shape) >= 2)
    if x is None:
        return
    axis = g.choose(*(k for k, dim in enumerate(x.shape) if dim >= 2))
    size = x.shape[axis]
    if g.opset >= 18 and g.chance(0.3):
        pieces = g.number(2, min(size, 3))
        each = -(-size // pieces)
        sizes = [each] * (pieces - 1) + [size - each * (pieces - 1)]
        if sizes[-1] < 1:
            return
        names = g.emit_all("Split", x, outputs=pieces, axis=axis, num_outputs=pieces)
    else:
        cut = g.number(1, size - 1)
        sizes = [cut, size - cut]
        names = g.emit_all("Split", x, g.ints(*sizes), outputs=2, axis=g.signed(axis, x.rank))
    for name, part in zip(names, sizes, strict=True):
        if g.chance(0.85):  # an output that nothing reads has no gradient
            g.keep(name, (*x.shape[:axis], part, *x.shape[axis + 1 :]), x.bound)


@maker(weight=1.5)
def slice_(g: Writer) -> None:
    x = g.ranked(1, 2, 3, 4)
    count = g.number(1, min(x.rank, 2))
    axes = [int(k) for k in g.rng.choice(x.rank, count, replace=False)]
    starts, ends, steps, shape = [], [], [], list(x.shape)
    for axis in axes:
        size = x.shape[axis]
        step = g.choose(1, 1, 2, -1, -2)
        start = g.number(0, size - 1)
        end = g.choose(size, 1000) if step > 0 else g.choose(-size - 1, -1000)
        if step > 0 and start + 1 < size and g.chance(0.5):
            end = g.number(start + 1, size)
            end = end - size if end < size and g.chance(0.3) else end
        wrapped = end + size if step > 0 and end < 0 else end
        shape[axis] = len(range(size)[slice(start, wrapped if step > 0 else None, step)])
        starts.append(start)
        ends.append(end)
        steps.append(step)
    y = g.emit(
        "Slice",
        x,
        g.ints(*starts),
        g.ints(*ends),
        g.ints(*(g.signed(axis, x.rank) for axis in axes)),
        g.ints(*steps),
    )
    g.keep(y, shape, x.bound)


@maker()
def pad(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    modes = ["constant", "reflect", "edge", *(["wrap"] if g.opset >= 19 else [])]
    mode = g.choose(*modes)
    if mode == "reflect" and min(x.shape) < 2:
        mode = "edge"
    most = {"constant": 2, "edge": 2, "reflect": min(x.shape) - 1, "wrap": min(x.shape)}[mode]
    low = -1 if mode == "constant" and min(x.shape) > 2 else 0
    pads = [g.number(low, min(most, 2)) for _ in range(2 * x.rank)]
    shape = [n + pads[k] + pads[k + x.rank] for k, n in enumerate(x.shape)]
    if int(np.prod(shape)) > 2 * MOST_ELEMENTS:
        return
    operands: list[str | Drawn] = [x, g.ints(*pads)]
    bound = x.bound
    if mode == "constant" and g.chance(0.5):
        value = g.weight(scale=0.5)
        operands.append(value)
        bound = max(bound, value.bound)
    g.keep(g.emit("Pad", *operands, mode=mode), shape, bound)


@maker()
def expand(g: Writer) -> None:
    x = g.any()
    shape = [g.number(1, 3) if dim == 1 and g.chance(0.7) else dim for dim in x.shape]
    shape = ([g.number(1, 3)] if g.chance(0.4) and x.rank < 4 else []) + shape
    if int(np.prod(shape)) > MOST_ELEMENTS or not shape:
        return
    g.keep(g.emit("Expand", x, g.ints(*shape)), shape, x.bound)


@maker()
def expand_to_another(g: Writer) -> None:
    """The shape is that of another value, known only at run time."""
    y = g.ranked(1, 2, 3)
    x = g.pick(lambda v: v.rank <= y.rank and np.broadcast_shapes(v.shape, (1,) * y.rank) is not None)
    if x is None or any(m not in (1, n) for m, n in zip(reversed(x.shape), reversed(y.shape), strict=False)):
        return
    g.keep(g.emit("Expand", x, g.emit("Shape", y)), y.shape, x.bound)


@maker(weight=0.8)
def tile(g: Writer) -> None:
    x = g.ranked(1, 2, 3)
    repeats = [g.number(1, 2) for _ in x.shape]
    if x.size * np.prod(repeats) > MOST_ELEMENTS:
        return
    g.keep(
        g.emit("Tile", x, g.ints(*repeats)), [n * r for n, r in zip(x.shape, repeats, strict=True)], x.bound
    )


@maker()
def squeeze(g: Writer) -> None:
    x = g.pick(lambda v: 1 in v.shape)
    if x is None:
        return
    ones = [axis for axis, dim in enumerate(x.shape) if dim == 1]
    axes = ones if g.chance(0.4) else [int(g.choose(*ones))]
    operands = [x] if axes == ones and g.chance(0.3) and g.shared.symbolic is False else None
    operands = operands or [x, g.ints(*(g.signed(axis, x.rank) for axis in axes))]
    g.keep(g.emit("Squeeze", *operands), [d for k, d in enumerate(x.shape) if k not in axes], x.bound)


@maker()
def unsqueeze(g: Writer) -> None:
    x = g.pick(lambda v: v.rank <= 3)
    if x is None:
        return
    rank = x.rank + g.number(1, 2)
    axes = sorted(int(k) for k in g.rng.choice(rank, rank - x.rank, replace=False))
    shape = list(x.shape)
    for axis in axes:
        shape.insert(axis, 1)
    g.keep(g.emit("Unsqueeze", x, g.ints(*(g.signed(axis, rank) for axis in axes))), shape, x.bound)


@maker(weight=0.7)
def flatten(g: Writer) -> None:
    x = g.ranked(1, 2, 3, 4)
    axis = g.number(0, x.rank)
    shape = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    g.keep(g.emit("Flatten", x, axis=axis), shape, x.bound)


@maker(since=14, weight=0.7)
def triangle(g: Writer) -> None:
    x = g.ranked(2, 3)
    operands: list[str | Drawn] = [x]
    if g.chance(0.5):
        operands.append(g.constant(np.asarray(g.number(-1, 2), np.int64)))
    g.keep(g.emit("Trilu", *operands, upper=g.number(0, 1)), x.shape, x.bound)


@maker(weight=0.5)
def space_to_depth(g: Writer) -> None:
    x = g.pick(lambda v: v.rank == 4 and v.shape[2] % 2 == v.shape[3] % 2 == 0)
    if x is None:
        w4 = g.weight(1, 2, 4, 2)
        x = Drawn(g.emit("Add", w4, g.emit("ReduceMean", g.any(), keepdims=0)), w4.shape, 5.0)
    n, c, h, w = x.shape
    g.keep(g.emit("SpaceToDepth", x, blocksize=2), (n, 4 * c, h // 2, w // 2), x.bound)


@maker(weight=0.5)
def depth_to_space(g: Writer) -> None:
    x = g.pick(lambda v: v.rank == 4 and v.shape[1] % 4 == 0)
    if x is None:
        w4 = g.weight(2, 4, 1, 3)
        x = Drawn(g.emit("Add", w4, g.emit("ReduceMean", g.any(), keepdims=0)), w4.shape, 5.0)
    n, c, h, w = x.shape
    y = g.emit("DepthToSpace", x, blocksize=2, mode=g.choose("DCR", "CRD"))
    g.keep(y, (n, c // 4, 2 * h, 2 * w), x.bound)


@maker(since=18, weight=0.5)
def center_crop_pad(g: Writer) -> None:
    x = g.ranked(2, 3)
    shape = [g.number(max(1, n - 1), n + 1) for n in x.shape]
    g.keep(g.emit("CenterCropPad", x, g.ints(*shape)), shape, x.bound)


@maker(weight=0.5)
def reverse_sequence(g: Writer) -> None:
    x = g.ranked(2, 3)
    time = g.number(0, 1)
    lengths = [g.number(1, x.shape[time]) for _ in range(x.shape[1 - time])]
    y = g.emit("ReverseSequence", x, g.ints(*lengths), batch_axis=1 - time, time_axis=time)
    g.keep(y, x.shape, x.bound)


def _filled(way: str, g: Writer) -> None:
    """A constant tensor of the shape of a value joins another: it has no gradient, the other has."""
    x = g.any()
    shape = g.emit("Shape", x)
    if way == "ones":
        from onnx import numpy_helper

        value = numpy_helper.from_array(g.array([0.5]))
        filled = g.emit("ConstantOfShape", shape, value=value)
    else:
        count = g.emit("Cast", g.emit("Size", x), to=g.element_type)
        filled = g.emit("Div", x, count)
    g.keep(g.emit("Add", x, filled), x.shape, 2 * x.bound + 0.5)


for _way in ("ones", "size"):
    register(f"filled_with_{_way}", partial(_filled, _way), weight=0.4)
