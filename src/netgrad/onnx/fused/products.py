"""Fused matrix products."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.activations import activated, tanh_gelu
from netgrad.onnx.fused.definition import Writer, fused


def _parameters(w: Writer) -> list[float]:
    given = [w.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [value for value in given if value is not None]


def _product(w: Writer) -> str:
    """Write alpha A B, each factor with its axes in another order where the attributes say so.

    transBatchA moves the first axis of A behind the others but the last; transA then exchanges the last two.
    """
    operands = [_turned(w, k, name) for k, name in enumerate("ab")]
    product = w.op("MatMul", *operands)
    alpha = w.attribute("alpha", 1.0)
    return product if alpha == 1.0 else w.op("Mul", product, w.number(alpha, "a"))


def _turned(w: Writer, index: int, name: str) -> str:
    """Write a factor of any rank with its axes in order: by Einsum, which takes no bfloat16."""
    exchanged, moved = (w.attribute(f"{flag}{name.upper()}", 0) for flag in ("trans", "transBatch"))
    if not (exchanged or moved):
        return name
    equation = f"{'i...j' if moved else '...ij'}->...{'ji' if exchanged else 'ij'}"
    dtype = w.dtype(index)
    if dtype is not onnx_ir.DataType.BFLOAT16:
        return w.op("Einsum", name, equation=equation)
    wide = w.op("Einsum", w.cast(name, onnx_ir.DataType.FLOAT), equation=equation)
    return w.cast(wide, dtype)


@fused("FusedMatMul", inputs="a b", attributes="alpha transA transB transBatchA transBatchB")
@fused("TransposeMatMul", inputs="a b", attributes="alpha transA transB")
def matmul(w: Writer) -> None:
    """Y = alpha A B, each factor turned or not."""
    w.op("Identity", _product(w), to="y")


@fused(
    "FusedMatMulActivation",
    inputs="a b",
    attributes="""activation activation_alpha activation_axis activation_beta activation_gamma
        alpha transA transB transBatchA transBatchB""",
)
def matmul_activation(w: Writer) -> None:
    """Y = activation(alpha A B)."""
    if "activation_axis" in w.node.attributes:
        raise w.refused("its activation along an axis is not understood")
    activated(w, _product(w), _parameters(w))


@fused(
    "FusedGemm",
    inputs="a b c",
    attributes="activation activation_alpha activation_beta activation_gamma alpha beta transA transB",
)
def gemm(w: Writer) -> None:
    """Y = activation(alpha A B + beta C)."""
    operands = "a, b, c" if w.has(2) else "a, b"
    w.line(f"sum = Gemm {w.attributes('alpha', 'beta', 'transA', 'transB')} ({operands})")
    activated(w, "sum", _parameters(w))


@fused("GemmFastGelu", inputs="x w bias")
def gemm_fast_gelu(w: Writer) -> None:
    """Y = FastGelu(X W + bias)."""
    product = w.op("MatMul", "x", "w")
    tanh_gelu(w, w.op("Add", product, "bias") if w.has(2) else product, "y")
