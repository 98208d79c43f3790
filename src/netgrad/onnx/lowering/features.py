"""Operators on features: Scaler, Normalizer, Imputer, FeatureVectorizer and ArrayFeatureExtractor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError
from netgrad.onnx.lowering.writer import FLOAT, Writer

_INTEGERS = (onnx_ir.DataType.INT32, onnx_ir.DataType.INT64)


def scaler(w: Writer) -> None:
    """``Y = (X - offset) scale``, a value per feature or one for all; computed in float64 if X is."""
    scale, offset = w.floats("scale"), w.floats("offset")
    if not scale.size or scale.size != offset.size:
        raise CannotRewriteError(f"it has {offset.size} offsets and {scale.size} scales")
    _fits(w, scale.size)
    x, dtype = w.input(), w.input().dtype
    wide = onnx_ir.DataType.DOUBLE if dtype == onnx_ir.DataType.DOUBLE else FLOAT
    by, around = (
        w.cast(w.parameter(name, content, setting=True), wide)
        for name, content in (("scale", scale), ("offset", offset))
    )

    def scaled(value: onnx_ir.Value) -> onnx_ir.Value:
        return w.op("Mul", w.op("Sub", value, around), by)

    result = _by_feature(w, w.cast(x, wide), scale.size, scaled)
    w.finish(0, w.op("Cast", result, to=int(FLOAT)) if wide != FLOAT else result, FLOAT, x.shape)


def normalizer(w: Writer) -> None:
    """``Y = X / norm``, the norm along the last axis; where it is 0, Y is X.

    The norms are max(X), the sum of |X| and the root of the sum of X^2.
    """
    norm = w.attribute("norm", "MAX")
    if norm not in ("MAX", "L1", "L2"):
        raise CannotRewriteError(f"its norm '{norm}' is not understood")
    shape = w.input().shape
    if shape is not None and shape.rank() not in (1, 2):
        raise CannotRewriteError(f"its input has {shape.rank()} axes, not one or two")
    x = w.floating()
    reduction = {"MAX": "ReduceMax", "L1": "ReduceL1", "L2": "ReduceSumSquare"}[norm]
    size = w.op(reduction, x, w.ints(-1))
    is_zero = w.op("Equal", size, w.constant(0.0))
    divisor = w.op("Where", is_zero, w.constant(1.0), size)
    w.finish(0, w.op("Div", x, w.op("Sqrt", divisor) if norm == "L2" else divisor), FLOAT, shape)


def imputer(w: Writer) -> None:
    """Y is X, but the imputed value (of the feature) where X is the value to replace, which may be NaN."""
    x = w.input()
    if x.dtype is None:
        raise CannotRewriteError("the element type of its input is unknown")
    integral = x.dtype in _INTEGERS
    kind = "int64" if integral else "float"
    values = np.array(w.attribute(f"imputed_value_{kind}s", ()), np.int64 if integral else np.float32)
    if not values.size:
        raise CannotRewriteError(f"it has no imputed_value_{kind}s for an input of {x.dtype.name}")
    _fits(w, values.size)
    wanted = w.attribute(f"replaced_value_{kind}", 0)
    replacement = (
        w.cast(w.constant(values, np.int64), x.dtype)
        if integral
        else w.cast(w.parameter("imputed_values", values, setting=True), x.dtype)
    )

    def imputed(value: onnx_ir.Value) -> onnx_ir.Value:
        if not integral and np.isnan(wanted):
            missing = w.op("IsNaN", value)
        else:
            missing = w.op("Equal", value, w.constant(wanted, x.dtype.numpy() if x.dtype else None))
        return w.op("Where", missing, replacement, value)

    w.finish(0, _by_feature(w, x, values.size, imputed), x.dtype, x.shape)


def feature_vectorizer(w: Writer) -> None:
    """Y is the inputs side by side, each as a matrix, cut or padded to its dimension."""
    dimensions = [int(number) for number in w.attribute("inputdimensions", ())]
    if len(dimensions) != len(w.node.inputs):
        raise CannotRewriteError(f"it has {len(dimensions)} inputdimensions for {len(w.node.inputs)} inputs")
    parts: list[onnx_ir.Value] = []
    for index, dimension in enumerate(dimensions):
        source = w.input(index)
        shape = source.shape
        part = _at_least_two_axes(w, w.floating(index), shape)
        if shape is None or shape.rank() > 2:
            part = w.op("Flatten", part, axis=1)
        size = shape[-1] if shape is not None and shape.rank() in (1, 2) else None
        if not isinstance(size, int) or size < dimension:
            part = w.op("Pad", part, w.ints(0, 0, 0, dimension - (size if isinstance(size, int) else 0)))
        if size != dimension and not (isinstance(size, int) and size < dimension):
            part = w.op("Slice", part, w.ints(0), w.ints(dimension), w.ints(1))
        parts.append(part)
    w.finish(0, w.op("Concat", *parts, axis=1), FLOAT, [w.batch(), sum(dimensions)])


def array_feature_extractor(w: Writer) -> None:
    """``Z = X[..., Y]`` for all indices in Y; of a vector, a matrix with one row."""
    x, indices = w.input(), w.op("Reshape", w.input(1), w.ints(-1))
    shape = x.shape
    dims: list[int | str | None] | None = None
    if shape is not None:
        where = w.input(1).shape
        count = where.numpy() if where is not None and where.is_static() else None
        last = None if count is None else int(np.prod(count, dtype=np.int64))
        first = [d if isinstance(d, int) else d.value for d in shape[:-1]] if shape.rank() > 1 else [1]
        dims = [*first, last]
    if shape is None:  # rows of the last axis, of which there is always one
        sizes = w.op("Shape", x)
        width = w.op("Gather", sizes, w.ints(-1), axis=0)
        picked = w.op(
            "Gather", w.op("Reshape", x, w.op("Concat", w.ints(-1), width, axis=0)), indices, axis=1
        )
        others = w.op("Slice", w.op("Shape", _at_least_two_axes(w, x, shape)), w.ints(0), w.ints(-1))
        result = w.op("Reshape", picked, w.op("Concat", others, w.op("Shape", indices), axis=0))
    else:
        result = w.op("Gather", _at_least_two_axes(w, x, shape), indices, axis=-1)
    w.finish(0, result, x.dtype, dims)


def _fits(w: Writer, features: int) -> None:
    """See that there may be a value for each feature: the second axis, or the only one."""
    shape = w.input().shape
    if shape is None or features == 1:
        return
    if shape.rank() == 0:
        raise CannotRewriteError("its input has no axis")
    size = shape[min(shape.rank(), 2) - 1]
    if isinstance(size, int) and size != features:
        raise CannotRewriteError(f"its input has {size} features, and its attributes {features}")


def _by_feature(
    w: Writer,
    x: onnx_ir.Value,
    features: int,
    function: Callable[[onnx_ir.Value], onnx_ir.Value],
) -> onnx_ir.Value:
    """``function`` of x, in which it can combine the last axis with a value per feature.

    The kernels count features along the second axis, but go through the elements in steps of their number
    whatever axes follow; so does this.
    """
    shape = w.input().shape
    if features == 1 or (shape is not None and shape.rank() in (1, 2)):
        return function(x)
    return w.op("Reshape", function(w.op("Reshape", x, w.ints(-1, features))), w.op("Shape", x))


def _at_least_two_axes(w: Writer, x: onnx_ir.Value, shape: onnx_ir.Shape | None) -> onnx_ir.Value:
    """The value with a first axis of size 1 if it has one axis only."""
    if shape is not None:
        return x if shape.rank() > 1 else w.op("Unsqueeze", x, w.ints(0))
    sizes = w.op("Shape", x)
    more = w.op("Min", w.op("Sub", w.op("Shape", sizes), w.ints(1)), w.ints(1))  # 0 for a vector, else 1
    first = w.op("Slice", w.ints(1), more, w.ints(1))
    return w.op("Reshape", x, w.op("Concat", first, sizes, axis=0))
