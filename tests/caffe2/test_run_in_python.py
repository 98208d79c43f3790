"""Operators that run in Python, between the parts of a net that are lowered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import NetDef, TensorProtos
from netgrad.caffe2.minidb import write_records
from netgrad.caffe2.python import core, utils, workspace
from netgrad.caffe2.python.workspace.current import current


def _run(type_: str, inputs: Any, outputs: Any, **arguments: Any) -> None:
    workspace.RunOperatorOnce(core.CreateOperator(type_, inputs, outputs, **arguments))


# ---- functions of scripts ----------------------------------------------------------------------------


def _double(inputs: Any, outputs: Any) -> None:
    outputs[0].reshape(inputs[0].shape)
    outputs[0].data[...] = inputs[0].data * 2


def _double_gradient(inputs: Any, outputs: Any) -> None:
    """The inputs are the operator's input, its output, and the gradient of the output."""
    assert len(inputs) == 3
    outputs[0].feed(inputs[2].data * 2)


def test_a_python_operator_and_its_gradient() -> None:
    net = core.Net("python")
    square = net.Mul(["x", "x"], "square")
    doubled = net.Python(_double, _double_gradient)(square, "doubled")
    loss = net.SumElements(doubled, "loss")
    gradients = net.AddGradientOperators([loss])
    x = np.array([1.0, -2.0, 3.0], np.float32)
    workspace.FeedBlob("x", x)
    workspace.CreateNet(net)
    workspace.RunNet(net)
    np.testing.assert_allclose(workspace.FetchBlob("doubled"), 2 * x * x)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), 4 * x)
    kinds = [type(part).__name__ for part in current().net(net.Name()).parts]
    assert kinds == ["LoweredPart", "PythonPart", "LoweredPart", "PythonPart", "LoweredPart"]


def test_only_some_gradients_of_a_python_operator() -> None:
    def forward(inputs: Any, outputs: Any) -> None:
        for output, source in zip(outputs, inputs, strict=True):
            output.feed(source.data + 1)

    def gradient(inputs: Any, outputs: Any) -> None:
        assert len(inputs) == 5
        outputs[0].feed(inputs[4].data * 3)

    net = core.Net("python")
    net.Python(forward, gradient, grad_output_indices=[1], grad_input_indices=[1])(["a", "b"], ["c", "d"])
    gradients = net.AddGradientOperators(["d"])
    for name in "ab":
        workspace.FeedBlob(name, np.ones(2, np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob(gradients["b"]), [3, 3])


def test_python_operators_are_built_and_get_the_workspace() -> None:
    def build(factor: float, power: int) -> Any:
        def function(inputs: Any, outputs: Any, its_workspace: Any) -> None:
            offset = its_workspace.blobs["offset"].fetch()
            outputs[0].feed(inputs[0].data ** power * factor + offset)

        return function

    workspace.FeedBlob("x", np.array([2.0, 3.0], np.float32))
    workspace.FeedBlob("offset", np.float32(1))
    workspace.RunOperatorOnce(
        core.CreatePythonOperator((build, [10.0], {"power": 2}), "x", "y", pass_workspace=True)
    )
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [41, 91])


def test_python_operators_of_a_class() -> None:
    class Function:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def forward(self, inputs: Any, outputs: Any) -> None:
            outputs[0].feed(inputs[0].data * self.factor)

        def backward(self, inputs: Any, outputs: Any) -> None:
            outputs[0].feed(inputs[2].data * self.factor)

    net = core.Net("python")
    net.Python(3.0, python_func_type=Function)("x", "y")
    gradients = net.AddGradientOperators(["y"])
    workspace.FeedBlob("x", np.ones(2, np.float32))
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob(gradients["x"]), [3, 3])


