"""Weights and activations of few bits: what is an integer has no gradient, all else does."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.definition import Writer, fused

_INT32 = onnx_ir.DataType.INT32


@fused(
    "MatMulNBits",
    inputs="a b scales zero_points groups bias",
    attributes="K N accuracy_level bits block_size weight_prepacked",
)
def matmul_n_bits(w: Writer) -> None:
    """Y = A W^T + bias with W[n, k] = (B[n, k] - zero_point[n, g]) scale[n, g], where g = k / block_size.

    With the input g_idx, here ``groups``, g = g_idx[k]. B packs several numbers into a byte, the first into
    the lowest bits, and so do zero points of type uint8. ``accuracy_level`` allows the kernel to round A; the
    gradient is that of the exact product.
    """
    w.refuse_attributes(weight_prepacked=0)
    bits, block = int(w.attribute("bits", 4)), int(w.attribute("block_size"))
    depth, features = int(w.attribute("K")), int(w.attribute("N"))
    if bits not in (2, 4, 8):
        raise w.refused(f"bits = {bits} is not understood, only 2, 4 and 8")
    if any(w.dim(1, axis) == 0 for axis in range(3)):
        raise w.refused("its weights are left out")
    blocks = -(-depth // block)
    by_index = w.has(4)
    if by_index and w.has(3) and w.known_dtype(3) == onnx_ir.DataType.UINT8:
        raise w.refused("it has g_idx and packed zero points, of which kernel and documentation differ")
    whole = w.op("Reshape", _unpacked(w, "b", bits), w.ints(features, blocks, block))
    zeros = _zero_points(w, bits, features, blocks)
    if by_index:
        # one number per column in place of one per block
        columns = w.op("Reshape", whole, w.ints(features, -1))
        end, axis = w.ints(depth), w.ints(1)
        columns = w.op("Slice", columns, w.ints(0), end, axis)
        scales, zeros = (
            w.op("Gather", w.op("Reshape", part, w.ints(-1, blocks)), "groups", axis=1)
            for part in ("scales", zeros)
        )
        weights = w.op("Mul", w.op("Sub", w.op("CastLike", columns, "a"), zeros), scales)
    else:
        scales, zeros = (w.op("Reshape", part, w.ints(-1, blocks, 1)) for part in ("scales", zeros))
        exact = w.op("Mul", w.op("Sub", w.op("CastLike", whole, "a"), zeros), scales)
        weights = w.op("Reshape", exact, w.ints(features, -1))
        if blocks * block != depth:
            weights = w.op("Slice", weights, w.ints(0), w.ints(depth), w.ints(1))
    product = w.op("MatMul", "a", w.op("Transpose", weights, perm=[1, 0]))
    w.op(*(("Add", product, "bias") if w.has(5) else ("Identity", product)), to="y")


def _zero_points(w: Writer, bits: int, features: int, blocks: int) -> str:
    """Write the zero points, [features, blocks] or [1, 1], in the type of A."""
    if not w.has(3):
        return w.op("Expand", w.number(1 << (bits - 1), "a"), w.ints(1, blocks))
    if w.known_dtype(3) != onnx_ir.DataType.UINT8:
        return w.op("CastLike", "zero_points", "a")
    rows = w.op("Reshape", "zero_points", w.ints(features, -1))
    unpacked = w.op("Reshape", _unpacked(w, rows, bits), w.ints(features, -1))
    exact = w.op("Slice", unpacked, w.ints(0), w.ints(blocks), w.ints(1))
    return w.op("CastLike", exact, "a")


def _unpacked(w: Writer, packed: str, bits: int) -> str:
    """Write the numbers in each byte as int32, along a new last axis."""
    byte = w.cast(packed, _INT32)
    if bits == 8:
        return byte
    each = w.op("Unsqueeze", byte, w.ints(-1))
    unit = w.cast(w.ints(*(1 << shift for shift in range(0, 8, bits))), _INT32)
    base = w.cast(w.ints(1 << bits), _INT32)
    return w.op("Mod", w.op("Div", each, unit), base)


@fused("DynamicQuantizeMatMul", inputs="a b b_scale b_zero bias")
def dynamic_quantize_mat_mul(w: Writer) -> None:
    """Y = s b_scale (Q - z) (B - b_zero) + bias, with Q, s and z of DynamicQuantizeLinear of A."""
    w.ops("DynamicQuantizeLinear", "a", to=("q", "s", "z"))
    b = ("b", "b_zero" if w.has(3) else "")
    _with_bias(w, integer_product(w, ("q", "z"), b, w.op("Mul", "s", "b_scale")), 4)


@fused("MatMulIntegerToFloat", inputs="a b a_scale b_scale a_zero b_zero bias")
def mat_mul_integer_to_float(w: Writer) -> None:
    """Y = a_scale b_scale (A - a_zero) (B - b_zero) + bias."""
    a, b = ("a", "a_zero" if w.has(4) else ""), ("b", "b_zero" if w.has(5) else "")
    _with_bias(w, integer_product(w, a, b, w.op("Mul", "a_scale", "b_scale")), 6)


def integer_product(w: Writer, a: tuple[str, str], b: tuple[str, str], scale: str) -> str:
    """Write scale (A - a_zero) (B - b_zero), of two integer tensors with their zero points, "" for none."""
    operands = [a[0], b[0], a[1], b[1]]
    while not operands[-1]:
        operands.pop()
    product = w.cast(w.op("MatMulInteger", *operands), onnx_ir.DataType.FLOAT)
    return w.op("Mul", product, scale)


def _with_bias(w: Writer, product: str, index: int) -> None:
    """Write y: a product, plus the bias that input ``index`` is, if there is one."""
    w.op(*(("Add", product, "bias") if w.has(index) else ("Identity", product)), to="y")


def _check_bytes(w: Writer, index: int) -> None:
    """Other integers the standard has only from some opset on."""
    if w.known_dtype(index) not in (onnx_ir.DataType.INT8, onnx_ir.DataType.UINT8):
        raise w.refused(f"its input {index} is neither int8 nor uint8")


def _as_standard(w: Writer) -> None:
    operands = ["x", "scale", *(["zero_point"] if w.has(2) else [])]
    w.op(w.node.op_type, *operands, to="y", axis=int(w.attribute("axis", 1)))


@fused("DequantizeLinear", inputs="x scale zero_point", attributes="axis")
def dequantize_linear(w: Writer) -> None:
    """The standard's DequantizeLinear, for bytes."""
    _check_bytes(w, 0)
    _as_standard(w)


@fused("QuantizeLinear", inputs="x scale zero_point", attributes="axis")
def quantize_linear(w: Writer) -> None:
    """The standard's QuantizeLinear, for bytes."""
    if w.has(2):
        _check_bytes(w, 2)
    _as_standard(w)
