from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError, UnsupportedOperatorError
from netgrad.onnx.rules.declaration import declarations
from netgrad.onnx.rules.vocabulary import OnnxVocabulary
from netgrad.transforms.check import check
from netgrad.transforms.report import CheckReport, Entry, Verdict, Worst
from tests.runtime.models import DOUBLE, FLOAT, model, node, numbers


def mlp(dtype=FLOAT):
    kind = np.float32 if dtype == FLOAT else np.float64
    return model(
        [
            node("MatMul", "x W1", "h", "fc1"),
            node("Add", "h b", "hb", "bias"),
            node("Tanh", "hb", "r", "act"),
            node("MatMul", "r W2", "y", "fc2"),
        ],
        {"x": (dtype, ["N", 5])},
        {"y": dtype},
        {
            "W1": numbers(5, 7, dtype=kind),
            "W2": numbers(7, 3, seed=1, dtype=kind),
            "b": numbers(7, seed=2, dtype=kind),
        },
    )


def altered(op_type, change):
    """A choice by which the rule of ``op_type`` returns what ``change`` makes of its contributions."""
    declared = declarations()["", op_type]

    def changed(op, *cotangents):
        contributions = declared.function(op, *cotangents)
        return change(op, contributions)

    return {op_type: changed}


def scaled(factor, position=0):
    def change(op, contributions):
        if not isinstance(contributions, (list, tuple)):
            return contributions * factor
        return [c * factor if k == position and c is not None else c for k, c in enumerate(contributions)]

    return change


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
def test_a_right_gradient_agrees(dtype):
    report = check(mlp(dtype))
    assert report.ok
    assert {entry.name: entry.verdict for entry in report.entries} == dict.fromkeys(
        ["W1", "b", "W2"], Verdict.AGREE
    )
    assert report.culprits == ()
    assert (report.precision, report.gradient_precision) == ("float64", "float64")
    assert {entry.elements for entry in report.entries} == {35, 7, 21}


@pytest.mark.parametrize(
    ("op_type", "position", "node_name", "input_name", "wrong"),
    [
        ("Tanh", 0, "act", "hb", {"W1", "b"}),
        ("Add", 1, "bias", "b", {"b"}),
        ("MatMul", 1, "fc1", "W1", {"W1", "W2"}),
    ],
)
def test_a_rule_wrong_by_a_thousandth_is_found_and_named(op_type, position, node_name, input_name, wrong):
    report = check(mlp(), gradients=altered(op_type, scaled(1.001, position)))
    assert not report.ok
    assert {entry.name for entry in report.entries if entry.verdict is Verdict.DISAGREE} == wrong
    culprit = report.culprits[0]
    assert (culprit.type, culprit.node, culprit.input, culprit.position) == (
        op_type,
        node_name,
        input_name,
        position,
    )
    assert 5e-4 < culprit.error < 5e-3
    assert culprit.rule.startswith("changed (test_check.py:")
    for entry in report.entries:
        if entry.verdict is Verdict.DISAGREE:
            assert entry.worst is not None
            assert entry.worst.gradient == pytest.approx(1.001 * entry.worst.measured, rel=1e-6)


def test_a_transposed_gradient_is_found():
    def transposed(op, contributions):
        return [contributions[0], op.emit("Transpose", contributions[1], perm=[1, 0])]

    square = model(
        [node("MatMul", "x W", "y", "fc")], {"x": (FLOAT, ["N", 4])}, {"y": FLOAT}, {"W": numbers(4, 4)}
    )
    report = check(square, gradients=altered("MatMul", transposed))
    assert [(c.node, c.input) for c in report.culprits] == [("fc", "W")]
    assert report.culprits[0].error > 0.1


def test_without_float64_kernels_a_thousandth_is_still_found():
    """Asinh has no float64 kernel in ONNX Runtime, so the reference evaluator measures."""
    proto = model(
        [node("Mul", "x w", "h", "scale"), node("Asinh", "h", "y", "curve")],
        {"x": (FLOAT, [6])},
        {"y": FLOAT},
        {"w": numbers(6, seed=3)},
    )
    assert check(proto).ok
    report = check(proto, gradients=altered("Asinh", scaled(1.001)))
    assert [(c.type, c.node) for c in report.culprits] == [("Asinh", "curve")]


