from __future__ import annotations

import numpy as np
import onnx
import pytest

from netgrad.core.errors import InvalidArgumentError
from netgrad.runtime.sample import sample_inputs
from tests.runtime.models import FLOAT, model, node, numbers

INT64 = onnx.TensorProto.INT64


def test_symbols_have_one_size_throughout():
    proto = model(
        [node("Add", "a b", "y")], {"a": (FLOAT, ["N", "M", 7]), "b": (FLOAT, ["M", 1])}, {"y": FLOAT}
    )
    shapes = {name: array.shape for name, array in sample_inputs(proto).items()}
    assert shapes["a"][1] == shapes["b"][0] != shapes["a"][0]
    assert shapes["a"][2] == 7
    given = {"b": numbers(9, 1)}
    filled = sample_inputs(proto, given)
    assert filled["a"].shape[1] == 9
    assert filled["b"] is given["b"]


def test_the_seed_decides():
    proto = model([node("Neg", "x", "y")], {"x": (FLOAT, [4])}, {"y": FLOAT})
    assert sample_inputs(proto, seed=3)["x"].tolist() == sample_inputs(proto, seed=3)["x"].tolist()
    assert sample_inputs(proto, seed=3)["x"].tolist() != sample_inputs(proto, seed=4)["x"].tolist()


@pytest.mark.parametrize(
    ("nodes", "initializers", "bound"),
    [
        ([node("Gather", "T i", "y")], {"T": numbers(5, 2)}, 5),
        ([node("Gather", "T i", "y", axis=1)], {"T": numbers(5, 3)}, 3),
        ([node("Cast", "i", "j", to=6), node("Unsqueeze", "j z", "k"), node("Gather", "T k", "y")],
         {"T": numbers(5, 2), "z": np.array([0])}, 5),
        ([node("OneHot", "i depth values", "y")], {"depth": np.array([6]), "values": np.float32([0, 1])}, 6),
        ([node("SoftmaxCrossEntropyLoss", "S i", "y")], {"S": numbers(100, 4)}, 4),
        ([node("Cast", "i", "y", to=FLOAT)], {}, 2),
    ],
)  # fmt: skip
def test_integers_fit_what_they_index(nodes, initializers, bound):
    proto = model(nodes, {"i": (INT64, [100])}, {"y": FLOAT}, initializers)
    drawn = sample_inputs(proto)["i"]
    assert drawn.dtype == np.int64
    assert set(np.unique(drawn)) == set(range(bound))


def test_booleans_and_defaults():
    proto = model(
        [node("Where", "c x w", "y")],
        {"c": (onnx.TensorProto.BOOL, [50]), "x": (FLOAT, [50]), "w": (FLOAT, [1])},
        {"y": FLOAT},
        {"w": numbers(1)},
    )
    drawn = sample_inputs(proto)
    assert set(drawn) == {"c", "x"}
    assert set(drawn["c"].tolist()) == {True, False}


def test_what_cannot_be_made_up_is_named():
    proto = model([node("Neg", "x", "y")], {"x": (FLOAT, None)}, {"y": FLOAT})
    with pytest.raises(InvalidArgumentError, match=r"input 'x' \(float32\[...\]\)"):
        sample_inputs(proto)
    assert sample_inputs(proto, {"x": [1.0]}) == {"x": [1.0]}
