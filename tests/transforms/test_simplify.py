"""Chains of operators that only arrange elements become shorter, and give the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import netgrad
from netgrad.core.operator import Operator
from netgrad.transforms.simplify import simplified


def op(op_type: str, reads: str, writes: str, **attributes: Any) -> Operator:
    return Operator(op_type, tuple(reads.split()), (writes,), attributes)


def constant(name: str, *numbers: int) -> Operator:
    return Operator("Constant", (), (name,), {"value": ir.tensor(np.array(numbers, np.int64))})


GIVEN = {"given": np.array([0, 2])}


@pytest.mark.parametrize(
    ("operators", "reads", "same"),
    [
        ([constant("a", 2, 0), op("Unsqueeze", "x a", "u"), op("Squeeze", "u given", "y")], "u given", True),
        ([constant("a", 0, 1), op("Unsqueeze", "x a", "u"), op("Squeeze", "u given", "y")], "u given", False),
        ([op("Unsqueeze", "x unknown", "u"), op("Squeeze", "u unknown", "y")], "u unknown", False),
        ([constant("s", 3, -1), op("Flatten", "x", "u"), op("Reshape", "u s", "y")], "x s", False),
        ([constant("s", 0, -1), op("Flatten", "x", "u"), op("Reshape", "u s", "y")], "u s", False),
        ([op("Squeeze", "x", "u"), op("Reshape", "u shape", "y")], "u shape", False),
        ([op("Reshape", "x s", "u"), op("Squeeze", "u", "y")], "u", False),
        ([op("Transpose", "x", "u", perm=[1, 2, 0]), op("Transpose", "u", "y", perm=[2, 0, 1])], "u", True),
        ([op("Transpose", "x", "u", perm=[1, 2, 0]), op("Transpose", "u", "y", perm=[1, 2, 0])], "x", False),
        ([op("Transpose", "x", "u"), op("Transpose", "u", "y")], "u", False),
    ],
)
def test_what_an_operator_reads(operators: list[Operator], reads: str, same: bool) -> None:
    found = simplified(operators, GIVEN.get)
    assert found.operators[-1].inputs == tuple(reads.split())
    assert found.same == ({"y": "x"} if same else {})
    assert [op.outputs for op in found.operators] == [op.outputs for op in operators]


def test_transpositions_are_joined_in_order() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    first, second = [1, 2, 0], [0, 2, 1]
    pair = [op("Transpose", "x", "u", perm=first), op("Transpose", "u", "y", perm=second)]
    order = simplified(pair, GIVEN.get).operators[-1].attributes["perm"]
    np.testing.assert_array_equal(x.transpose(order), x.transpose(first).transpose(second))


def test_readers_of_what_vanishes_read_what_it_was() -> None:
    chain = [
        *(op("Unsqueeze", "x given", "u"), op("Squeeze", "u given", "v")),
        *(op("Unsqueeze", "v given", "w"), op("Squeeze", "w given", "y"), op("Neg", "y", "z")),
    ]
    found = simplified(chain, GIVEN.get)
    assert found.operators[-1].inputs == ("x",)
    assert found.same == {"v": "x", "y": "x"}


@pytest.mark.parametrize("batch", ["n", "2"])
def test_gradients_of_scales_per_channel_have_no_detours(batch: str) -> None:
    """A weight of shape [c] that is given its axes by Unsqueeze, as old exporters write it."""
    text = f"""<ir_version: 10, opset_import: ["": 18]>
        net (float[{batch}, 3, 4, 5] x) => (float[{batch}, 3, 4, 5] y)
        <float[3] w = {{0.5, -1.0, 2.0}}, int64[2] axes = {{1, 2}}>
        {{ s = Unsqueeze(w, axes)  y = Mul(x, s) }}"""
    gradient = netgrad.grad(onnx.parser.parse_model(text), wrt="w")
    counts = Counter(node.op_type for node in gradient.graph)
    assert counts["Unsqueeze"] == 1  # the forward one
    assert counts["Squeeze"] == 0
    x = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
    found = netgrad.run(gradient, {"x": x}, ["w_grad"])["w_grad"]
    np.testing.assert_allclose(found, x.sum((0, 2, 3)), rtol=1e-5)