def test_only_the_inputs_that_are_asked_for():
    report = check(mlp(), {"x": numbers(2, 5)}, wrt=["x", "r"])
    assert report.ok
    assert [(entry.name, entry.shape) for entry in report.entries] == [("x", (2, 5)), ("r", (2, 7))]


def test_weights_may_be_constants_and_names_may_depend_on_each_other():
    weight = node("Constant", "", "W", value=onnx.numpy_helper.from_array(numbers(5, 7)))
    nodes = [weight, node("MatMul", "x W", "h"), node("Sin", "h", "y")]
    proto = model(nodes, {"x": (FLOAT, ["N", 5])}, {"y": FLOAT})
    assert [entry.name for entry in check(proto).entries] == ["W"]
    report = check(proto, wrt=["h", "W", "x"])
    assert report.ok
    assert [entry.name for entry in report.entries] == ["h", "W", "x"]


def test_several_targets():
    proto = model(
        [node("Sin", "x", "a"), node("Exp", "x", "b"), node("Mul", "a b", "c")],
        {"x": (FLOAT, [2, 3])},
        {"a": FLOAT, "b": FLOAT, "c": FLOAT},
    )
    report = check(proto, wrt="x", of=["a", "c"])
    assert report.ok
    assert report.of == ("a", "c")


def test_a_contribution_lost_between_right_operators_is_located(monkeypatch):
    proto = model(
        [
            node("Exp", "x", "a", "before"),
            node("Sin", "a", "b", "left"),
            node("Cos", "a", "c", "right"),
            node("Mul", "b c", "y", "join"),
        ],
        {"x": (FLOAT, [4])},
        {"y": FLOAT},
    )
    assert check(proto, wrt="x").ok
    monkeypatch.setattr(OnnxVocabulary, "sum", lambda self, terms, out, device=None: self.copy(terms[0], out))
    report = check(proto, wrt="x")
    assert not report.ok
    assert report.culprits == ()
    assert "every operator's own gradient is right, but that of 'a'" in report.note
    assert (
        "its 2 contributions are lost or added up wrongly (readers: Sin 'left', Cos 'right')" in report.note
    )


def test_a_corner_at_the_point_is_not_held_against_the_gradient():
    proto = model(
        [node("Relu", "x", "h"), node("Mul", "h w", "y")],
        {"x": (FLOAT, [3])},
        {"y": FLOAT},
        {"w": numbers(3)},
    )
    report = check(proto, {"x": [0.0, 1.0, -1.0]}, wrt="x")
    assert report.ok
    assert report.entries[0].verdict is Verdict.KINK
    double = check(proto, {"x": [0.0, 1.0, -1.0]}, wrt="x", gradients=altered("Relu", scaled(3.0)))
    assert not double.ok


def test_gradients_that_cancel_to_zero_agree():
    proto = model(
        [node("Add", "x b", "h"), node("ReduceMean", "h", "m", keepdims=1), node("Sub", "h m", "y")],
        {"x": (FLOAT, [5])},
        {"y": FLOAT},
        {"b": np.float32([0.3])},
    )
    report = check(proto, wrt=["b", "x"])
    assert report.ok
    assert [entry.verdict for entry in report.entries] == [Verdict.AGREE, Verdict.AGREE]


def test_a_name_without_influence_agrees():
    proto = model(
        [node("Neg", "x", "y"), node("Neg", "w", "z")],
        {"x": (FLOAT, [2]), "w": (FLOAT, [3])},
        {"y": FLOAT, "z": FLOAT},
    )
    assert check(proto, wrt=["x", "w"], of="y").ok


def test_large_tensors_are_checked_by_elements_only_when_wrong():
    nodes = [node("MatMul", "x W", "h"), node("Tanh", "h", "y", "t")]
    proto = model(nodes, {"x": (FLOAT, [3, 20])}, {"y": FLOAT}, {"W": numbers(20, 30)})
    assert check(proto).entries[0].elements == 0
    wrong = check(proto, gradients=altered("Tanh", scaled(1.01)), elements=10)
    assert wrong.entries[0].elements == 10
    assert wrong.entries[0].worst is not None


