"""Makers of matrix products, convolutions and pools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.onnx.random_graphs.makers import maker
from tests.onnx.random_graphs.writer import Drawn, Writer


@maker(weight=2.5)
def matmul(g: Writer) -> None:
    a = g.ranked(1, 2, 3, 4)
    k = a.shape[-1]
    b = g.pick(lambda v: v.rank >= 1 and v.shape[max(v.rank - 2, 0)] == k and _batches(a, v))
    if b is None or g.chance(0.4):
        columns = g.number(1, 5)
        b = g.choose(g.weight(k), g.weight(k, columns), g.weight(*a.shape[:-2], k, columns))
    shape = np.matmul(np.zeros(a.shape), np.zeros(b.shape)).shape
    g.keep(g.emit("MatMul", a, b), shape, k * a.bound * b.bound)


def _batches(a: Drawn, b: Drawn) -> bool:
    try:
        np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        return False
    return a.size * b.size < 4000


@maker(weight=1.5)
def gemm(g: Writer) -> None:
    a = g.ranked(2)
    trans_a, trans_b = g.number(0, 1), g.number(0, 1)
    m, k = a.shape[::-1] if trans_a else a.shape
    n = g.number(1, 5)
    b = g.pick(lambda v: v.rank == 2 and v.shape[trans_b] == k)
    if b is None or g.chance(0.5):
        b = g.weight(*((n, k) if trans_b else (k, n)))
    n = b.shape[1 - trans_b]
    operands: list[Drawn] = [a, b]
    alpha, beta = g.choose(1.0, 0.5, -1.5), g.choose(1.0, 0.7)
    bound = abs(alpha) * k * a.bound * b.bound
    if g.chance(0.7):
        c = g.pick(lambda v: v.shape in ((m, n), (n,), (1, n), (m, 1), ()))
        if c is None or g.chance(0.5):
            c = g.weight(*g.choose((n,), (m, n), (m, 1), (1,), ()))
        operands.append(c)
        bound += abs(beta) * c.bound
    y = g.emit("Gemm", *operands, alpha=alpha, beta=beta, transA=trans_a, transB=trans_b)
    g.keep(y, (m, n), bound)


@maker(weight=1.5)
def einsum(g: Writer) -> None:
    """An equation of one or two operands over the shape of a value, with any letters kept."""
    a = g.ranked(1, 2, 3)
    letters = "abc"[: a.rank]
    kept = [letter for letter in letters if g.chance(0.5)]
    sizes = dict(zip(letters, a.shape, strict=True))
    if g.chance(0.3):
        g.rng.shuffle(kept)
        y = g.emit("Einsum", a, equation=f"{letters}->{''.join(kept)}")
        g.keep(y, [sizes[letter] for letter in kept], a.size * a.bound)
        return
    mine = [letter for letter in letters if g.chance(0.6)]
    sizes["d"] = g.number(1, 4)
    mine += ["d"] if g.chance(0.6) else []
    g.rng.shuffle(mine)
    shape = tuple(sizes[letter] for letter in mine)
    b = g.pick(lambda v: v.shape == shape)
    b = g.weight(*shape) if b is None else b
    kept += ["d"] if "d" in mine and g.chance(0.7) else []
    g.rng.shuffle(kept)
    y = g.emit("Einsum", a, b, equation=f"{letters},{''.join(mine)}->{''.join(kept)}")
    summed = a.size * sizes["d"]
    g.keep(y, [sizes[letter] for letter in kept], summed * a.bound * b.bound)


@maker(weight=1.0)
def attention(g: Writer) -> None:
    """Scaled dot products of one value with itself, as exporters write it."""
    x = g.ranked(2, 3)
    k = x.shape[-1]
    q, v = (g.emit("MatMul", x, g.weight(k, 4)) for _ in range(2))
    perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    scores = g.emit("MatMul", q, g.emit("Transpose", q, perm=perm))
    scores = g.emit("Mul", scores, g.real(0.2))
    y = g.emit("MatMul", g.emit("Softmax", scores, axis=-1), v)
    g.keep(y, (*x.shape[:-1], 4), k * x.bound)


# ---- windows -----------------------------------------------------------------------------------------


def _image(g: Writer) -> Drawn:
    """A value of rank 3 or 4 with windows to slide over; made if there is none."""
    found = g.pick(lambda v: v.rank in (3, 4) and min(v.shape[2:]) >= 3 and v.shape[1] <= 6)
    if found is not None:
        return found
    shape = (2, 2, 6) if g.chance(0.3) else (1, 3, 5, 4) if g.chance(0.5) else (2, 2, 4, 5)
    w, x = g.weight(*shape), g.any()
    mean = g.emit("ReduceMean", x, keepdims=0)
    return Drawn(g.emit("Add", w, mean), shape, w.bound + x.bound)


def _windows(g: Writer, x: Drawn, kernel: list[int]) -> tuple[dict[str, Any], list[int]]:
    """Strides, dilations and pads that fit, and the sizes of the output."""
    spatial = x.shape[2:]
    strides = [g.number(1, 2) for _ in spatial]
    dilations = [g.choose(1, 1, 2) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, spatial, strict=True)]
    pads = [g.number(0, k - 1) if g.chance(0.5) else 0 for k in kernel * 2]
    sizes = []
    for axis, n in enumerate(spatial):
        whole = n + pads[axis] + pads[axis + len(kernel)]
        sizes.append((whole - (kernel[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": strides, "pads": pads}
    if any(d != 1 for d in dilations):
        attributes["dilations"] = dilations
    return attributes, sizes


def _kernel(g: Writer, x: Drawn) -> list[int]:
    return [g.number(1, min(3, n)) for n in x.shape[2:]]


@maker(double=False, weight=1.5, body=False)
def conv(g: Writer) -> None:
    x = _image(g)
    channels = x.shape[1]
    groups = g.choose(*(n for n in range(1, channels + 1) if channels % n == 0))
    outputs = groups * g.number(1, 2)
    kernel = _kernel(g, x)
    attributes, sizes = _windows(g, x, kernel)
    w = g.weight(outputs, channels // groups, *kernel)
    operands = [x, w, *([g.weight(outputs)] if g.chance(0.6) else [])]
    y = g.emit("Conv", *operands, group=groups, **attributes)
    bound = (w.size // outputs) * x.bound * w.bound + 1
    g.keep(y, (x.shape[0], outputs, *sizes), bound)


@maker(double=False, weight=0.8, body=False)
def conv_transpose(g: Writer) -> None:
    x = _image(g)
    channels = x.shape[1]
    groups = g.choose(*(n for n in range(1, channels + 1) if channels % n == 0))
    each, kernel = g.number(1, 2), [g.number(1, 3) for _ in x.shape[2:]]
    strides = [g.number(1, 2) for _ in kernel]
    w = g.weight(channels, each, *kernel)
    operands = [x, w, *([g.weight(each * groups)] if g.chance(0.6) else [])]
    y = g.emit("ConvTranspose", *operands, group=groups, strides=strides, kernel_shape=kernel)
    sizes = [(n - 1) * s + k for n, s, k in zip(x.shape[2:], strides, kernel, strict=True)]
    bound = channels * math.prod(kernel) * x.bound * w.bound + 1
    g.keep(y, (x.shape[0], each * groups, *sizes), bound)


@maker(double=False, weight=1.0, body=False)
def max_pool(g: Writer) -> None:
    x = _image(g)
    attributes, sizes = _windows(g, x, _kernel(g, x))
    g.keep(g.emit("MaxPool", x, **attributes), (*x.shape[:2], *sizes), x.bound)


@maker(double=False, weight=1.0, body=False)
def average_pool(g: Writer) -> None:
    x = _image(g)
    attributes, sizes = _windows(g, x, _kernel(g, x))
    if g.opset < 19:
        attributes.pop("dilations", None)
        kernel, pads = attributes["kernel_shape"], attributes["pads"]
        sizes = [
            (n + pads[k] + pads[k + len(kernel)] - kernel[k]) // attributes["strides"][k] + 1
            for k, n in enumerate(x.shape[2:])
        ]
    y = g.emit("AveragePool", x, count_include_pad=g.number(0, 1), **attributes)
    g.keep(y, (*x.shape[:2], *sizes), x.bound)


@maker(double=False, weight=0.5, body=False)
def global_average_pool(g: Writer) -> None:
    x = _image(g)
    g.keep(g.emit("GlobalAveragePool", x), (*x.shape[:2], *([1] * (x.rank - 2))), x.bound)


@maker(double=False, weight=0.4, body=False)
def global_max_pool(g: Writer) -> None:
    x = _image(g)
    g.keep(g.emit("GlobalMaxPool", x), (*x.shape[:2], *([1] * (x.rank - 2))), x.bound)


@maker(double=False, weight=0.5, body=False)
def local_response(g: Writer) -> None:
    x = _image(g)
    if x.rank != 4:  # ONNX Runtime takes no other
        return
    y = g.emit("LRN", x, size=g.choose(1, 3), alpha=g.choose(1e-4, 0.3), beta=0.75, bias=1.0)
    g.keep(y, x.shape, x.bound)
