"""Rows for patches of images, locally connected layers, and rare operators on rows."""

from __future__ import annotations

import itertools

import numpy as np

from tests.caffe2.operator_cases import Array, Blobs, Case

_random = np.random.default_rng(41)


def normal(*shape: int) -> Array:
    return _random.normal(size=shape)


def distinct(*shape: int) -> Array:
    """Elements that differ by at least 0.1, for maxima."""
    return _random.permutation(int(np.prod(shape))).reshape(shape) * 0.1 + 0.05


def columns(x: Array, *, nhwc: bool = False) -> Array:
    """Kernel 3 x 2, stride 2, pad 1, dilation (1, 1), one patch after the other."""
    if nhwc:
        x = x.transpose(0, 3, 1, 2)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    high, wide = (padded.shape[2] - 3) // 2 + 1, (padded.shape[3] - 2) // 2 + 1
    found = np.zeros((len(x), x.shape[1], 3, 2, high, wide))
    for i, j in itertools.product(range(high), range(wide)):
        found[..., i, j] = padded[:, :, 2 * i : 2 * i + 3, 2 * j : 2 * j + 2]
    if nhwc:
        return found.transpose(0, 4, 5, 2, 3, 1).reshape(len(x), high, wide, -1)
    return found.reshape(len(x), -1, high, wide)


def image_of(g: Blobs) -> dict[str, Array]:
    """The transpose of `columns`, element by element."""
    like = np.zeros(g["like"].shape)
    found = np.zeros(like.shape)
    for index in np.ndindex(like.shape):
        one = like.copy()
        one[index] = 1
        found[index] = (columns(one) * g["x"]).sum()
    return {"y": found}


def local(g: Blobs, dims: int, groups: int = 1, *, nhwc: bool = False) -> dict[str, Array]:
    """Kernels of size 2 without padding or stride, place by place."""
    x, w = g["x"], g["w"]
    if nhwc:
        x, w = np.moveaxis(x, -1, 1), np.moveaxis(w, -1, dims + 1)
    places = [size - 1 for size in x.shape[2:]]
    found = np.zeros((len(x), w.shape[dims], *places))
    for place in np.ndindex(*places):
        seen = x[(slice(None), slice(None), *(slice(p, p + 2) for p in place))]
        for group, rows in enumerate(np.split(np.arange(w.shape[dims]), groups)):
            part = np.split(seen, groups, axis=1)[group].reshape(len(x), -1)
            kernels = w[place][rows].reshape(len(rows), -1)
            found[(slice(None), rows, *place)] = part @ kernels.T
        if "b" in g:
            found[(slice(None), slice(None), *place)] += g["b"][place]
    return {"y": np.moveaxis(found, 1, -1) if nhwc else found}


def largest(g: Blobs) -> dict[str, Array]:
    rows = g["x"].reshape(-1, g["x"].shape[-1])
    orders = [np.argsort(-row)[:count] for row, count in zip(rows, g["k"], strict=True)]
    values = [row[order] for row, order in zip(rows, orders, strict=True)]
    return {"y": np.concatenate(values), "i": np.concatenate(orders)}


_WINDOW = "kernel_h=3,kernel_w=2,stride=2,pad=1"

