"""Rows for units of recurrent nets, images, regions, losses over pixels and pairs, and channels."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.caffe2.operator_cases import (
    Array,
    Blobs,
    Case,
    apart,
    biggest,
    lrn,
    normal,
    pool,
    positive,
    sigmoid,
    softmax,
    unary,
)

# ---- recurrent units ---------------------------------------------------------------------------------


def lstm(g: Blobs, bias: float, *, drop: bool) -> dict[str, Array]:
    enter, forget, leave, candidate = np.split(g["x"], 4, axis=-1)
    cell = sigmoid(forget + bias) * g["c"] + sigmoid(enter) * np.tanh(candidate)
    hidden = sigmoid(leave) * np.tanh(cell)
    if "n" in g:
        valid = (g["t"] < g["n"])[None, :, None]
        hidden = np.where(valid, hidden, 0 if drop else g["h"])
        cell = np.where(valid, cell, 0 if drop else g["c"])
    return {"y": hidden, "cell": cell}


def gru(g: Blobs, *, drop: bool) -> dict[str, Array]:
    _, update, candidate = np.split(g["x"], 3, axis=-1)
    hidden = g["h"] * sigmoid(update) + np.tanh(candidate) * (1 - sigmoid(update))
    if "n" in g:
        hidden = np.where((g["t"] < g["n"])[None, :, None], hidden, 0 if drop else g["h"])
    return {"y": hidden}


STEP = {"n": np.array([3, 1, 2], np.int32), "t": np.array([1], np.int32)}
STATES = {"h": normal(1, 3, 2), "c": normal(1, 3, 2)}

UNITS = [
    *(
        Case(
            f"LSTMUnit(h,c,x,n,t)->(y,cell) {{forget_bias=0.5,drop_states={drop}}}",
            {**STATES, "x": normal(1, 3, 8), **STEP},
            lambda g, drop=drop: lstm(g, 0.5, drop=bool(drop)),
            ("x", "h", "c"),
            of,
        )
        for drop in (0, 1)
        for of in ("y", "cell")
    ),
    Case(
        "LSTMUnit(h,c,x,t)->(y,cell) {sequence_lengths=0}",
        {**STATES, "x": normal(1, 3, 8), "t": STEP["t"]},
        lambda g: lstm(g, 0.0, drop=False),
        ("x", "h", "c"),
    ),
    *(
        Case(
            f"GRUUnit(h,x,n,t)->(y) {{drop_states={drop}}}",
            {"h": normal(1, 3, 2), "x": normal(1, 3, 6), **STEP},
            lambda g, drop=drop: gru(g, drop=bool(drop)),
            ("x", "h"),
        )
        for drop in (0, 1)
    ),
    Case(
        "GRUUnit(h,x,t)->(y) {sequence_lengths=0}",
        {"h": normal(1, 3, 2), "x": normal(1, 3, 6), "t": STEP["t"]},
        lambda g: gru(g, drop=False),
        ("x", "h"),
    ),
    Case(
        "rnn_internal_apply_link(t,x)->(y,x) {offset=1,window=2}",
        {"t": np.array([1], np.int32), "x": normal(5, 2, 3)},
        lambda g: {"y": g["x"][2:4], "x": g["x"]},
        (),
    ),
    Case(
        "rnn_internal_accumulate_gradient_input(t,g,x)->(x) {offset=1}",
        {"t": np.array([2], np.int32), "g": normal(4, 2, 3), "x": normal(5, 2, 3)},
        lambda g: {"x": g["x"] + np.eye(5)[3][:, None, None] * g["g"][2]},
        (),
    ),
    Case(
        "Sqr(x)->(y); ZeroGradient(y)->()",
        {"x": normal(2, 3)},
        lambda g: {"y": g["x"] ** 2},
    ),
]

# ---- images ------------------------------------------------------------------------------------------


def nearest(x: Array, height_scale: float, width_scale: float) -> Array:
    h, w = x.shape[2:]
    rows = (np.arange(math.floor(h * height_scale)) / height_scale).astype(int)
    columns = (np.arange(math.floor(w * width_scale)) / width_scale).astype(int)
    return x[:, :, rows][:, :, :, columns]


def along(x: Array, axis: int, scale: float) -> Array:
    """Linear interpolation along one axis; the first and last elements stay where they are."""
    size = x.shape[axis]
    count = math.floor(size * scale)
    places = np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0)
    low = np.minimum(places.astype(int), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = (places - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return x.take(low, axis) * (1 - part) + x.take(high, axis) * part


def bilinear(x: Array, height_scale: float, width_scale: float) -> Array:
    return along(along(x, 2, height_scale), 3, width_scale)


def at(image: Array, y: float, x: float) -> Array:
    """A bilinear sample of every channel; positions are moved to the border of the image."""
    h, w = image.shape[1:]
    if not (-1 <= y <= h and -1 <= x <= w):
        return np.zeros(len(image))
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, h - 1), min(left + 1, w - 1)
    dy, dx = y - top, x - left
    return (image[:, top, left] * (1 - dx) + image[:, top, right] * dx) * (1 - dy) + (
        image[:, bottom, left] * (1 - dx) + image[:, bottom, right] * dx
    ) * dy


def aligned(g: Blobs, scale: float, bins: int, samples: int) -> Array:
    """Mean of ``samples`` x ``samples`` samples per bin; as many as a bin has pixels if there are 0."""
    rois = g["r"]
    result = np.zeros((len(rois), g["x"].shape[1], bins, bins))
    for number, roi in enumerate(rois):
        image = g["x"][int(roi[0]) if len(roi) == 5 else 0]
        x1, y1, x2, y2 = (float(corner) * scale for corner in roi[-4:])
        height, width = max(y2 - y1, 1) / bins, max(x2 - x1, 1) / bins
        rows, columns = samples or math.ceil(height), samples or math.ceil(width)
        for i, j in np.ndindex(bins, bins):
            result[number, :, i, j] = np.mean(
                [
                    at(image, y1 + (i + (p + 0.5) / rows) * height, x1 + (j + (q + 0.5) / columns) * width)
                    for p, q in np.ndindex(rows, columns)
                ],
                axis=0,
            )
    return result


def region_maxima(g: Blobs, scale: float, bins: int) -> dict[str, Array]:
    """The maximum of the whole pixels of each bin, and its number in the plane; 0 and -1 in an empty bin."""
    height, width = g["x"].shape[2:]
    result = np.zeros((len(g["r"]), g["x"].shape[1], bins, bins))
    places = np.full(result.shape, -1)
    for (number, channel, i, j), _ in np.ndenumerate(result):
        image, *corners = g["r"][number]
        x1, y1, x2, y2 = (math.floor(corner * scale + 0.5) for corner in corners)
        tall, wide = max(y2 - y1 + 1, 1) / bins, max(x2 - x1 + 1, 1) / bins
        for row in range(max(y1 + math.floor(i * tall), 0), min(y1 + math.ceil((i + 1) * tall), height)):
            for column in range(
                max(x1 + math.floor(j * wide), 0), min(x1 + math.ceil((j + 1) * wide), width)
            ):
                value = g["x"][int(image), channel, row, column]
                if places[number, channel, i, j] == -1 or value > result[number, channel, i, j]:
                    result[number, channel, i, j] = value
                    places[number, channel, i, j] = row * width + column
    return {"y": result, "a": places}


ROIS = np.array([[1, 0.5, 1.2, 4.1, 3.9], [0, 1.0, 0.3, 2.2, 5.1]])

IMAGES = [
    unary(
        "ResizeNearest(x)->(y) {height_scale=2.0,width_scale=1.5}",
        lambda x: nearest(x, 2.0, 1.5),
        normal(2, 2, 3, 4),
    ),
    unary(
        'ResizeNearest(x)->(y) {height_scale=2.0,width_scale=0.5,order="NHWC"}',
        lambda x: nearest(x.transpose(0, 3, 1, 2), 2.0, 0.5).transpose(0, 2, 3, 1),
        normal(1, 3, 4, 2),
    ),
    *(
        Case(
            f'ResizeNearest(x,s)->(y) {{order="{order}"}}',
            {"x": normal(2, 2, 3, 4).transpose(axes), "s": np.array([2.0, 0.75])},
            lambda g, back=back, axes=axes: {"y": nearest(g["x"].transpose(back), 2.0, 0.75).transpose(axes)},
        )
        for order, axes, back in (("NCHW", (0, 1, 2, 3), (0, 1, 2, 3)), ("NHWC", (0, 2, 3, 1), (0, 3, 1, 2)))
    ),
    unary(
        "UpsampleBilinear(x)->(y) {height_scale=2.0,width_scale=1.5}",
        lambda x: bilinear(x, 2.0, 1.5),
        normal(2, 2, 3, 4),
    ),
    Case(
        "UpsampleBilinear(x,s)->(y)",
        {"x": normal(1, 2, 3, 3), "s": np.array([2.0, 3.0])},
        lambda g: {"y": bilinear(g["x"], 2.0, 3.0)},
    ),
    Case(
        "RoIAlign(x,r)->(y) {spatial_scale=1.5,pooled_h=2,pooled_w=2,sampling_ratio=2}",
        {"x": normal(2, 2, 6, 7), "r": ROIS},
        lambda g: {"y": aligned(g, 1.5, 2, 2)},
    ),
    Case(
        "RoIAlign(x,r)->(y) {pooled_h=2,pooled_w=2}",
        {"x": normal(1, 2, 6, 7), "r": ROIS[:, 1:]},
        lambda g: {"y": aligned(g, 1.0, 2, 0)},
    ),
    Case(
        "RoIPool(x,r)->(y,a) {spatial_scale=1.5,pooled_h=3,pooled_w=3}",
        {"x": apart(2, 2, 6, 7), "r": np.array([[1, 0.5, 1.2, 4.1, 3.9], [0, 4.0, 0.3, 6.2, 5.1]])},
        lambda g: region_maxima(g, 1.5, 3),
    ),
    Case(
        "RoIPool(x,r)->(y) {is_test=1,pooled_h=2,pooled_w=2}",
        {"x": apart(2, 2, 4, 4), "r": ROIS},
        lambda g: {"y": region_maxima(g, 1.0, 2)["y"]},
        (),
    ),
    Case(
        "MaxPoolWithIndex(x)->(y,a) {kernel=2,stride=2}",
        {"x": apart(2, 2, 4, 4)},
        lambda g: {
            "y": pool(g["x"], 2, 2, 0, biggest, 2),
            "a": np.array(
                [
                    [
                        np.flatnonzero(plane == top)
                        for top in pool(plane[None, None], 2, 2, 0, biggest, 2).flat
                    ]
                    for image in g["x"]
                    for plane in image
                ]
            ).reshape(2, 2, 2, 2),
        },
    ),
    Case(
        "LRN(x)->(y,s) {size=3,alpha=0.5,beta=0.75,bias=2.0}",
        {"x": normal(2, 4, 2, 2)},
        lambda g: {"y": lrn(g["x"]), "s": (g["x"] / lrn(g["x"])) ** (1 / 0.75)},
    ),
    unary(
        "ChannelShuffle(x)->(y) {group=2}",
        lambda x: x.reshape(2, 2, 3, 2, 2).swapaxes(1, 2).reshape(x.shape),
        normal(2, 6, 2, 2),
    ),
    unary(
        'ChannelShuffle(x)->(y) {group=2,order="NHWC"}',
        lambda x: x.reshape(2, 2, 2, 2, 3).swapaxes(3, 4).reshape(x.shape),
        normal(2, 2, 2, 6),
    ),
]

# ---- losses ------------------------------------------------------------------------------------------

PIXELS = np.array([[[1, -1], [2, 0]], [[0, 0], [-1, 1]]], np.int32)


def pixel_loss(g: Blobs, scale: float) -> dict[str, Array]:
    p = softmax(g["x"].transpose(0, 2, 3, 1))
    total = weight = 0.0
    for place in np.ndindex(g["label"].shape):
        if g["label"][place] != -1:
            factor = g["w"][place] if "w" in g else 1.0
            total += -math.log(p[place][g["label"][place]]) * factor
            weight += factor
    loss = scale * total / weight if weight else 0.0
    return {"p": p.transpose(0, 3, 1, 2), "y": np.asarray(loss)}


def pair_loss(x: Array, labels: Array, sizes: list[int]) -> Array:
    losses, first = [], 0
    for size in sizes:
        numbers = range(first, first + size)
        found = [
            math.log1p(math.exp(x[j, 0] - x[i, 0])) for i in numbers for j in numbers if labels[i] > labels[j]
        ]
        losses.append(sum(found) / max(len(found), 1))
        first += size
    return np.array(losses)


GRADES = np.array([[2.0], [0.0], [1.0], [0.0], [1.0]])

CRITERIA = [
    Case(
        "SpatialSoftmaxWithLoss(x,label)->(p,y) {scale=2.0}",
        {"x": normal(2, 3, 2, 2), "label": PIXELS},
        lambda g: pixel_loss(g, 2.0),
    ),
    Case(
        "SpatialSoftmaxWithLoss(x,label,w)->(p,y)",
        {"x": normal(2, 3, 2, 2), "label": PIXELS, "w": positive(2, 2, 2)},
        lambda g: pixel_loss(g, 1.0),
    ),
    Case(
        "SpatialSoftmaxWithLoss(x,label)->(p,y)",
        {"x": normal(2, 3, 2, 2), "label": np.full((2, 2, 2), -1, np.int32)},
        lambda g: pixel_loss(g, 1.0),
        (),
    ),
    Case(
        "PairWiseLoss(x,label)->(y)",
        {"x": normal(5, 1), "label": GRADES},
        lambda g: {"y": pair_loss(g["x"], g["label"], [5])},
    ),
    Case(
        "PairWiseLoss(x,label,n)->(y)",
        {"x": normal(5, 1), "label": GRADES, "n": np.array([3, 0, 2], np.int32)},
        lambda g: {"y": pair_loss(g["x"], g["label"], [3, 0, 2])},
    ),
    Case(
        "CosineEmbeddingCriterion(x,t)->(y) {margin=0.3}",
        {"x": np.array([0.9, 0.6, 0.1, -0.8]), "t": np.array([1, -1, -1, 1], np.int32)},
        lambda g: {"y": np.where(g["t"] == 1, 1 - g["x"], np.maximum(g["x"] - 0.3, 0))},
    ),
    Case(
        "MarginRankingCriterion(x,w,t)->(y) {margin=0.5}",
        {
            "x": np.array([0.9, 0.6, 0.1, -0.8]),
            "w": np.array([0.2, 0.4, 1.1, 0.3]),
            "t": np.array([1, -1, -1, 1], np.int32),
        },
        lambda g: {"y": np.maximum(0.5 - g["t"] * (g["x"] - g["w"]), 0)},
        ("x", "w"),
    ),
    unary("LpNorm(x)->(y) {p=1}", lambda x: np.abs(x).sum(keepdims=True).reshape(1)),
    unary("LpNorm(x)->(y)", lambda x: (x * x).sum(keepdims=True).reshape(1)),
    unary("LpNorm(x)->(y) {average=1}", lambda x: (x * x).mean(keepdims=True).reshape(1)),
]

# ---- moments, groups and channels --------------------------------------------------------------------


def group_norm(g: Blobs, groups: int) -> dict[str, Array]:
    n, channels = g["x"].shape[:2]
    rows = g["x"].reshape(n, groups, -1)
    mean, deviation = rows.mean(2), np.sqrt(rows.var(2) + 1e-5)
    normalized = ((rows - mean[..., None]) / deviation[..., None]).reshape(g["x"].shape)
    behind = (channels, *[1] * (g["x"].ndim - 2))
    return {
        "y": normalized * g["s"].reshape(behind) + g["b"].reshape(behind),
        "mean": mean,
        "inverse": 1 / deviation,
    }


def channel_affine(g: Blobs) -> dict[str, Array]:
    return {"y": g["x"] * g["s"][:, None, None] + g["b"][:, None, None]}


CHANNELS = [
    *(
        Case(
            "Moments(x)->(m,v) {axes=[0,2]}",
            {"x": normal(2, 3, 4)},
            lambda g: {
                "m": g["x"].mean((0, 2), keepdims=True),
                "v": g["x"].var((0, 2), keepdims=True),
            },
            of=of,
        )
        for of in "mv"
    ),
    Case(
        "Moments(x)->(m,y) {axes=[1],keepdims=0}",
        {"x": normal(2, 3)},
        lambda g: {"m": g["x"].mean(1), "y": g["x"].var(1)},
    ),
    Case(
        "GroupNorm(x,s,b)->(y,mean,inverse) {group=2}",
        {"x": normal(2, 4, 2, 3), "s": normal(4), "b": normal(4)},
        lambda g: group_norm(g, 2),
        ("x", "s", "b"),
    ),
    Case(
        'GroupNorm(x,s,b)->(y,mean,inverse) {group=2,order="NHWC"}',
        {"x": normal(2, 2, 3, 4), "s": normal(4), "b": normal(4)},
        lambda g: {"y": group_norm({**g, "x": g["x"].transpose(0, 3, 1, 2)}, 2)["y"].transpose(0, 2, 3, 1)},
        ("x", "s", "b"),
    ),
    Case(
        "AffineChannel(x,s,b)->(y) {is_learnable=1}",
        {"x": normal(2, 3, 2, 2), "s": normal(3), "b": normal(3)},
        channel_affine,
        ("x", "s", "b"),
    ),
    Case(
        "AffineChannel(x,s,b)->(y)",
        {"x": normal(2, 3, 2, 2), "s": normal(3), "b": normal(3)},
        channel_affine,
    ),
]

# ---- reductions as far as lengths say ----------------------------------------------------------------


def counted(x: Array, lengths: Array, front: bool, reduce: Callable[[Array], float], dims: int = 1) -> Array:
    """The reduction of the first elements of each column (``front``) or row."""
    at = dims if front else x.ndim - dims
    matrix = x.reshape(int(np.prod(x.shape[:at])), -1)
    lines = matrix.T if front else matrix
    found = np.array([reduce(line[:count]) for line, count in zip(lines, lengths, strict=True)])
    return found.reshape(x.shape[at:] if front else x.shape[:at])


COUNTED = [
    *(
        Case(
            f"ReduceFront{kind}(x,n)->(y)",
            {"x": apart(4, 3), "n": np.array([2, 4, 1], np.int32)},
            lambda g, reduce=reduce: {"y": counted(g["x"], g["n"], True, reduce)},
        )
        for kind, reduce in {"Sum": np.sum, "Mean": np.mean, "Max": np.max}.items()
    ),
    *(
        Case(
            f"ReduceBack{kind}(x,n)->(y) {{num_reduce_dim=2}}",
            {"x": apart(2, 2, 2, 3), "n": np.array([2, 6, 1, 3], np.int32)},
            lambda g, reduce=reduce: {"y": counted(g["x"], g["n"], False, reduce, 2)},
        )
        for kind, reduce in {"Sum": np.sum, "Mean": np.mean, "Max": np.max}.items()
    ),
    Case(
        "ReduceFrontWeightedSum(x,w)->(y)",
        {"x": normal(4, 3, 2), "w": normal(4)},
        lambda g: {"y": np.tensordot(g["w"], g["x"], 1)},
    ),
    unary("RowwiseMax(x)->(y)", lambda x: x.max(2), apart(2, 3, 4)),
    unary("ColwiseMax(x)->(y)", lambda x: x.max(1), apart(2, 3, 4)),
]

# ---- choices and shapes ------------------------------------------------------------------------------

CHOICES = [
    Case(
        "TopK(x)->(y,i,n) {k=2}",
        {"x": apart(3, 5)},
        lambda g: {
            "y": -np.sort(-g["x"])[:, :2],
            "i": np.argsort(-g["x"])[:, :2],
            "n": (np.argsort(-g["x"])[:, :2] + 5 * np.arange(3)[:, None]).ravel(),
        },
    ),
    Case(
        "TopK(x)->(y,i) {k=2,axis=0}",
        {"x": apart(4, 3)},
        lambda g: {"y": -np.sort(-g["x"], axis=0)[:2], "i": np.argsort(-g["x"], axis=0)[:2]},
    ),
    Case(
        "TopK(x)->(y,i) {k=3}",
        {"x": np.array([[1.0, 2.0, 2.0, 1.0]])},
        lambda g: {"y": np.array([[2.0, 2.0, 1.0]]), "i": np.array([[1, 2, 0]])},
        (),
    ),
    # more than there is: zeros, at place -1
    Case(
        "TopK(x)->(y,i,n) {k=3}",
        {"x": np.array([[1.0, 2.0], [4.0, 3.0]])},
        lambda g: {
            "y": np.concatenate([-np.sort(-g["x"]), np.zeros((2, 1))], 1),
            "i": np.array([[1, 0, -1], [0, 1, -1]]),
            "n": np.array([1, 0, -1, 2, 3, -1]),
        },
    ),
    Case("RowWiseArgMax(x)->(y)", {"x": apart(3, 4)}, lambda g: {"y": g["x"].argmax(1)[:, None]}, ()),
    Case(
        "Unique(i)->(y,which)",
        {"i": np.array([5, 2, 5, 7, 2], np.int64)},
        lambda g: {"y": np.array([2, 5, 7]), "which": np.array([1, 0, 1, 2, 0])},
        (),
    ),
    Case(
        "Unique(i)->(y,which)",
        {"i": np.array([-1, 2**31 - 1, -1], np.int32)},
        lambda g: {"y": np.array([-1, 2**31 - 1], np.int32), "which": np.array([0, 1, 0])},
        (),
    ),
    unary("PrependDim(x)->(y) {dim_size=2}", lambda x: x.reshape(2, 3, 2), normal(6, 2)),
    Case("MergeDim(x)->(y)", {"x": normal(2, 3, 2)}, lambda g: {"y": g["x"].reshape(6, 2)}, ()),
    Case(
        "Expand(x,shape)->(y)",
        {"x": normal(3, 1), "shape": np.array([2, 1, 4], np.int64)},
        lambda g: {"y": np.broadcast_to(g["x"], (2, 3, 4))},
    ),
    Case(
        "Expand(x,shape)->(y)",
        {"x": normal(2, 3, 1), "shape": np.array([-1, 1, 4], np.int64)},
        lambda g: {"y": np.broadcast_to(g["x"], (2, 3, 4))},
    ),
    unary("Expand(x)->(y) {shape=[2,3]}", lambda x: np.broadcast_to(x, (2, 3)), normal(3)),
]

LAYERS = [*UNITS, *IMAGES, *CRITERIA, *CHANNELS, *COUNTED, *CHOICES]
