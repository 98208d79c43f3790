from __future__ import annotations

import numpy as np
import pytest

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError
from netgrad.runtime.session import Session
from netgrad.runtime.workspace import Workspace
from tests.runtime.models import FLOAT, model, node, numbers


def counting() -> Session:
    """w_new = w + rate * sum(x) with the sum of the old w as an extra output."""
    return Session(
        model(
            [
                node("ReduceSum", "x", "total", keepdims=0),
                node("Mul", "total rate", "change"),
                node("Add", "w change", "w_new"),
                node("ReduceSum", "w", "before", keepdims=0),
                node("Identity", "x", "echo"),
            ],
            {"x": (FLOAT, ["N"]), "w": (FLOAT, [3]), "rate": (FLOAT, [])},
            {"w_new": FLOAT, "before": FLOAT, "echo": FLOAT},
        )
    )


def test_state_moves_on_from_run_to_run():
    workspace = Workspace(counting(), {"w": [0, 1, 2], "rate": 0.5}, {"w_new": "w"})
    befores = [float(workspace.run({"x": [1.0] * n}, ["before"])["before"]) for n in (2, 4, 6)]
    assert befores == [3, 6, 12]
    assert workspace.get("w").tolist() == [6, 7, 8]
    assert set(workspace.state()) == {"w", "rate"}


def test_the_first_values_are_copied():
    first = np.zeros(3, np.float32)
    workspace = Workspace(counting(), {"w": first, "rate": 1}, {"w_new": "w"})
    first[:] = 9
    assert workspace.get("w").tolist() == [0, 0, 0]
    workspace.run({"x": [1, 1]})
    assert first.tolist() == [9, 9, 9]


def test_returned_arrays_stay_as_they_were():
    workspace = Workspace(counting(), {"w": [0, 0, 0], "rate": 1}, {"w_new": "w"})
    first = workspace.run({"x": [1]}, ["w_new", "echo"])
    for _ in range(4):
        workspace.run({"x": [2]}, ["w_new", "echo"])
    assert first["w_new"].tolist() == [1, 1, 1]
    assert first["echo"].tolist() == [1]


def test_outputs_may_change_their_shape_between_runs():
    workspace = Workspace(counting(), {"w": [0, 0, 0], "rate": 1}, {"w_new": "w"})
    shapes = [workspace.run({"x": numbers(n)}, ["echo"])["echo"].shape for n in (2, 5, 5, 3, 3, 7)]
    assert shapes == [(2,), (5,), (5,), (3,), (3,), (7,)]


def test_set_replaces_state_for_the_next_run():
    workspace = Workspace(counting(), {"w": [0, 0, 0], "rate": 1}, {"w_new": "w"})
    workspace.run({"x": [1]})
    workspace.set("rate", 10)
    workspace.set("w", [1, 2, 3])
    workspace.run({"x": [1]})
    assert workspace.get("w").tolist() == [11, 12, 13]


def test_a_failed_run_leaves_the_state():
    session = Session(
        model(
            [node("Add", "w x", "w_new"), node("Reshape", "w_new s", "y")],
            {"w": (FLOAT, [3]), "x": (FLOAT, []), "s": (7, [1])},
            {"w_new": FLOAT, "y": FLOAT},
        )
    )
    workspace = Workspace(session, {"w": [1, 2, 3]}, {"w_new": "w"})
    with pytest.raises(RuntimeFailureError, match="reshape"):
        workspace.run({"x": 1, "s": [5]}, ["y"])
    assert workspace.get("w").tolist() == [1, 2, 3]
    workspace.run({"x": 1, "s": [3]}, ["y"])
    assert workspace.get("w").tolist() == [2, 3, 4]


def test_in_place_keeps_one_buffer():
    session = Session(
        model(
            [node("ScatterND", "table rows values", "table_new", reduction="add")],
            {"table": (FLOAT, [4, 2]), "rows": (7, ["N", 1]), "values": (FLOAT, ["N", 2])},
            {"table_new": FLOAT},
        )
    )
    kept = Workspace(session, {"table": np.zeros((4, 2))}, {"table_new": "table"}, in_place=["table"])
    paired = Workspace(session, {"table": np.zeros((4, 2))}, {"table_new": "table"})
    for step in range(3):
        batch = {"rows": [[step], [step]], "values": numbers(2, 2, seed=step)}
        kept.run(batch)
        paired.run(batch)
    assert kept.get("table").any()
    np.testing.assert_array_equal(kept.get("table"), paired.get("table"))


@pytest.mark.parametrize(
    ("state", "feedback", "in_place", "message"),
    [
        ({"w": [1, 2, 3]}, {"w_next": "w"}, (), "no output 'w_next'; did you mean 'w_new'"),
        ({"w": [1, 2, 3]}, {"w_new": "v"}, (), "output 'w_new' feeds 'v', which is not part of the state"),
        ({"w": [1, 2, 3]}, {"w_new": "w", "before": "w"}, (), "more than one output feeds 'w'"),
        ({"w": [1, 2]}, {"w_new": "w"}, (), "2 instead of 3 on axis 0"),
        ({"w": [1, 2, 3], "rate": 1}, {"w_new": "w"}, ["rate"], "'rate' is no output's next value"),
        ({"v": 1}, {}, (), "no input 'v'"),
    ],
)
def test_mistakes_are_named(state, feedback, in_place, message):
    with pytest.raises(InvalidArgumentError, match=message):
        Workspace(counting(), state, feedback, in_place)


def test_mistakes_after_construction_are_named():
    workspace = Workspace(counting(), {"w": [0, 0, 0], "rate": 1}, {"w_new": "w"})
    with pytest.raises(InvalidArgumentError, match="no state 'W'; did you mean 'w'"):
        workspace.get("W")
    with pytest.raises(InvalidArgumentError, match="no state 'x'"):
        workspace.set("x", 1)
    with pytest.raises(InvalidArgumentError, match="2 instead of 3"):
        workspace.set("w", [1, 2])
    with pytest.raises(InvalidArgumentError, match="no input 'w'"):
        workspace.run({"x": [1], "w": [1, 2, 3]})