def test_errors_of_python_operators_pass_through() -> None:
    def broken(inputs: Any, outputs: Any) -> None:
        raise ZeroDivisionError("the script's own")

    with pytest.raises(ZeroDivisionError, match="the script's own"):
        workspace.RunOperatorOnce(core.CreatePythonOperator(broken, [], "y"))
    with pytest.raises(RuntimeError, match="no Python function was registered for token 'none'"):
        _run("Python", [], "y", token="none")


# ---- control flow ------------------------------------------------------------------------------------


def _net(name: str, *operators: Any) -> NetDef:
    net = NetDef(name=name)
    net.op.extend(operators)
    return net


def test_if() -> None:
    branches = {
        name: _net(name, core.CreateOperator("Scale", "x", "y", scale=scale))
        for name, scale in [("then_net", 2.0), ("else_net", 3.0)]
    }
    workspace.FeedBlob("x", np.ones(2, np.float32))
    for condition, expected in [(True, 2), (False, 3)]:
        workspace.FeedBlob("c", np.array([condition]))
        _run("If", ["c", "x"], "y", **branches)
        np.testing.assert_array_equal(workspace.FetchBlob("y"), [expected, expected])
    _run("If", ["c", "x"], "x", then_net=branches["then_net"])
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [1, 1])


def test_while() -> None:
    """Doubled while below 100."""
    workspace.FeedBlob("x", np.array([3.0], np.float32))
    workspace.FeedBlob("limit", np.array([100.0], np.float32))
    workspace.FeedBlob("c", np.array([False]))
    net = core.Net("outer")
    net.extend_ops(
        [
            core.CreateOperator(
                "While",
                ["c", "x", "limit"],
                ["x"],
                loop_net=_net("loop", core.CreateOperator("Scale", "x", "x", scale=2.0)),
                cond_net=_net("cond", core.CreateOperator("LT", ["x", "limit"], "c")),
            )
        ]
    )
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("x") == 192


def test_do_sees_bound_blobs_only_and_keeps_its_workspaces() -> None:
    inner = _net(
        "inner",
        core.CreateOperator("Mul", ["a", "a"], "hidden"),
        core.CreateOperator("Add", ["hidden", "b"], "out"),
    )
    arguments = {"net": inner, "inner_blobs": ["a", "b", "out"], "outer_blobs_idx": [0, 1, 2]}
    _run("CreateScope", [], "stack")
    for value in (2.0, 5.0):
        workspace.FeedBlob("x", np.array([value], np.float32))
        workspace.FeedBlob("y", np.array([1.0], np.float32))
        _run("Do", ["x", "y", "stack"], ["z", "stack"], **arguments)
        assert workspace.FetchBlob("z") == value**2 + 1
    assert not workspace.HasBlob("hidden")
    # gradients meet the workspaces in reverse order
    read = _net("read", core.CreateOperator("Copy", "hidden", "seen"))
    for expected in (25, 4):
        _run("HasScope", "stack", "more")
        assert workspace.FetchBlob("more")
        gradient = core.CreateOperator(
            "Do", ["stack"], ["w", "stack"], net=read, inner_blobs=["seen"], outer_blobs_idx=[0]
        )
        gradient.is_gradient_op = True
        workspace.RunOperatorOnce(gradient)
        assert workspace.FetchBlob("w") == expected
    _run("HasScope", "stack", "more")
    assert not workspace.FetchBlob("more")
    with pytest.raises(RuntimeError, match="no workspace of a forward run"):
        workspace.RunOperatorOnce(gradient)
    with pytest.raises(RuntimeError, match="different inner/outer blobs lengths"):
        _run("Do", ["x", "stack"], ["stack"], net=read, inner_blobs=["a"], outer_blobs_idx=[])


# ---- counters ----------------------------------------------------------------------------------------