PATCHES = [
    Case(f"Im2Col(x)->(y) {{{_WINDOW}}}", {"x": normal(2, 2, 5, 4)}, lambda g: {"y": columns(g["x"])}),
    Case(
        f'Im2Col(x)->(y) {{{_WINDOW},order="NHWC"}}',
        {"x": normal(2, 5, 4, 2)},
        lambda g: {"y": columns(g["x"], nhwc=True)},
    ),
    Case(
        f"Col2Im(x,like)->(y) {{{_WINDOW}}}",
        {"x": normal(1, 12, 3, 3), "like": normal(1, 2, 5, 4)},
        image_of,
    ),
    *[
        Case(
            f"{type_}(x,w,b)->(y) {{{arguments}}}",
            {"x": x, "w": w, "b": b},
            lambda g, dims=dims, groups=groups: local(g, dims, groups),
            ("x", "w", "b"),
        )
        for type_, arguments, dims, groups, x, w, b in [
            ("LC", "kernel=2", 2, 1, normal(2, 2, 3, 4), normal(2, 3, 3, 2, 2, 2), normal(2, 3, 3)),
            ("LC2D", "kernel=2,group=2", 2, 2, normal(2, 4, 3, 3), normal(2, 2, 6, 2, 2, 2), normal(2, 2, 6)),
            ("LC1D", "kernels=[2]", 1, 1, normal(2, 2, 4), normal(3, 3, 2, 2), normal(3, 3)),
            (
                "LC3D",
                "kernels=[2,2,2]",
                3,
                1,
                normal(1, 2, 2, 3, 2),
                normal(1, 2, 1, 2, 2, 2, 2, 2),
                normal(1, 2, 1, 2),
            ),
        ]
    ],
    Case(
        'LC(x,w)->(y) {kernel=2,order="NHWC"}',
        {"x": normal(2, 3, 3, 2), "w": normal(2, 2, 3, 2, 2, 2)},
        lambda g: local(g, 2, nhwc=True),
        ("x", "w"),
    ),
    Case("FlexibleTopK(x,k)->(y,i)", {"x": distinct(2, 2, 5), "k": np.array([2, 1, 5, 3])}, largest),
    *[
        Case(
            f"DotProductWithPadding(x,w)->(y) {{pad_value=0.5,replicate={replicate}}}",
            {"x": normal(3, wide), "w": normal(3, 6 - wide)},
            lambda g, replicate=replicate: {
                "y": (_widened(g["x"], replicate) * _widened(g["w"], replicate)).sum(1)
            },
            ("x", "w"),
        )
        for replicate in (0, 1)
        for wide in (2, 4)
    ],
    Case(
        "DotProductWithPadding(x,w)->(y)",
        {"x": normal(3, 2), "w": normal(3, 2)},
        lambda g: {"y": (g["x"] * g["w"]).sum(1)},
        ("x", "w"),
    ),
    Case(
        "DotProductWithPadding(x,w)->(y)",
        {"x": normal(4), "w": normal(4)},
        lambda g: {"y": g["x"] * g["w"]},
        ("x", "w"),
    ),
    Case(
        "DotProductWithPadding(x,w)->(y)",
        {"x": normal(3, 2, 4), "w": normal(3, 2, 4)},
        lambda g: {"y": (g["x"] * g["w"]).sum((1, 2))},
        ("x", "w"),
    ),
    *[
        Case(
            f'SequenceMask(x,n)->(y) {{mode="{mode}",axis=2,batch=0,radius=1,fill_val=-5.0}}',
            {"x": normal(2, 3, 4), "n": np.array([1, 4, 2], np.int32)},
            lambda g, mode=mode: {
                "y": np.where(
                    np.arange(4) >= g["n"][:, None]
                    if mode == "sequence"
                    else abs(np.arange(4) - g["n"][:, None]) > 1,
                    -5.0,
                    g["x"],
                )
            },
        )
        for mode in ("sequence", "window")
    ],
    Case("ConstantFill()->(y) {shape=[2],value=7}", {}, lambda g: {"y": np.full(2, 7)}, ()),
    Case("DiagonalFill()->(y) {shape=[2,2],value=7}", {}, lambda g: {"y": np.diag([7, 7])}, ()),
    Case(
        "QuantDecode(x,c,d)->(y,z)",
        {"x": normal(4), "c": np.array([[0, 3], [1, 0]], np.uint8), "d": np.array([2], np.int32)},
        lambda g: {"y": g["x"][g["c"]], "z": g["x"][g["d"]]},
    ),
]


def _widened(x: Array, replicate: int) -> Array:
    """Rows of four elements: repeated, or continued by 0.5."""
    if replicate:
        return np.tile(x, 4 // x.shape[1])
    return np.pad(x, ((0, 0), (0, 4 - x.shape[1])), constant_values=0.5)
