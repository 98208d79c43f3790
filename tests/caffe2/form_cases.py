"""Rows for rare forms: truth values, batches of no examples, further axes, computed bounds, ties."""

from __future__ import annotations

import numpy as np

from tests.caffe2.operator_cases import Array, Case, apart, away, conv, normal, positive, unary
from tests.caffe2.other_cases import fixed

YES_NO = np.array([[True, False, True], [False, False, True]])
OVER_NONE = ("ReduceFrontSum", "ReduceBackMean", "ReduceFrontMax")
COUNTED = np.arange(3)
NO_YES = np.array([[True, True, False], [False, True, True]])


def two_classes(x: Array) -> Array:
    return np.stack([1 - x, x], axis=-1)


def neighbours(x: Array, size: int) -> Array:
    """The mean of squares of neighbouring channels, whatever lies outside being 0."""
    wide = np.pad(x * x, ((0, 0), ((size - 1) // 2, size // 2), (0, 0), (0, 0)))
    return sum(wide[:, k : k + x.shape[1]] for k in range(size)) / size


TRUTHS = [
    *(
        Case(f"{type_}(x,w)->(y)", {"x": YES_NO, "w": NO_YES}, lambda g, f=f: {"y": f(g["x"], g["w"])}, ())
        for type_, f in {
            "BitwiseAnd": np.logical_and,
            "BitwiseOr": np.logical_or,
            "BitwiseXor": np.logical_xor,
            "GE": np.greater_equal,
            "GT": np.greater,
            "LE": np.less_equal,
            "LT": np.less,
            "NE": np.not_equal,
        }.items()
    ),
    fixed(
        "BitwiseXor(x,w)->(y) {broadcast=1}",
        {"x": YES_NO, "w": np.array([True, False, False])},
        y=[[False, False, True], [True, False, True]],
    ),
    Case(
        "Where(c,x,w)->(y)",
        {"c": np.array([[True], [False]]) & np.ones((2, 3), bool), "x": YES_NO, "w": NO_YES},
        lambda g: {"y": np.where(g["c"], g["x"], g["w"])},
        (),
    ),
    fixed(
        "Conditional(c,x,w)->(y)",
        {"c": np.array([False, True]), "x": YES_NO, "w": NO_YES},
        y=[[True, True, False], [False, False, True]],
    ),
]

EMPTY = [
    unary("PrependDim(x)->(y) {dim_size=2}", lambda x: x.reshape(2, 0, 3), np.zeros((0, 3)), ()),
    unary("PrependDim(x)->(y) {dim_size=2}", lambda x: x.reshape(2, 2, 0), np.zeros((4, 0))),
    unary("MergeDim(x)->(y)", lambda x: x.reshape(6, 0), np.zeros((2, 3, 0)), ()),
    Case(
        "LRN(x)->(y,s) {size=3,alpha=0.5,beta=0.75,bias=2.0}",
        {"x": np.zeros((0, 4, 2, 2))},
        lambda g: {"y": g["x"], "s": 2.0 + 0.5 * neighbours(g["x"], 3)},
    ),
    Case(
        "GroupNorm(x,w,b)->(y,m,s) {group=2}",
        {"x": np.zeros((0, 4, 2, 2)), "w": normal(4), "b": normal(4)},
        lambda g: {"y": g["x"], "m": np.zeros((0, 2)), "s": np.zeros((0, 2))},
        ("x", "w", "b"),
    ),
    fixed("RangeFill()->(y) {shape=[2,0]}", {}, y=np.zeros((2, 0))),
    Case(
        "SparseToDense(i,x)->(y)",
        {"i": np.zeros(0, np.int32), "x": np.zeros((0, 3))},
        lambda g: {"y": g["x"]},
    ),
    unary('LRN(x)->(y) {size=3,alpha=0.5,beta=0.75,order="NHWC"}', lambda x: x, np.zeros((0, 2, 2, 4))),
]

AXES = [
    unary("MakeTwoClass(x)->(y)", two_classes, positive(3, 1)),
    unary("MakeTwoClass(x)->(y)", two_classes, positive(2, 3)),
    Case(
        "Slice(x,s,e)->(y)",
        {"x": normal(4, 5), "s": np.array([0, 1], np.int32), "e": np.array([-1, 4], np.int32)},
        lambda g: {"y": g["x"][:, 1:4]},
    ),
    Case(
        "Slice(x,s,e)->(y)",
        {"x": normal(4, 2), "s": np.array([-3, 0], np.int64), "e": np.array([-2, -1], np.int64)},
        lambda g: {"y": g["x"][2:3]},
    ),
    Case(
        "Slice(x,s,e)->(y)",
        {"x": normal(4, 2, 3), "s": np.array([1], np.int64), "e": np.array([-2], np.int64)},
        lambda g: {"y": g["x"][1:3]},
    ),
    *(unary(f"{type_}(x)->(y) {{num_reduce_dim=0}}", np.copy, normal(3)) for type_ in OVER_NONE),
    unary("ThresholdedRelu(x)->(y) {alpha=-0.5}", lambda x: np.where(x > -0.5, x, 0), away(4, 5)),
    unary("ReduceL1(x)->(y)", np.abs, np.asarray(-0.7)),
    unary("ReduceL2(x)->(y) {keepdims=0}", np.abs, np.asarray(-0.7)),
    # The padding is (2 - 1) 3 + 1 - 6 = -2 along each dim: a pixel is cut off at each side.
    *(
        unary(
            f"{kind}Pool(x)->(y) {{kernel=1,stride=3,legacy_pad=2}}",
            lambda x: x[:, :, 1:5:3, 1:5:3],
            apart(1, 2, 6, 6),
        )
        for kind in ("Max", "Average")
    ),
    Case(
        "Conv(x,w)->(y) {kernel=1,stride=3,legacy_pad=2}",
        {"x": normal(2, 2, 6, 6), "w": normal(3, 2, 1, 1)},
        lambda g: {"y": conv(g["x"][:, :, 1:5, 1:5], g["w"], 3, (0, 0, 0, 0))},
        ("x", "w"),
    ),
    Case(
        "Concat(x,w)->(y,s) {add_axis=1}",
        {"x": normal(2, 3), "w": normal(2, 3)},
        lambda g: {"y": np.stack([g["x"], g["w"]], 1), "s": np.array([1, 1])},
        ("x", "w"),
    ),
    Case(
        "Split(x)->(y,z) {add_axis=1}",
        {"x": normal(3, 2)},
        lambda g: {"y": g["x"][:, 0], "z": g["x"][:, 1]},
        (),
    ),
    *(
        Case(
            f"Conv(x,w)->(y) {{kernel={kernel},stride={stride},pad={pad},legacy_pad=3}}",
            {"x": normal(2, 2, size, size), "w": normal(3, 2, kernel, kernel)},
            lambda g, s=stride, p=pads: {"y": conv(g["x"], g["w"], s, p)},
            ("x", "w"),
        )
        # Places are rounded up: of 6, kernels of 3 at 0, 2 and 4; with padding none that begins in it.
        for kernel, stride, pad, size, pads in (
            (3, 2, 0, 6, (0, 0, 1, 1)),
            (2, 3, 1, 4, (1, 1, 1, 1)),
            (3, 2, 1, 6, (1, 1, 2, 2)),
        )
    ),
    Case(
        "BatchMatMul(x,w)->(y) {trans_a=1,trans_b=1}",
        {"x": normal(4), "w": normal(4)},
        lambda g: {"y": g["x"] @ g["w"]},
        (),
    ),
    Case(
        "MatMul(x,w,l)->(y) {trans_b=1}",
        {"x": normal(3, 4), "w": normal(2, 4), "l": np.zeros((3, 1, 2))},
        lambda g: {"y": (g["x"] @ g["w"].T).reshape(3, 1, 2)},
        ("x", "w"),
    ),
    fixed(
        "SegmentIdsToRanges(s,w)->(y)",
        {"s": np.array([1, 1, 3], np.int32), "w": np.zeros(6)},
        y=[[0, 0], [0, 2], [2, 0], [2, 1], [0, 0], [0, 0]],
    ),
]

TYPES = [
    Case(
        "NormalizePlanarYUV(x,w,s)->(y)",
        {"x": normal(2, 3, 2, 1), "w": normal(1, 3), "s": positive(1, 3)},
        lambda g: {"y": (g["x"] - g["w"][0][:, None, None]) / g["s"][0][:, None, None]},
        (),
    ),
    fixed(
        "DenseVectorToIdList(x)->(n,y)",
        {"x": np.array([[-2.0, -1.5, -1.4, -0.5], [0.4, 0.5, 0.0, 1.0]])},
        n=[2, 2],
        y=[0, 1, 1, 3],
    ),
    fixed("SumInt(x,w)->(y)", {"x": np.array([1.5, 2.0]), "w": np.array([0.5, -3.0])}, y=[2.0, -1.0]),
    *(
        Case(
            f"{type_}Gradient(dy,x,w)->(dx,dw)",
            {"dy": np.array([[1, 2, 3], [4, 5, 6]]), "x": np.array([[2, 0, -1], [1, 3, 5]]), "w": COUNTED},
            lambda g, by=by: {"dx": by(g)[0], "dw": by(g)[1].sum(0)},
            (),
        )
        for type_, by in {
            "Add": lambda g: (g["dy"], g["dy"]),
            "Sub": lambda g: (g["dy"], -g["dy"]),
            "Mul": lambda g: (g["dy"] * g["w"], g["dy"] * g["x"]),
        }.items()
    ),
    Case(
        "CubeGradient(dy,x)->(dx)",
        {"dy": np.array([1, -2], np.int64), "x": np.array([3, 2], np.int64)},
        lambda g: {"dx": g["dy"] * 3 * g["x"] ** 2},
        (),
    ),
    Case(
        "SparseLengthsPositionalWeightedSum(x,w,i,n)->(y)",
        {
            "x": np.array([[1.0, 2.0], [0.5, -1.0]], np.float16),
            "w": np.array([2.0, 0.5], np.float32),
            "i": np.array([1, 0, 0], np.int32),
            "n": np.array([2, 1], np.int32),
        },
        lambda g: {"y": np.array([[1.5, -1.0], [2.0, 4.0]])},
        (),
    ),
]

TIED = np.array([[1.0, 3.0, 3.0], [1.0, 0.0, -2.0]])
SLOPES = np.array([[5.0, 7.0, 11.0], [13.0, 17.0, 19.0]])


def to_tied(net: str, axis: int, sign: int = 1, **further: Array) -> Case:
    """Every element that equals the extremum gets its whole gradient."""
    y, dy = sign * (sign * TIED).max(axis), SLOPES.take(0, axis)
    expected = np.where(np.expand_dims(y, axis) == TIED, np.expand_dims(dy, axis), 0)
    if "keepdims=1" in net:
        y, dy = np.expand_dims(y, axis), np.expand_dims(dy, axis)
    if "wise" in net:  # of a batch of matrices
        batch = {"x": TIED[None], "y": y[None], "dy": dy[None]}
        return Case(net, batch, lambda g: {"dx": expected[None]}, ())
    return Case(net, {"x": TIED, "y": y, "dy": dy, **further}, lambda g: {"dx": expected}, ())


TIES = [
    to_tied("ReduceMaxGradient(dy,x,y)->(dx) {axes=[1],keepdims=1}", 1),
    to_tied("ReduceMaxGradient(dy,x,y)->(dx) {axes=[-2],keepdims=0}", 0),
    to_tied("ReduceMinGradient(dy,x,y)->(dx) {axes=[0],keepdims=0}", 0, -1),
    to_tied("ReduceFrontMaxGradient(dy,x,y)->(dx)", 0),
    to_tied("ReduceBackMaxGradient(dy,x,y)->(dx)", 1),
    to_tied("ReduceFrontMaxGradient(dy,x,y,n)->(dx)", 0, n=np.array([2, 2, 2], np.int32)),
    to_tied("RowwiseMaxGradient(x,y,dy)->(dx)", 1),
    to_tied("ColwiseMaxGradient(x,y,dy)->(dx)", 0),
    fixed(
        "ReduceBackMaxGradient(dy,x,y,n)->(dx)",
        {
            "x": np.array([[3.0, 3.0, 3.0], [2.0, 4.0, 4.0]]),
            "y": np.array([3.0, 2.0]),
            "dy": np.array([5.0, 7.0]),
            "n": np.array([2, 1], np.int32),
        },
        dx=[[5.0, 5.0, 0.0], [7.0, 0.0, 0.0]],
    ),
]

FORMS = [*TRUTHS, *EMPTY, *AXES, *TYPES, *TIES]
