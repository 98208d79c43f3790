from __future__ import annotations

import numpy as np
import onnx_ir
import pytest

from netgrad.onnx.shapes import infer_shapes
from netgrad.transforms.cost import Cost, cost_of, total
from tests.runtime.models import FLOAT, model, node, numbers


def cost(op, shapes, initializers=None, opset=18):
    """Cost of the only node of a model."""
    inputs = {name: (FLOAT, shape) for name, shape in shapes.items()}
    outputs = dict.fromkeys(op.output, FLOAT)
    ir_model = onnx_ir.from_proto(model([op], inputs, outputs, initializers, opset=opset))
    infer_shapes(ir_model)
    return cost_of(ir_model.graph[0])


@pytest.mark.parametrize(
    ("op", "shapes", "flops", "elements"),
    [
        # 3 x 5 results of 4 products and 4 additions
        (node("MatMul", "a b", "y"), {"a": [3, 4], "b": [4, 5]}, 120, 12 + 20 + 15),
        (node("MatMul", "a b", "y"), {"a": [2, 3, 4], "b": [4, 5]}, 240, 24 + 20 + 30),
        (node("MatMul", "a b", "y"), {"a": [4], "b": [4]}, 8, 4 + 4 + 1),
        (
            node("Gemm", "a b c", "y", transA=1),
            {"a": [4, 3], "b": [4, 5], "c": [5]},
            120 + 15,
            12 + 20 + 5 + 15,
        ),
        (node("Gemm", "a b", "y", transB=1), {"a": [3, 4], "b": [5, 4]}, 120, 12 + 20 + 15),
        # 2 x 6 x 3 x 4 results, each of 1 channel x 3 x 2 products, and a bias
        (
            node("Conv", "x w b", "y", group=3),
            {"x": [2, 3, 5, 5], "w": [6, 1, 3, 2], "b": [6]},
            144 * 13,
            150 + 36 + 6 + 144,
        ),
        # 2 x 3 x 5 x 5 numbers, each spread over 4 channels x 3 x 2
        (
            node("ConvTranspose", "x w", "y"),
            {"x": [2, 3, 5, 5], "w": [3, 4, 3, 2]},
            150 * 24 * 2,
            150 + 72 + 2 * 4 * 7 * 6,
        ),
        (node("MaxPool", "x", "y", kernel_shape=[2, 3]), {"x": [1, 2, 3, 4]}, 2 * 2 * 2 * 6, 24 + 8),
        (node("GlobalAveragePool", "x", "y"), {"x": [1, 2, 3, 4]}, 24, 24 + 2),
        (node("ReduceSum", "x", "y"), {"x": [3, 4]}, 12, 12 + 1),
        (node("Add", "a b", "y"), {"a": [3, 1], "b": [4]}, 12, 3 + 4 + 12),
        (node("Sum", "a b c", "y"), {"a": [3], "b": [3], "c": [3]}, 6, 12),
        (node("Mul", "a a", "y"), {"a": [3]}, 3, 6),
        (node("Softmax", "x", "y"), {"x": [3, 4]}, 60, 24),
        (node("LRN", "x", "y", size=3), {"x": [1, 2, 3, 4]}, 24 * 8, 48),
        (node("Transpose", "x", "y"), {"x": [3, 4]}, 0, 24),
        (node("Flatten", "x", "y"), {"x": [3, 4]}, 0, 0),
        (node("Einsum", "a b", "y", equation="ij, jk -> ik"), {"a": [3, 4], "b": [4, 5]}, 120, 47),
        # 7 steps, batch 2, 3 gates: W [1, 9, 5], R [1, 9, 3]
        (
            node("GRU", "x w r", "y", hidden_size=3),
            {"x": [7, 2, 5], "w": [1, 9, 5], "r": [1, 9, 3]},
            2 * 7 * 2 * 9 * (5 + 3),
            70 + 45 + 27 + 42,
        ),
    ],
)
def test_costs(op, shapes, flops, elements):
    assert cost(op, shapes) == Cost(flops, 4 * elements)


def test_a_symbolic_batch_counts_as_one_sample():
    assert cost(node("MatMul", "a b", "y"), {"a": ["N", 4], "b": [4, 5]}) == Cost(40, 4 * (4 + 20 + 5))


@pytest.mark.parametrize(
    ("op", "shapes", "expected"),
    [
        (node("Relu", "x", "y"), {"x": None}, Cost(None, None)),
        (node("Relu", "x", "y"), {"x": [None, 3]}, Cost(None, None)),
        (node("Einsum", "a b", "y", equation="...i,i->..."), {"a": [2, 3], "b": [3]}, None),
        (node("Unheard", "x", "y", domain="my"), {"x": [2]}, Cost(None, None)),
    ],
)
def test_what_is_unknown_is_said_to_be(op, shapes, expected):
    found = cost(op, shapes)
    assert found.flops is None
    assert expected is None or found == expected


def test_totals_say_how_much_is_missing():
    assert total([Cost(3, 4), Cost(None, 5), Cost(1, None), Cost(0, 0)]) == (Cost(4, 9), 2)


def test_constants_count_as_read():
    found = cost(node("Gather", "T i", "y"), {}, {"T": numbers(5, 2), "i": np.array([1, 3, 3])})
    assert found == Cost(0, 4 * 10 + 8 * 3 + 4 * 6)
