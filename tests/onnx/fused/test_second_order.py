"""The gradient of the gradient of fused operators, along random directions."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from netgrad.transforms.grad import differentiate
from tests.onnx.fused import (
    test_attention,
    test_fused,
    test_group_query_attention,
    test_quantized,
    test_rotary,
)
from tests.onnx.fused.table import Row, forward, fused_model
from tests.onnx.rules.table import runner

STEP, TOLERANCE = 1e-3, 1e-6


def _of_type(rows: list[Row], op_type: str, *indices: int) -> list[Row]:
    chosen = [row for row in rows if row.type == op_type]
    return [chosen[index] for index in indices]


ROWS = [
    *_of_type(test_attention.ROWS, "Attention", 11, 16, 18),
    *_of_type(test_attention.ROWS, "MultiHeadAttention", 3, 8, 13),
    *_of_type(test_group_query_attention.ROWS, "GroupQueryAttention", 3, 8, 16, 18),
    *_of_type(test_rotary.ROWS, "RotaryEmbedding", 5),
    *_of_type(test_quantized.ROWS, "MatMulNBits", 2),
    *_of_type(test_fused.ROWS, "GroupNorm", 1),
    *_of_type(test_fused.ROWS, "BiasSoftmax", 1),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_second_order(row: Row) -> None:
    rng = np.random.default_rng(8)
    results = forward(row)
    first = differentiate(
        fused_model(row, np.float64, results=results), wrt=row.names, of=row.of, cotangent="input"
    )
    feeds = dict(row.point)
    for name in row.of:
        feeds[first.seeds[name]] = rng.normal(size=results[name].shape)
    of = list(first.outputs.values())
    second = differentiate(first.model, wrt=row.names, of=of, cotangent="input")
    proto = ir.to_proto(second.model)
    onnx.checker.check_model(proto, full_check=True)
    run = runner(ir.to_proto(first.model))
    inner = {name: rng.normal(size=row.point[source].shape) for source, name in first.outputs.items()}
    found = runner(proto)({**feeds, **{second.seeds[name]: array for name, array in inner.items()}})
    assert any(np.any(found[name]) for name in second.outputs.values())

    def objective(step: float, direction: dict[str, np.ndarray]) -> float:
        at = {**feeds, **{name: feeds[name] + step * array for name, array in direction.items()}}
        gradients = run(at)
        return float(sum((gradients[name] * array).sum() for name, array in inner.items()))

    for name in row.names:
        direction = {name: rng.normal(size=feeds[name].shape)}
        coarse, fine = (
            (objective(step, direction) - objective(-step, direction)) / (2 * step)
            for step in (STEP, STEP / 2)
        )
        want = (4 * fine - coarse) / 3
        gradient = found[second.outputs[name]]
        scale = max(1.0, abs(want), float(np.linalg.norm(gradient)))
        assert abs((gradient * direction[name]).sum() - want) <= TOLERANCE * scale, f"by {name}"
