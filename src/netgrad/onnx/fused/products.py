"""Fused matrix products."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.fused.activations import activated, tanh_gelu
from netgrad.onnx.fused.definition import Writer, fused


def _parameters(w: Writer) -> list[float]:
    given = [w.attribute(f"activation_{name}") for name in ("alpha", "beta", "gamma")]
    return [value for value in given if value is not None]


def _product(w: Writer) -> str:
    """Write alpha A B, with the last two axes of A or of B exchanged where transA or transB says so."""
    if w.attribute("transBatchA", 0) or w.attribute("transBatchB", 0):
        raise w.refused("it moves the batch axes")
    operands = [
        _turned(w, name, w.dtype(k)) if w.attribute(flag, 0) else name
        for k, (name, flag) in enumerate([("a", "transA"), ("b", "transB")])
    ]
    product = w.op("MatMul", *operands)
    alpha = w.attribute("alpha", 1.0)
    return product if alpha == 1.0 else w.op("Mul", product, w.number(alpha, "a"))


def _turned(w: Writer, name: str, dtype: onnx_ir.DataType | None) -> str:
    """Write a matrix of any rank with its last two axes exchanged: Einsum, which takes no bfloat16."""
    if dtype is not onnx_ir.DataType.BFLOAT16:
        return w.op("Einsum", name, equation="...ij->...ji")
    wide = w.op("Einsum", w.cast(name, onnx_ir.DataType.FLOAT), equation="...ij->...ji")
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