def test_progress_is_told():
    seen = []
    check(mlp(), progress=lambda *arguments: seen.append(arguments))
    assert [(done, total) for done, total, _ in seen] == [(0, 3), (1, 3), (2, 3)]


def test_an_objective_that_is_not_finite_is_refused():
    proto = model([node("Log", "x", "y")], {"x": (FLOAT, [9])}, {"y": FLOAT})
    with pytest.raises(InvalidArgumentError, match="'y' is not finite at the made-up inputs"):
        check(proto, wrt="x")
    assert check(proto, {"x": np.linspace(1, 2, 9)}, wrt="x").ok


def test_errors_of_the_gradient_and_the_runtime_come_through():
    with pytest.raises(InvalidArgumentError, match="'w'"):
        check(mlp(), wrt="w")
    unknown = model([node("Unheard", "x", "y", domain="my.own")], {"x": (FLOAT, [2])}, {"y": FLOAT})
    unknown.opset_import.add(domain="my.own", version=1)
    with pytest.raises((UnsupportedOperatorError, RuntimeFailureError), match="Unheard"):
        check(unknown, wrt="x")


def test_a_gradient_that_onnx_runtime_cannot_run_is_an_error():
    """Although the reference evaluator could."""
    proto = model(
        [node("Conv", "x K", "y", "stem")],
        {"x": (DOUBLE, [1, 1, 4, 5])},
        {"y": DOUBLE},
        {"K": numbers(2, 1, 3, 2).astype(np.float64)},
    )
    with pytest.raises(RuntimeFailureError, match="no float64 kernel for Conv"):
        check(proto)


def test_the_report_reads_as_a_table_and_as_data():
    worst = Worst((1, 2), 0.5, 0.25, 1.0)
    report = CheckReport(
        of=("y",),
        entries=(
            Entry("weights", (2, 3), "float32", Verdict.DISAGREE, 1.0, 6, worst, ""),
            Entry("b", (), "float32", Verdict.AGREE, 0.0, 1, None, ""),
            Entry("c", (2,), "float32", Verdict.DISAGREE, float("inf"), 0, None, "gradient of shape [3]"),
        ),
        culprits=(),
        note="",
        precision="float64",
        engine="ONNX Runtime",
        gradient_precision="float64",
        tolerance=1e-5,
    )
    assert str(report).splitlines() == [
        "wrt      type           verdict   difference  worst element",
        "weights  float32[2, 3]  disagree  1.0e+00     [1, 2]: 0.5, measured 0.25",
        "b        float32[]      agree     -",
        "c        float32[2]     disagree  inf         gradient of shape [3]",
        "gradient of y: 1 agree, 2 disagree "
        "(tolerance 1e-05; measured in float64 by ONNX Runtime, gradient in float64)",
    ]
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["ok"] is False
    assert data["entries"][0]["worst"]["index"] == [1, 2]
    assert data["entries"][2]["error"] is None


_LISTS = """<ir_version: 10, opset_import: ["": 18]>
g (seq(float[N,2]) s, float[2] w, int64 p) => (seq(float[M,2]) t, float[A,2] y) {
  m = SequenceMap(s) <body = b (float[P,2] e) => (float[P,2] r) { k = Mul(e, e) r = Mul(k, w) }>
  a = SequenceAt(m, p)
  t = SequenceInsert(m, a)
  j = ConcatFromSequence<axis = 0>(t)
  y = Sin(j)
}"""
_LIST = {"s": [numbers(k, 2, seed=k) for k in (1, 2, 3)], "p": np.int64(1)}


def test_values_in_between_may_be_sequences():
    lists = onnx.parser.parse_model(_LISTS)
    assert check(lists, _LIST, wrt="w", of="y").ok
    report = check(lists, _LIST, wrt="w", of="y", gradients=altered("Sin", scaled(1.001)))
    assert not report.ok
    assert [culprit.type for culprit in report.culprits] == ["Sin"]


@pytest.mark.parametrize(("wrt", "of", "named"), [("s", "y", "s"), ("w", "t", "t")])
def test_sequences_themselves_are_refused(wrt, of, named):
    with pytest.raises(InvalidArgumentError, match=f"'{named}' is a sequence, and `check` measures"):
        check(onnx.parser.parse_model(_LISTS), _LIST, wrt=wrt, of=of)
