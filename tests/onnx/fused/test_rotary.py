"""RotaryEmbedding against ONNX Runtime's kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import differentiate
from tests.onnx.fused.table import Row, check_row, drawn, fused_model

PLACES = np.array([[0, 3, 1], [4, 4, 2]], np.int64)
START = np.array([2], np.int64)


def _row(x: tuple[int, ...], places: np.ndarray, half: int, **attributes: Any) -> Row:
    image, cosines, sines = drawn(x, (6, half), (6, half))
    return Row("RotaryEmbedding", [image, places, cosines, sines], attributes)


ROWS = [
    _row((2, 3, 8), PLACES, 2),
    _row((2, 3, 8), START, 4),
    _row((2, 3, 8), PLACES, 2, interleaved=1),
    _row((2, 3, 12), PLACES, 3, num_heads=2, rotary_embedding_dim=6),
    _row((2, 3, 16), PLACES, 2, num_heads=2, rotary_embedding_dim=4),
    _row((2, 3, 16), START, 2, num_heads=2, rotary_embedding_dim=4, interleaved=1),
    _row((2, 2, 3, 4), PLACES, 2),
    _row((2, 2, 3, 4), START, 2, interleaved=1),
    _row((2, 2, 3, 8), PLACES, 2, num_heads=2, rotary_embedding_dim=4),
    _row((2, 2, 3, 4), PLACES, 2, scale=1.0, is_packed_batching=0),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
def test_definition_and_gradient(row: Row, symbolic: bool) -> None:
    check_row(row, symbolic=symbolic)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (_row((2, 3, 8), PLACES, 2, is_packed_batching=1), "is_packed_batching = 1"),
        (_row((2, 3, 8), PLACES, 2, scale=2.0), "scale = 2.0"),
        (_row((2, 3, 8), PLACES, 2, rotary_embedding_dim=4), "without num_heads"),
    ],
    ids=["packed", "scale", "heads"],
)
def test_other_forms_are_refused(row: Row, why: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=rf"RotaryEmbedding 'node'.*{why}"):
        differentiate(fused_model(row, np.float64), wrt=["x0"], of=row.of)
