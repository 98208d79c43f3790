"""FlexAttention is expanded, and what its graphs read from outside has gradients."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from netgrad import grad, run
from tests.onnx.models import normal

# The names of what the graphs capture are names that the standard's definition uses inside.
TEXT = """<ir_version: 10, opset_import: ["": 26, "ai.onnx.preview": 1]>
    g (float[1, 2, 3, 4] Q, float[1, 1, 5, 4] K, float[1, 1, 5, 6] V, float Score, float[5] Prob)
        => (float[1, 2, 3, 6] Y) {
        Y = ai.onnx.preview.FlexAttention<
            score_mod = s (float[B, H, L, S] scores) => (float[B, H, L, S] out) { out = Mul(scores, Score) },
            prob_mod = p (float[B, H, L, S] probs) => (float[B, H, L, S] out) { out = Add(probs, Prob) }
        >(Q, K, V)
    }"""
NAMES = ("Q", "K", "V", "Score", "Prob")


def attention(Q: np.ndarray, K: np.ndarray, V: np.ndarray, Score: np.ndarray, Prob: np.ndarray) -> np.ndarray:
    scores = Q @ K.swapaxes(2, 3) / 2 * Score
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray((exponentials / exponentials.sum(axis=-1, keepdims=True) + Prob) @ V)


@pytest.fixture(scope="module")
def point() -> dict[str, np.ndarray]:
    shapes = [(1, 2, 3, 4), (1, 1, 5, 4), (1, 1, 5, 6), (), (5,)]
    return {name: normal(k, *shape) for k, (name, shape) in enumerate(zip(NAMES, shapes, strict=True))}


def test_its_graphs_are_part_of_the_gradient(point: dict[str, np.ndarray]) -> None:
    model = grad(parser.parse_model(TEXT), wrt=NAMES, of="Y", cotangent="input")
    cotangent = normal(9, 1, 2, 3, 6)
    results = run(model, {**point, "Y_grad": cotangent})
    wide = {name: array.astype(np.float64) for name, array in point.items()}
    np.testing.assert_allclose(results["Y"], attention(**wide), rtol=1e-5, atol=1e-6)
    rng = np.random.default_rng(0)
    for name in NAMES:
        direction = rng.standard_normal(point[name].shape)
        high, low = (
            (attention(**{**wide, name: wide[name] + step * direction}) * cotangent).sum()
            for step in (1e-5, -1e-5)
        )
        slope = (results[f"{name}_grad"] * direction).sum()
        assert slope == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-4)
