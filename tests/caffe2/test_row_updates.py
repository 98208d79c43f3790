"""Updates of rows that change tables in place: against loops over occurrences, and whose memory changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, model_helper, optimizer, workspace
from netgrad.caffe2.running.registry import update_of
from netgrad.caffe2.running.workspace import Workspace
from tests.caffe2.operator_cases import Case
from tests.caffe2.optimizer_cases import OPTIMIZERS
from tests.caffe2.other_cases import OTHERS
from tests.caffe2.test_operators import net as parsed

Array = np.ndarray[Any, Any]

CASES = [case for case in (*OPTIMIZERS, *OTHERS) if update_of(parsed(case.net).op[0]) is not None]
ADAGRAD = core.CreateOperator("SparseAdagrad", ["w", "h", "i", "g", "lr"], ["w", "h"], epsilon=0.01)
ROWS = np.array([3, 1, 3, 3, 0], np.int32)


def _here() -> Workspace:
    return workspace.C.Workspace.current


def _fed(**blobs: Any) -> None:
    for name, array in blobs.items():
        workspace.FeedBlob(name, array.astype(np.float32) if array.dtype == np.float64 else array)


def _table(rows: int = 4, columns: int = 3, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        "w": random.normal(size=(rows, columns)),
        "h": random.uniform(size=(rows, columns)),
        "g": random.normal(size=(ROWS.size, columns)),
        "i": ROWS,
        "lr": np.array([-0.1]),
    }


def test_every_update_has_a_row() -> None:
    found = {parsed(case.net).op[0].type for case in CASES}
    assert {
        "ScatterAssign",
        "ScatterWeightedSum",
        "SparseMomentumSGDUpdate",
        "SparseAdagrad",
        "RowWiseSparseAdagrad",
        "SparseAdam",
        "RowWiseSparseAdam",
    } <= found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_values(case: Case) -> None:
    """The rows of the table of lowerings, by the workspace, whose tables stay where they are."""
    (op,) = parsed(case.net).op
    _fed(**case.blobs)
    table = next(name for name in op.output if name in op.input and name != "g")
    memory = _here().needed(table).own().ctypes.data
    workspace.RunOperatorOnce(op)
    for name, value in case.formula(case.blobs).items():
        found = workspace.FetchBlob(name)
        assert found.shape == np.shape(value), name
        np.testing.assert_allclose(found, value, rtol=2e-5, atol=2e-5, err_msg=name)
    if "RAdam" not in case.net:
        assert _here().needed(table).content.ctypes.data == memory


@pytest.mark.parametrize("same", [1, 2, 50])
def test_many_occurrences_are_taken_in_their_order(same: int) -> None:
    """So many of one row as there are, among rows that come once, twice or often."""
    random = np.random.default_rng(same)
    blobs = _table(rows=40)
    rows = np.concatenate([np.repeat(7, same), random.integers(0, 40, 60)])
    blobs["i"], blobs["g"] = random.permutation(rows), random.normal(size=(rows.size, 3))
    w, h = (blobs[name].astype(np.float32).astype(float) for name in "wh")
    for row, slope in zip(blobs["i"], blobs["g"].astype(np.float32).astype(float), strict=True):
        h[row] += slope**2
        w[row] -= 0.1 * slope / (np.sqrt(h[row]) + 0.01)
    _fed(**blobs)
    workspace.RunOperatorOnce(ADAGRAD)
    np.testing.assert_allclose(workspace.FetchBlob("w"), w, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("h"), h, rtol=1e-5)


def test_of_a_row_that_is_assigned_twice_the_last_stays() -> None:
    _fed(w=np.zeros((4, 2)), i=ROWS, g=np.arange(10.0).reshape(5, 2))
    workspace.RunOperatorOnce(core.CreateOperator("ScatterAssign", ["w", "i", "g"], ["w"]))
    np.testing.assert_array_equal(workspace.FetchBlob("w"), [[8, 9], [2, 3], [0, 0], [6, 7]])


def test_integers_are_assigned_in_place() -> None:
    _fed(w=np.zeros((4, 2), np.int64), i=ROWS, g=np.arange(10).reshape(5, 2))
    workspace.RunOperatorOnce(core.CreateOperator("ScatterAssign", ["w", "i", "g"], ["w"]))
    assert workspace.FetchBlob("w").dtype == np.int64
    np.testing.assert_array_equal(workspace.FetchBlob("w"), [[8, 9], [2, 3], [0, 0], [6, 7]])


@pytest.mark.parametrize("lost", [4, -1])
def test_a_row_that_is_not_there_is_an_error_and_nothing_changes(lost: int) -> None:
    blobs = _table()
    blobs["i"] = np.array([0, 1, lost, 2, 3])
    _fed(**blobs)
    with pytest.raises(RuntimeError, match=f"SparseAdagrad.*there is no row {lost}: input 'w' has 4"):
        workspace.RunOperatorOnce(ADAGRAD)
    for name in "wh":
        np.testing.assert_array_equal(workspace.FetchBlob(name), blobs[name].astype(np.float32))


def test_a_copy_of_a_table_stays_as_it_is() -> None:
    """Whether an operator, an assignment of blobs or a fetch has made it."""
    blobs = _table()
    _fed(**blobs)
    fetched = workspace.FetchBlob("w")
    workspace.RunOperatorOnce(core.CreateOperator("Copy", ["w"], ["copied"]))
    _here().create_blob("same").value = _here().needed("w").value
    workspace.RunOperatorOnce(ADAGRAD)
    for kept in (fetched, workspace.FetchBlob("copied"), workspace.FetchBlob("same")):
        np.testing.assert_array_equal(kept, blobs["w"].astype(np.float32))
    assert not np.array_equal(workspace.FetchBlob("w"), fetched)


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_tables_of_other_types_run_on_onnx_runtime(dtype: Any) -> None:
    rows = np.array([3, 1, 0])
    blobs = {name: array.astype(dtype) for name, array in _table().items() if name != "i"}
    blobs["g"] = blobs["g"][:3]
    for name, array in {**blobs, "i": rows}.items():
        workspace.FeedBlob(name, array)
    workspace.RunOperatorOnce(ADAGRAD)
    expected = blobs["h"].astype(float)
    expected[rows] += blobs["g"].astype(float) ** 2
    assert workspace.FetchBlob("h").dtype == dtype
    np.testing.assert_allclose(workspace.FetchBlob("h"), expected, rtol=3e-3)


def test_outputs_of_other_names_leave_the_tables_as_they_are() -> None:
    blobs = _table()
    _fed(**blobs)
    workspace.RunOperatorOnce(ADAGRAD)
    after = {name: workspace.FetchBlob(name) for name in "wh"}
    _fed(**blobs)
    other = core.CreateOperator("SparseAdagrad", list(ADAGRAD.input), ["v", "s"], epsilon=0.01)
    workspace.RunOperatorOnce(other)
    np.testing.assert_allclose(workspace.FetchBlob("v"), after["w"], rtol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("s"), after["h"], rtol=1e-5)
    np.testing.assert_array_equal(workspace.FetchBlob("w"), blobs["w"].astype(np.float32))


def test_slopes_of_another_shape_are_refused() -> None:
    blobs = _table()
    blobs["g"] = blobs["g"][:2]
    _fed(**blobs)
    with pytest.raises(RuntimeError, match="SparseAdagrad"):
        workspace.RunOperatorOnce(ADAGRAD)
    np.testing.assert_array_equal(workspace.FetchBlob("w"), blobs["w"].astype(np.float32))


def _two_tables() -> Any:
    """A model with two tables, whose updates stand between those of its other weights."""
    model = model_helper.ModelHelper(name="two_tables")
    bags = []
    for name in ("first", "second"):
        table = model.param_init_net.UniformFill([], name, shape=[50, 4], min=-1.0, max=1.0)
        model.AddParameter(table)
        bags.append(model.net.SparseLengthsSum([table, f"{name}_ids", "lengths"], f"{name}_bags"))
    both, _ = model.net.Concat(bags, ["both", "both_dims"], axis=1)
    score = brew.fc(model, both, "score", 8, 1)
    loss = model.net.AveragedLoss(model.net.SquaredL2Distance([score, "label"], "distance"), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_adagrad(model, base_learning_rate=0.3)
    return model


def test_updates_come_after_one_compiled_part() -> None:
    model = _two_tables()
    workspace.RunNetOnce(model.param_init_net)
    random = np.random.default_rng(1)
    _fed(
        first_ids=random.integers(0, 50, 12),
        second_ids=random.integers(0, 50, 12),
        lengths=np.full(4, 3, np.int32),
        label=random.normal(size=(4, 1)),
    )
    workspace.CreateNet(model.net)
    parts = _here().net(model.net.Name()).parts
    assert [[op.type for op in part.definitions] for part in parts[1:]] == [["SparseAdagrad"]] * 2
    assert sorted(at for part in parts for at in part.places) == list(range(len(model.net.Proto().op)))
    losses = []
    for _ in range(60):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert losses[-1] < 0.05 * losses[0]


def test_what_reads_a_table_behind_its_update_runs_behind_it() -> None:
    net = core.Net("behind")
    net.ScatterAssign(["w", "i", "g"], ["w"])
    net.Copy("w", "after")
    net.Scale("other", "scaled", scale=2.0)
    net.ScatterAssign(["w", "i", "zeros"], ["w"])
    net.Scale("g", "g", scale=3.0)
    _fed(w=np.ones((4, 2)), i=np.array([1]), g=np.full((1, 2), 5.0), other=np.ones(1), zeros=np.zeros((1, 2)))
    workspace.CreateNet(net)
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("after")[1], [5, 5])
    np.testing.assert_array_equal(workspace.FetchBlob("w")[1], [0, 0])
    np.testing.assert_array_equal(workspace.FetchBlob("g"), [[15, 15]])


def test_the_place_of_an_update_that_fails_is_its_own() -> None:
    net = core.Net("fails")
    net.ScatterAssign(["w", "i", "g"], ["w"])
    net.Relu("x", "y")
    _fed(w=np.ones((4, 2)), i=np.array([9]), g=np.ones((1, 2)), x=np.ones(2))
    workspace.CreateNet(net)
    with pytest.raises(RuntimeError, match="no row 9"):
        workspace.RunNet(net)
    assert _here().net(net.Name()).failed_at == 0
