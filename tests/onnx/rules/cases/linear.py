"""Rows of MatMul and Gemm."""

import numpy as np

from tests.onnx.rules.table import Case, exactly, normal

# Every combination of ranks, batches that are equal, broadcast from one side, from both, or missing on one.
MATMUL = [
    ((3,), (3,)),
    ((3,), (3, 2)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((4, 2, 3), (3,)),
    ((3,), (4, 3, 2)),
    ((4, 2, 3), (3, 5)),
    ((2, 2, 4, 3), (3, 5)),
    ((2, 3), (4, 3, 5)),
    ((4, 2, 3), (4, 3, 5)),
    ((1, 2, 3), (4, 3, 5)),
    ((4, 2, 3), (1, 3, 5)),
    ((2, 1, 2, 3), (4, 3, 1)),
    ((2, 1, 2, 3), (1, 3, 3, 2)),
    ((3,), (2, 1, 3, 2)),
    ((1, 1), (1, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((2, 0, 3), (3, 4)),
    ((0, 2, 3), (0, 3, 4)),
]

GEMM_C = [None, (2, 4), (4,), (1, 4), (2, 1), (1,), (), (1, 1)]


def _gemm(trans_a: int, trans_b: int, c: tuple[int, ...] | None, note: str = "", **attributes: float) -> Case:
    a, b = ((3, 2) if trans_a else (2, 3)), ((4, 3) if trans_b else (3, 4))
    flags = {name: 1 for name, flag in (("transA", trans_a), ("transB", trans_b)) if flag}
    inputs = [normal(*a), normal(*b)]
    return Case("Gemm", inputs if c is None else [*inputs, normal(*c)], {**flags, **attributes}, note)


CASES = [
    *(Case("MatMul", [normal(*a), normal(*b)]) for a, b in MATMUL),
    Case("MatMul", [normal(3, 3), normal(3, 3)], note="square"),
    Case("MatMul", [normal(2, 3, 3), normal(2, 3, 3)], note="square batch"),
    Case("MatMul", [normal(2, 3), exactly(np.arange(6.0).reshape(3, 2), fed=False)], note="constant weight"),
    *(_gemm(a, b, c) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1)) for c in (None, (2, 4))),
    *(_gemm(0, 0, c, "C") for c in GEMM_C if c not in (None, (2, 4))),
    *(_gemm(a, b, (4,), "", alpha=0.5, beta=-2.0) for a, b in ((0, 0), (1, 0), (0, 1), (1, 1))),
    _gemm(0, 0, (2, 4), alpha=0.0),
    _gemm(0, 1, (1, 4), beta=0.0),
    Case("Gemm", [normal(0, 3), normal(3, 4), normal(4)], note="empty"),
    Case("Gemm", [normal(2, 0), normal(0, 4), normal(4)], note="nothing to sum"),
]
