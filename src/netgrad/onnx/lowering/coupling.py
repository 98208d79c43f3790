"""Probabilities of classes from those of pairs of classes, as libsvm and ONNX Runtime's kernel find them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx
import onnx.parser
import onnx_ir

from netgrad.onnx.lowering.writer import Writer

_ITERATIONS = 100


def coupled(w: Writer, pairwise: onnx_ir.Value, classes: int) -> onnx_ir.Value:
    """The class probabilities p that fit the pairwise ones best; of shape (batch, classes).

    With r_ij the probability of class i against j, p is to minimise ``p^T Q p`` where ``Q_ii`` is the sum of
    r_ji^2 over j and ``Q_ij = -r_ji r_ij`` (Wu, Lin and Weng 2004, "Probability estimates for multi-class
    classification by pairwise coupling", algorithm 2). The iteration is part of the definition: it starts at
    equal probabilities and stops, row by row, when the largest error is below 0.005 / classes, or after 100
    rounds. The result is that of its last round, and its derivative is that of the rounds that were done.

    Args:
        w: Receives the operators.
        pairwise: r_ij for i < j, in order, of shape (batch, pairs).
        classes: How many classes there are.
    """
    pairs = list(combinations(range(classes), 2))
    upper = np.zeros(
        (len(pairs), classes * classes), np.float32
    )  # where r_ij goes in a (classes, classes) table
    lower = np.zeros_like(upper)
    for k, (i, j) in enumerate(pairs):
        upper[k, i * classes + j] = lower[k, j * classes + i] = 1.0
    other = w.op("Sub", w.constant(1.0), pairwise)
    flat = w.op("Add", w.op("MatMul", pairwise, w.constant(upper)), w.op("MatMul", other, w.constant(lower)))
    table = w.op("Reshape", flat, w.ints(-1, classes, classes))
    turned = w.op("Transpose", table, perm=[0, 2, 1])
    diagonal = w.op("ReduceSumSquare", table, w.ints(1))  # sum over j of r_ji^2, of shape (batch, 1, classes)
    matrix = w.op(
        "Sub",
        w.op("Mul", diagonal, w.constant(np.eye(classes))),
        w.op("Mul", table, turned),  # 0 on the diagonal
    )
    column = w.op("Slice", pairwise, w.ints(0), w.ints(1), w.ints(1))
    zero = w.op("Mul", column, w.constant(0.0))
    start = w.op("Add", zero, w.constant(np.full((1, classes), np.float32(1.0) / np.float32(classes))))
    active = w.op("GreaterOrEqual", column, w.constant(0.0))  # every row, and the size of the batch
    states = [w.constant(_ITERATIONS, np.int64), None, matrix, start, active]
    return w.node_with_graph("Loop", states, onnx_ir.AttrGraph("body", _rounds(classes)), 3)[1]


def _rounds(classes: int) -> onnx_ir.Graph:
    """The body of the loop: one round, coordinate after coordinate, for the rows that have not stopped."""
    lines = [
        f"eps = Constant <value = float {{{float(np.float32(0.005) / np.float32(classes))!r}}}> ()",
        "one = Constant <value = float {1.0}> ()",
        "two = Constant <value = float {2.0}> ()",
        "last = Constant <value_ints = [-1]> ()",
        "qq = Identity (q)",
        "column = Unsqueeze (p, last)",
        "product = MatMul (q, column)",
        "qp_0 = Squeeze (product, last)",
        "weighted_0 = Mul (p, qp_0)",
        "pqp_0 = ReduceSum (weighted_0, last)",
        "apart = Sub (qp_0, pqp_0)",
        "sizes = Abs (apart)",
        "error = ReduceMax (sizes, last)",
        "far = GreaterOrEqual (error, eps)",
        "goes_on = And (active, far)",
        "p_0 = Identity (p)",
    ]
    for i in range(classes):
        unit = ", ".join("1.0" if k == i else "0.0" for k in range(classes))
        lines += [
            f"at_{i} = Constant <value_ints = [{i}]> ()",
            f"beyond_{i} = Constant <value_ints = [{i + 1}]> ()",
            f"axis_{i} = Constant <value_ints = [1]> ()",
            f"unit_{i} = Constant <value_floats = [{unit}]> ()",
            f"thick_{i} = Slice (q, at_{i}, beyond_{i}, axis_{i})",
            f"row_{i} = Squeeze (thick_{i}, axis_{i})",
            f"qii_{i} = Slice (row_{i}, at_{i}, beyond_{i}, axis_{i})",
            f"qpi_{i} = Slice (qp_{i}, at_{i}, beyond_{i}, axis_{i})",
            f"gap_{i} = Sub (pqp_{i}, qpi_{i})",
            f"diff_{i} = Div (gap_{i}, qii_{i})",
            f"sum_{i} = Add (one, diff_{i})",
            f"square_{i} = Mul (diff_{i}, qii_{i})",
            f"double_{i} = Mul (two, qpi_{i})",
            f"slope_{i} = Add (square_{i}, double_{i})",
            f"change_{i} = Mul (diff_{i}, slope_{i})",
            f"moved_{i} = Add (pqp_{i}, change_{i})",
            f"scaled_{i} = Div (moved_{i}, sum_{i})",
            f"pqp_{i + 1} = Div (scaled_{i}, sum_{i})",
            f"step_{i} = Mul (diff_{i}, row_{i})",
            f"stepped_{i} = Add (qp_{i}, step_{i})",
            f"qp_{i + 1} = Div (stepped_{i}, sum_{i})",
            f"here_{i} = Mul (diff_{i}, unit_{i})",
            f"raised_{i} = Add (p_{i}, here_{i})",
            f"p_{i + 1} = Div (raised_{i}, sum_{i})",
        ]
    lines += [
        f"next = Where (goes_on, p_{classes}, p)",
        "counts = Cast <to = 6> (goes_on)",
        "any = ReduceMax <keepdims = 0> (counts)",
        "more = Cast <to = 9> (any)",
    ]
    signature = (
        f"(int64 round, bool go, float[batch, {classes}, {classes}] q, float[batch, {classes}] p, "
        f"bool[batch, 1] active) => "
        f"(bool more, float[batch, {classes}, {classes}] qq, float[batch, {classes}] next, "
        f"bool[batch, 1] goes_on)"
    )
    graph = onnx.parser.parse_graph(f"round {signature} {{\n" + "\n".join(lines) + "\n}")
    return onnx_ir.serde.deserialize_graph(graph)
