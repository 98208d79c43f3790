from __future__ import annotations

import numpy as np
import pytest

from netgrad.core.errors import InvalidArgumentError
from netgrad.runtime.cut import cut, values_at
from netgrad.runtime.session import Session
from tests.runtime.models import FLOAT, model, node, numbers


def diamond():
    return model(
        [
            node("Mul", "x w", "h", "first"),
            node("Exp", "h", "a", "left"),
            node("Neg", "h", "b", "right"),
            node("Add", "a b", "y", "join"),
        ],
        {"x": (FLOAT, ["N"])},
        {"y": FLOAT},
        {"w": np.float32([2])},
    )


def test_a_cut_value_feeds_all_its_readers():
    opened = cut(diamond(), ["h"], ["y", "a"])
    assert [v.name for v in opened.graph.inputs] == ["h"]
    assert [n.name for n in opened.graph] == ["left", "right", "join"]
    result = Session(opened).run({"h": [0.0, 1.0]})
    np.testing.assert_allclose(result["y"], np.exp([0.0, 1.0]) - [0, 1], rtol=1e-6)
    np.testing.assert_allclose(result["a"], np.exp([0.0, 1.0]), rtol=1e-6)


def test_initializers_and_targets_may_be_cut():
    assert Session(cut(diamond(), ["w"], ["h"])).run({"x": [1, 2], "w": [3]})["h"].tolist() == [3, 6]
    assert Session(cut(diamond(), ["y"], ["y"])).run({"y": [5]})["y"].tolist() == [5]
    assert Session(cut(diamond(), ["x"], ["h"])).run({"x": [5]})["h"].tolist() == [10]


def test_values_inside_branches_are_cut_too():
    branch = model([node("Neg", "h", "z")], {}, {"z": FLOAT}).graph
    other = model([node("Identity", "h", "z")], {}, {"z": FLOAT}).graph
    proto = model(
        [node("Exp", "x", "h"), node("If", "c", "y", then_branch=branch, else_branch=other)],
        {"x": (FLOAT, [2]), "c": (9, [])},
        {"y": FLOAT},
    )
    assert Session(cut(proto, ["h"], ["y"])).run({"h": [1, 2], "c": True})["y"].tolist() == [-1, -2]


def test_values_at():
    found = values_at(diamond(), {"x": numbers(3)}, ["h", "w", "x", "h"])
    assert list(found) == ["h", "w", "x"]
    np.testing.assert_allclose(found["h"], found["x"] * found["w"])


def test_unknown_values_are_named():
    with pytest.raises(InvalidArgumentError, match="the model has no value 'H'; did you mean 'h'"):
        cut(diamond(), ["H"])
