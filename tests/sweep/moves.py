"""Other inputs for a test whose own lie on a kink, at a jump or outside of the operator's domain."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.sweep.models import NodeTest

MOVES = ("nothing", "the unclear ones", "all", "infinite ones", "drawn anew")
"""What is moved, in the order of attempts.

First nothing. Then the inputs by which nothing could be measured, upwards by some hundredths; then all of
them, up or down. Then those elements that are infinite or no number become ordinary numbers; at last all
inputs are drawn anew.
"""


def moved(test: NodeTest, names: Collection[str], move: str) -> NodeTest:
    """The test with other content of the inputs or initializers ``names``."""
    if move == "nothing":
        return test
    rng = np.random.default_rng([zlib.crc32(test.name.encode()), MOVES.index(move)])
    inputs = {
        name: _moved(array, rng, move) if name in names else array for name, array in test.inputs.items()
    }
    model = onnx.ModelProto()
    model.CopyFrom(test.model)
    for tensor in model.graph.initializer:
        if tensor.name in names:
            array = _moved(numpy_helper.to_array(tensor), rng, move)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return NodeTest(test.name, model, inputs)


def _moved(array: Any, rng: np.random.Generator, move: str) -> Any:
    wide = np.asarray(array).astype(np.float64)
    finite = np.isfinite(wide)
    typical = (float(np.sqrt(np.mean(wide[finite] ** 2))) if finite.any() else 1.0) or 1.0
    signs = rng.choice([-1.0, 1.0], wide.shape)
    step = rng.uniform(0.01, 0.05, wide.shape) * typical * (1.0 if move == "the unclear ones" else signs)
    ordinary = signs * rng.uniform(0.3, 2.0, wide.shape)
    if move == "drawn anew":
        wide = ordinary
    elif move == "infinite ones":
        wide = np.where(finite, wide, ordinary)
    else:
        wide = np.where(finite, wide + step, wide)
    return wide.astype(np.asarray(array).dtype)
