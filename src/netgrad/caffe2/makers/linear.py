"""Makers of products and of layers that are products."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.makers.notation import Line, Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "FC": "FCGradient(I0,I1,G0)->(D1,D2,D0)",
        "FCTransposed": "FCTransposedGradient(I0,I1,G0)->(D1,D2,D0)",
        "FC_Decomp": "FCGradient_Decomp(I0,I1,I2,G0)->(D1,D2,D3,D0)",
        "FC_Prune": "FCGradient_Prune(I0,I1,I2,G0,I4,I5,I6,I7)->(D1,D3,I1,I2,I4,I5,D0)",
        "ElementwiseLinear": "ElementwiseLinearGradient(G0,I0,I1)->(D0,D1,D2)",
        "RowMul": (
            'RowMul(G0,I1)->(D0); Mul(G0,I0)->(D1"before_aggregate"); '
            'ReduceTailSum(D1"before_aggregate")->(D1)'
        ),
        "DotProduct": "DotProductGradient(I0,I1,G0)->(D0,D1)",
        "CosineSimilarity": "CosineSimilarityGradient(I0,I1,G0)->(D0,D1)",
        "L1Distance": "L1DistanceGradient(I0,I1,G0)->(D0,D1)",
        "SquaredL2Distance": "SquaredL2DistanceGradient(I0,I1,G0)->(D0,D1)",
        "TTContraction": "TTContractionGradient(G0,I0,I1)->(D0,D1)",
        "TTPad": "TTPadGradient(G0,O1)->(D0)",
    }
)

_FLAGS = tuple[bool, bool]


def _flags(op: Operator) -> _FLAGS:
    return bool(op.attributes.get("trans_a", 0)), bool(op.attributes.get("trans_b", 0))


@maker("MatMul")
def _matmul(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    """Gradients are products again; a third operand gives a product the shape of the input."""
    # The original read the axes as booleans, so that those above 1 became 1.
    a, b = (op.attributes.get(name, 1) for name in ("axis_a", "axis_b"))

    def flags(*names: str, **axes: int) -> str:
        pairs = [f"{name}=1" for name in names] + [f"{name}={value}" for name, value in axes.items()]
        return "{" + ",".join(pairs) + "}"

    first, second = {
        (False, False): (
            "MatMul(G0,I1,I0)->(D0)" + flags("trans_b", axis_b=b),
            "MatMul(I0,G0,I1)->(D1)" + flags("trans_a", axis_a=a),
        ),
        (False, True): (
            "MatMul(G0,I1,I0)->(D0)" + flags(axis_b=b),
            "MatMul(G0,I0,I1)->(D1)" + flags("trans_a", axis_b=a),
        ),
        (True, False): (
            "MatMul(I1,G0,I0)->(D0)" + flags("trans_b", axis_a=b),
            "MatMul(I0,G0,I1)->(D1)" + flags(axis_a=a),
        ),
        (True, True): (
            "MatMul(I1,G0,I0)->(D0)" + flags("trans_a", "trans_b", axis_a=b),
            "MatMul(G0,I0,I1)->(D1)" + flags("trans_a", "trans_b", axis_b=a),
        ),
    }[_flags(op)]
    return Line(f"{first}; {second}", copies_arguments=False)


@maker("BatchMatMul")
def _batch_matmul(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    if op.attributes.get("broadcast", 0):
        raise Refusal("BatchMatMul with broadcast=1 has no gradient")
    text = {
        (False, False): "BatchMatMul(G0,I1)->(D0){trans_b=1}; BatchMatMul(I0,G0)->(D1){trans_a=1}",
        (False, True): "BatchMatMul(G0,I1)->(D0); BatchMatMul(G0,I0)->(D1){trans_a=1}",
        (True, False): "BatchMatMul(I1,G0)->(D0){trans_b=1}; BatchMatMul(I0,G0)->(D1)",
        (True, True): (
            "BatchMatMul(I1,G0)->(D0){trans_a=1,trans_b=1}; BatchMatMul(G0,I0)->(D1){trans_a=1,trans_b=1}"
        ),
    }[_flags(op)]
    return Line(text, copies_arguments=False)


@maker("DotProductWithPadding")
def _padded_dot_product(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    pad_value = make_argument("pad_value", float(op.attributes.get("pad_value", 0.0)))
    replicate = make_argument("replicate", bool(op.attributes.get("replicate", 0)))
    return Line("DotProductWithPaddingGradient(I0,I1,G0)->(D0,D1)", arguments=(pad_value, replicate))


@maker("FunHash")
def _fun_hash(op: Operator, grads: Sequence[Gradient | None]) -> str:
    return "FunHashGradient(G0,I*)->(D3,D4)" if len(op.inputs) > 4 else "FunHashGradient(G0,I*)->(D3)"


@maker("SparseFunHash")
def _sparse_fun_hash(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if len(op.inputs) > 4:
        return "SparseFunHashGradient(G0,I*)->(V3,X3,D4); S3=(X3,V3)"
    return "SparseFunHashGradient(G0,I*)->(V3,X3); S3=(X3,V3)"