def test_counters() -> None:
    _run("CreateCounter", [], "counter", init_count=2)
    done = []
    for _ in range(4):
        _run("CountDown", "counter", "done")
        done.append(bool(workspace.FetchBlob("done")))
    assert done == [False, False, True, True]
    _run("ResetCounter", "counter", "before", init_count=7)
    _run("CountUp", "counter", "seven")
    _run("RetrieveCount", "counter", "eight")
    _run("CheckCounterDone", "counter", "done")
    assert [int(workspace.FetchBlob(name)) for name in ("before", "seven", "eight", "done")] == [-2, 7, 8, 0]
    with pytest.raises(RuntimeError, match="was not written by CreateCounter"):
        _run("CountUp", "seven", "eight")


def test_iterations() -> None:
    net = core.Net("iterations")
    net.extend_ops([core.CreateOperator("Iter", [], "old")])
    net.AtomicIter(["mutex", "new"], "new")
    _run("CreateMutex", [], "mutex")
    workspace.FeedBlob("new", np.array([5], np.int64))
    workspace.CreateNet(net, input_blobs=["mutex"])
    workspace.RunNet(net, 3)
    assert (workspace.FetchBlob("old"), workspace.FetchBlob("new")) == (3, 8)
    assert workspace.FetchBlob("mutex") == b"mutex, a C++ native class of type Mutex."


def test_atomic_numbers_and_truth_values() -> None:
    _run("CreateMutex", [], "mutex")
    workspace.FeedBlob("a", np.array([5], np.int32))
    workspace.FeedBlob("b", np.array([2], np.int32))
    _run("AtomicFetchAdd", ["mutex", "a", "b"], ["a", "before"])
    assert (workspace.FetchBlob("a"), workspace.FetchBlob("before")) == (7, 5)
    _run("CreateAtomicBool", [], "flag")
    for condition, expected in [(False, False), (True, True), (False, True)]:
        workspace.FeedBlob("c", np.array([condition]))
        _run("ConditionalSetAtomicBool", ["flag", "c"], [])
        _run("CheckAtomicBool", "flag", "set")
        assert workspace.FetchBlob("set") == expected


# ---- printing, checks, texts -------------------------------------------------------------------------


