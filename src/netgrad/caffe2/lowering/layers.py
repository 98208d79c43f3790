"""Layers: products and convolutions; and their gradient operators."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.caffe2.lowering.windows import channels_back, channels_first, closed, cropped, is_nhwc, window
from netgrad.onnx.builder import Builder, Value

# ---- products ----------------------------------------------------------------------------------------


def _matrix(b: Builder, x: Value, axis: int) -> Value:
    return x if x.rank == 2 and axis == 1 else b.op("Flatten", x, axis=axis)


def _ones_in_front(x: Value, axis: int) -> list[int]:
    """The axes of size 1 without which a matrix is left, as in a step of a recurrent net; else none."""
    if axis < 2 or x.rank != axis + 1:
        return []
    ones = [at for at in range(axis) if x.dim(at) == 1]
    return ones[: axis - 1] if len(ones) >= axis - 1 else []


def _fc(c: Context, b: Builder, x: Value, w: Value, bias: Value | None, *, transposed: bool = False) -> Value:
    """Y = X W^T + b with X as a matrix; Y has the dims of X before the axis, and the rows of W."""
    axis = c.axis(x, c.argument("axis", 1))
    weights = _matrix(b, w, c.axis(w, c.argument("axis_w", 1)))
    ones = _ones_in_front(x, axis)
    rows = b.squeeze(x, ones) if ones else _matrix(b, x, axis)
    product = b.op("Gemm", rows, weights, bias, transB=0 if transposed else 1)
    if ones:
        return b.unsqueeze(product, ones)
    if axis == 1:
        return product
    # Asked for when the net runs, so that a model that is stored takes other sizes in front as well.
    front = b.op("Slice", b.op("Shape", x), b.ints([0]), b.ints([axis]))
    columns = b.op("Slice", b.shape_of(product), b.ints([1]), b.ints([2]))
    return b.assume_shape(
        b.op("Reshape", product, b.concat([front, columns], 0)),
        (*(x.shape or ())[:axis], product.dim(1)) if x.shape else None,
    )


@lowers("FC", "FCTransposed", "PackedFC")
def _fully_connected(c: Context, x: Value, w: Value, bias: Value) -> Value:
    return _fc(c, c.b, x, w, bias, transposed=c.definition.type == "FCTransposed")


@lowers("FCGradient", "FCTransposedGradient")
def _fully_connected_gradient(c: Context, x: Value, w: Value, dy: Value) -> list[Value]:
    transposed = c.definition.type == "FCTransposedGradient"

    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [_fc(c, b, given[0], given[1], None, transposed=transposed)]

    if c.outputs < 3:
        (dw,) = gradients(c.b, lambda b, given: write(b, given[::-1]), [w], [dy], [x])
        return [dw, _all_but_last(c, dy)]
    dx, dw = gradients(c.b, write, [x, w], [dy])
    return [dw, _all_but_last(c, dy), dx]


def _all_but_last(c: Context, dy: Value) -> Value:
    return c.b.reduce_sum(dy, range(c.rank(dy) - 1))


def _swapped(b: Builder, x: Value, flag: bool) -> Value:
    """A matrix transposed; a vector is the same either way."""
    rank = x.rank or 2
    return b.transpose(x, [*range(rank - 2), rank - 1, rank - 2]) if flag and rank > 1 else x


@lowers("MatMul")
def _matmul(c: Context, left: Value, right: Value, like: Value | None = None) -> Value:
    a = _swapped(c.b, _matrix(c.b, left, c.argument("axis_a", 1)), c.argument("trans_a", False))
    b = _swapped(c.b, _matrix(c.b, right, c.argument("axis_b", 1)), c.argument("trans_b", False))
    product = a @ b
    return product if like is None else c.b.reshape_like(product, like)


@lowers("BatchMatMul")
def _batch_matmul(c: Context, left: Value, right: Value) -> Value:
    return _swapped(c.b, left, c.argument("trans_a", False)) @ _swapped(
        c.b, right, c.argument("trans_b", False)
    )


def _over_rows(b: Builder, x: Value) -> Value:
    return b.reduce_sum(x, range(1, x.rank or 1))


def _dot(b: Builder, given: list[Value]) -> list[Value]:
    return [_over_rows(b, given[0] * given[1])]


def _squared_distance(b: Builder, given: list[Value]) -> list[Value]:
    difference = given[0] - given[1]
    return [_over_rows(b, difference * difference) * 0.5]


def _distance(b: Builder, given: list[Value]) -> list[Value]:
    return [_over_rows(b, b.op("Abs", given[0] - given[1]))]


def _cosine(b: Builder, given: list[Value]) -> list[Value]:
    x, y = given
    least = b.scalar(1e-12, x)
    norms = [b.op("Max", _over_rows(b, z * z), least) for z in (x, y)]
    return [_over_rows(b, x * y) / b.op("Sqrt", norms[0] * norms[1])]


_ROWWISE = {
    "DotProduct": _dot,
    "SquaredL2Distance": _squared_distance,
    "L1Distance": _distance,
    "CosineSimilarity": _cosine,
}


@lowers(*_ROWWISE)
def _rowwise(c: Context, x: Value, y: Value) -> Sequence[Value]:
    c.same_ranks(x, y)
    return _ROWWISE[c.definition.type](c.b, [x, y])


@lowers(*(f"{type_}Gradient" for type_ in _ROWWISE))
def _rowwise_gradient(c: Context, x: Value, y: Value, dz: Value) -> list[Value]:
    return gradients(c.b, _ROWWISE[c.definition.type.removesuffix("Gradient")], [x, y], [dz])


def _elementwise_linear(c: Context, b: Builder, x: Value, w: Value, bias: Value) -> Value:
    """Y = X w + b for each column of X as a matrix."""
    rows = _matrix(b, x, c.axis(x, c.argument("axis", 1)))
    result = rows * w + bias
    return result if rows is x else b.reshape_like(result, x)


@lowers("ElementwiseLinear")
def _linear(c: Context, x: Value, w: Value, bias: Value) -> Value:
    return _elementwise_linear(c, c.b, x, w, bias)


@lowers("ElementwiseLinearGradient")
def _linear_gradient(c: Context, dy: Value, x: Value, w: Value) -> list[Value]:
    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [_elementwise_linear(c, b, *given)]

    return gradients(c.b, write, [x, w, c.b.zeros_like(w)], [dy])


# ---- convolutions ------------------------------------------------------------------------------------


def _conv(c: Context, b: Builder, x: Value, w: Value, bias: Value | None) -> Value:
    nhwc = is_nhwc(c)
    image, kernel = channels_first(b, x, nhwc), channels_first(b, w, nhwc)
    at = window(c, image)
    if at.ceil:
        at = closed(c, image, at)
    image, at = cropped(b, image, at)
    result = b.op(
        "Conv",
        image,
        kernel,
        bias,
        kernel_shape=at.kernel,
        strides=at.strides,
        dilations=at.dilations,
        pads=at.pads,
        group=c.argument("group", 1),
    )
    if _activation(c):
        result = b.op("Relu", result)
    return channels_back(b, result, nhwc)


def _activation(c: Context) -> str:
    """The activation that a convolution of the engine NNPACK has in it; other engines know none."""
    activation = c.argument("activation", "") if c.definition.engine == "NNPACK" else ""
    if activation not in ("", "Relu"):
        raise c.refused(f"the activation '{activation}' is not known: only Relu is")
    return activation


def _conv_transpose(c: Context, b: Builder, x: Value, w: Value, bias: Value | None) -> Value:
    nhwc = is_nhwc(c)
    image, kernel = channels_first(b, x, nhwc), channels_first(b, w, nhwc)
    at = window(c, image)
    dims = c.rank(x) - 2
    adjust = c.integers("adjs")
    if not adjust:
        adjust = [c.argument(f"adj_{letter}", c.argument("adj", 0)) for letter in "hw"[:dims]]
    result = b.op(
        "ConvTranspose",
        image,
        kernel,
        bias,
        kernel_shape=at.kernel,
        strides=at.strides,
        pads=[0] * (2 * dims) if c.argument("legacy_pad", 0) in (1, 2) else at.pads,
        output_padding=adjust if any(adjust) else None,
        group=c.argument("group", 1),
    )
    return channels_back(b, result, nhwc)


_CONVOLUTIONS = {
    "Conv": _conv,
    "Conv1D": _conv,
    "Conv2D": _conv,
    "Conv3D": _conv,
    "ConvTranspose": _conv_transpose,
}


@lowers(*_CONVOLUTIONS)
def _convolution(c: Context, x: Value, w: Value, bias: Value | None = None) -> Value:
    return _CONVOLUTIONS[c.definition.type](c, c.b, x, w, bias)


@lowers(*(f"{type_}Gradient" for type_ in _CONVOLUTIONS))
def _convolution_gradient(c: Context, x: Value, w: Value, dy: Value) -> list[Value]:
    """Gradients of the kernel, of the bias unless ``no_bias``, and of the image unless it is left out."""
    function = _CONVOLUTIONS[c.definition.type.removesuffix("Gradient")]
    if _activation(c):
        raise c.refused("the engine NNPACK has no gradient of a convolution with an activation in it")

    def write(b: Builder, given: list[Value]) -> list[Value]:
        return [function(c, b, given[1], given[0], None)]

    if c.argument("no_gradient_to_input", False):
        found = gradients(c.b, write, [w], [dy], [x])
    else:
        found = gradients(c.b, write, [w, x], [dy])
    if not c.argument("no_bias", False):
        channels = c.rank(dy) - 1 if is_nhwc(c) else 1
        found.insert(1, c.b.reduce_sum(dy, [k for k in range(c.rank(dy)) if k != channels]))
    return found