def test_print(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    workspace.FeedBlob("a/x", np.array([[1.5, 2.0]], np.float32))
    _run("Print", "a/x", [])
    assert capsys.readouterr().out == "Tensor a/x of type float. Dims: (1,2,): 1.5,2\n"
    net = core.Net("logs")
    net.Print("a/x", [], to_file=1, limit=1)
    workspace.CreateNet(net)
    workspace.RunNet(net, 2)
    logged = "Tensor a/x of type float. Dims: (1,2,): 1.5\n"
    assert (tmp_path / "a_x.log").read_text() == logged * 2
    _run("Print", "a/x", [], to_file=1, limit=1)  # another operator starts anew
    assert (tmp_path / "a_x.log").read_text() == logged


def test_summaries_in_files(tmp_path: Path) -> None:
    """Minimum, maximum, mean and deviation, a line for each run; what the original writes of these."""
    workspace.ResetWorkspace(str(tmp_path))
    workspace.FeedBlob("a/x", np.array([1, 2, 4], np.float32))
    workspace.FeedBlob("one", np.array([3], np.float32))
    net = core.Net("summaries")
    net.Summarize("a/x", [], to_file=1)
    net.Summarize("one", "s", to_file=1)
    workspace.CreateNet(net)
    workspace.RunNet(net)
    workspace.FeedBlob("a/x", np.array([1e-9, 1e9, 1], np.float32))
    workspace.RunNet(net)
    assert (
        tmp_path / "a#x.summary"
    ).read_text() == "1 4 2.33333 1.52753\n1e-09 1e+09 3.33333e+08 5.7735e+08\n"
    assert (tmp_path / "one.summary").read_text() == "3 3 3 0\n" * 2
    assert workspace.FetchBlob("s").tolist() == [3, 3, 3, 0]
    workspace.FeedBlob("none", np.zeros(0, np.float32))
    with pytest.raises(RuntimeError, match="0 elements of type float32"):
        _run("Summarize", "none", [], to_file=1)


def test_assert_and_free() -> None:
    workspace.FeedBlob("yes", np.array([True, True]))
    _run("Assert", "yes", [])
    workspace.FeedBlob("no", np.array([True, False]))
    with pytest.raises(RuntimeError, match=r"Assert\(no\).*too small"):
        _run("Assert", "no", [], error_msg="too small")
    _run("Free", "no", "no")
    assert b"nullptr" in workspace.FetchBlob("no")


def test_texts() -> None:
    net = core.Net("texts")
    net.GivenTensorStringFill([], "t", shape=[3], values=["abc", "b\xe9", "xyz"])
    net.ConstantFill([], "k", shape=[2], value="one", dtype=core.DataType.STRING)
    net.StringPrefix("t", "p", length=2)
    net.StringStartsWith("t", "s", prefix="x")
    net.StringEquals("t", "e", text="abc")
    net.Gather(["t", "i"], "g")
    net.Copy("t", "copy")
    net.Concat(["t", "k"], ["c", "lengths"], axis=0)
    net.EQ(["t", "copy"], "same")
    workspace.FeedBlob("i", np.array([2, 0], np.int32))
    workspace.RunNetOnce(net)
    found = {
        name: list(workspace.FetchBlob(name)) for name in ("t", "p", "g", "c", "s", "e", "same", "lengths")
    }
    texts = [b"abc", "b\xe9".encode(), b"xyz"]
    assert found["t"] == texts
    assert found["p"] == [text[:2] for text in texts]
    assert found["g"] == [b"xyz", b"abc"]
    assert found["c"] == [*texts, b"one", b"one"]
    assert found["s"] == [False, False, True]
    assert found["e"] == [True, False, False]
    assert found["same"] == [True] * 3
    assert found["lengths"] == [3, 2]


# ---- databases ---------------------------------------------------------------------------------------


def _database(path: Path, images: Any, labels: Any) -> None:
    records = []
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        protos = TensorProtos(
            protos=[utils.NumpyArrayToCaffe2Tensor(image), utils.NumpyArrayToCaffe2Tensor(label)]
        )
        records.append((f"{index:05}", protos.SerializeToString()))
    with path.open("wb") as file:
        write_records(file, records)


def test_batches_of_a_database(tmp_path: Path) -> None:
    images = np.random.default_rng(0).normal(size=(5, 1, 2, 2)).astype(np.float32)
    labels = np.arange(5, dtype=np.int32)
    _database(tmp_path / "data.minidb", images, labels)
    init, net = core.Net("init"), core.Net("input")
    init.CreateDB([], "reader", db=str(tmp_path / "data.minidb"), db_type="minidb")
    net.TensorProtosDBInput("reader", ["data", "label"], batch_size=3)
    net.Scale("data", "scaled", scale=0.5)
    workspace.RunNetOnce(init)
    workspace.CreateNet(net)
    for rows in ([0, 1, 2], [3, 4, 0]):
        workspace.RunNet(net)
        np.testing.assert_array_equal(workspace.FetchBlob("label"), labels[rows])
        np.testing.assert_array_equal(workspace.FetchBlob("scaled"), images[rows] * np.float32(0.5))
    _run(
        "CreateDB", [], "shard", db=str(tmp_path / "data.minidb"), db_type="minidb", num_shards=2, shard_id=1
    )
    _run("TensorProtosDBInput", "shard", ["data", "label"], batch_size=2)
    np.testing.assert_array_equal(workspace.FetchBlob("label"), [1, 3])
    with pytest.raises(RuntimeError, match="databases of type 'leveldb'"):
        _run("CreateDB", [], "reader", db="data", db_type="leveldb")
    with pytest.raises(RuntimeError, match="there is no database"):
        _run("CreateDB", [], "reader", db="nowhere", db_type="minidb")


def test_a_database_of_a_script(tmp_path: Path) -> None:
    """As the tutorial on data sets of one's own writes it."""
    path = str(tmp_path / "own.minidb")
    database = core.C.create_db("minidb", path, core.C.Mode.write)
    transaction = database.new_transaction()
    for index in range(3):
        protos = TensorProtos(protos=[utils.NumpyArrayToCaffe2Tensor(np.full(2, index, np.float32))])
        transaction.put(f"train_{index}", protos.SerializeToString())
    del transaction
    del database
    _run("CreateDB", [], "reader", db=path, db_type="minidb")
    _run("TensorProtosDBInput", "reader", "x", batch_size=2)
    np.testing.assert_array_equal(workspace.FetchBlob("x"), [[0, 0], [1, 1]])
    cursor = workspace.C.create_db("minidb", path, workspace.C.Mode.read).new_cursor()
    keys = []
    while cursor.valid():
        keys.append(cursor.key())
        cursor.next()
    assert keys == [b"train_0", b"train_1", b"train_2"]
    with pytest.raises(RuntimeError, match="reading only"):
        core.C.create_db("minidb", path, core.C.Mode.read).new_transaction()


def test_saved_and_loaded(tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    x, texts = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([b"a", b"bc"], object)
    workspace.FeedBlob("scope/x", x)
    workspace.FeedBlob("texts", texts)
    _run("Save", ["scope/x", "texts"], [], db="saved", db_type="minidb", strip_prefix="scope/", chunk_size=4)
    workspace.ResetWorkspace(str(tmp_path))
    _run("Load", [], ["x", "texts"], db="saved", db_type="minidb")
    np.testing.assert_array_equal(workspace.FetchBlob("x"), x)
    np.testing.assert_array_equal(workspace.FetchBlob("texts"), texts)
    _run("Load", [], [], db="saved", db_type="minidb", load_all=1, add_prefix="again/")
    np.testing.assert_array_equal(workspace.FetchBlob("again/x"), x)
    _run("CreateDB", [], "reader", db=str(tmp_path / "saved"), db_type="minidb")
    _run("Load", ["reader"], ["renamed"], source_blob_names=["x"])
    np.testing.assert_array_equal(workspace.FetchBlob("renamed"), x)
    with pytest.raises(RuntimeError, match="the database has no blobs nothing"):
        _run("Load", [], ["nothing"], db="saved", db_type="minidb")
    _run("DBExists", [], "there", db_name="saved", db_type="minidb")
    assert workspace.FetchBlob("there")


def test_checkpoints(tmp_path: Path) -> None:
    workspace.ResetWorkspace(str(tmp_path))
    workspace.FeedBlob("x", np.ones(2, np.float32))
    for iteration in range(1, 7):
        workspace.FeedBlob("iter", np.array([iteration], np.int64))
        _run("Checkpoint", ["iter", "x"], [], db="at_%d", db_type="minidb", every=3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["at_3", "at_6"]


# ---- updates -----------------------------------------------------------------------------------------


def test_sparse_ftrl_is_ftrl_row_by_row() -> None:
    random = np.random.default_rng(3)
    w, nz = random.normal(size=(4, 3)).astype(np.float32), random.uniform(1, 2, (4, 3, 2)).astype(np.float32)
    rows, slopes = np.array([2, 0, 2], np.int64), random.normal(size=(3, 3)).astype(np.float32)
    arguments = {"alpha": 0.1, "beta": 1.5, "lambda1": 0.5, "lambda2": 0.2}
    expected_w, expected_nz = w.copy(), nz.copy()
    for row, slope in zip(rows, slopes, strict=True):
        for name, value in [("w", expected_w[row]), ("nz", expected_nz[row]), ("g", slope)]:
            workspace.FeedBlob(name, value)
        _run("Ftrl", ["w", "nz", "g"], ["w", "nz"], **arguments)
        expected_w[row], expected_nz[row] = workspace.FetchBlobs(["w", "nz"])
    for name, value in [("w", w), ("nz", nz), ("i", rows), ("g", slopes)]:
        workspace.FeedBlob(name, value)
    _run("SparseFtrl", ["w", "nz", "i", "g"], ["w", "nz"], **arguments)
    np.testing.assert_allclose(workspace.FetchBlob("w"), expected_w, rtol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("nz"), expected_nz, rtol=1e-5)


# ---- texts in segments, and numbers that must be finite --------------------------------------------


def test_texts_are_packed_and_looked_up() -> None:
    workspace.FeedBlob("l", np.array([1, 0, 3], np.int32))
    workspace.FeedBlob("x", np.array([b"a", b"b", b"c", b"d"], object))
    _run("PackSegments", ["l", "x"], ["y", "m"], max_length=2, return_presence_mask=True)
    expected = np.array([[b"a", b""], [b"", b""], [b"b", b"c"]], object)
    np.testing.assert_array_equal(workspace.FetchBlob("y"), expected)
    np.testing.assert_array_equal(workspace.FetchBlob("m"), expected != b"")
    _run("UnpackSegments", ["l", "y"], "back", max_length=2)
    np.testing.assert_array_equal(workspace.FetchBlob("back"), np.array([b"a", b"b", b"c"], object))
    with pytest.raises(RuntimeError, match="don't fit the shape"):
        _run("UnpackSegments", ["l", "y"], "back")
    _run("IsMemberOf", "x", "y", value=["c", "a"])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [True, False, True, False])


def test_numbers_must_be_finite() -> None:
    workspace.FeedBlob("x", np.array([1, np.inf, np.nan], np.float32))
    for type_, outputs in {"EnforceFinite": [], "NanCheck": ["y"]}.items():
        with pytest.raises(RuntimeError, match=f"{type_}.*2 elements of input 'x' are not finite"):
            _run(type_, "x", outputs)
    workspace.FeedBlob("x", np.ones(2, np.float32))
    _run("EnforceFinite", "x", [])
    _run("NanCheck", "x", "y")
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [1, 1])


@pytest.mark.parametrize("lengths", [True, False])
def test_texts_by_keys_become_rows(lengths: bool) -> None:
    keys = np.array([2, 4, 6, 1, 2, 99, 2] if lengths else [4, 99, 6], np.int32)
    texts = np.array([str(at) for at in range(keys.size)], "S")
    for name, value in {
        "k": keys,
        "t": texts,
        "d": np.array("-", "S"),
        "n": np.array([3, 4], np.int32),
    }.items():
        workspace.FeedBlob(name, value)
    inputs = ["k", "t", "d", "n"] if lengths else ["k", "t", "d"]
    _run("SparseToDenseMask", inputs, ["y", "there"], mask=[99, 2, 6], return_presence_mask=1)
    expected = [[b"-", b"0", b"2"], [b"5", b"6", b"-"]] if lengths else [b"1", b"-", b"2"]
    assert workspace.FetchBlob("y").tolist() == expected
    np.testing.assert_array_equal(workspace.FetchBlob("there"), np.array(expected) != b"-")


def test_processes_are_not_connected() -> None:
    with pytest.raises(RuntimeError, match=r"FileStoreHandlerCreate\(\).*connects processes.*one process"):
        _run("FileStoreHandlerCreate", [], "store", path="/nowhere")


def test_a_range_has_steps() -> None:
    for name, value in {"start": 0, "stop": 5, "step": 0}.items():
        workspace.FeedBlob(name, np.array(value))
    with pytest.raises(RuntimeError, match="Step size cannot be 0"):
        _run("Range", ["start", "stop", "step"], "y")


def test_every_operator_that_runs_is_known() -> None:
    """Otherwise nets with it, such as those with its gradient, can't be created."""
    from netgrad.caffe2.lowering.registry import LOWERINGS
    from netgrad.caffe2.makers.types import registered_types
    from netgrad.caffe2.running.registry import types_run_in_python

    assert {*LOWERINGS, *types_run_in_python()} - registered_types() == set()
