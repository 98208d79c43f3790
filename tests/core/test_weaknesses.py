"""The weaknesses of the original: right numbers, under every strategy, naming and hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import netgrad
from netgrad.core import (
    ClassicVocabulary,
    Operator,
    OverwrittenBlobError,
    UnsupportedOperatorError,
    backward_pass,
)
from tests.core.interpreter import KERNELS, check_numbers, feeds, run
from tests.core.nets import lines, make_rules, net, text
from tests.core.weaknesses import WEAKNESSES, Weakness, numeric_rules, report


@pytest.mark.parametrize("weakness", WEAKNESSES, ids=str)
@pytest.mark.parametrize("single_assignment", [False, True], ids=["names_reused", "names_unique"])
@pytest.mark.parametrize("accumulation", ["sum", "running", "fused", "auto"])
def test_numbers(weakness: Weakness, accumulation: str, single_assignment: bool) -> None:
    weakness.check(accumulation=accumulation, single_assignment=single_assignment)


def test_result_does_not_depend_on_the_hash_seed() -> None:
    root = Path(__file__).parents[2]
    source = Path(netgrad.__file__).parents[1]
    expected = report()
    for seed in ("0", "1", "2", "3", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{source}{os.pathsep}{root}"}
        done = subprocess.run(
            [sys.executable, "-m", "tests.core.weaknesses"],
            cwd=root,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.rstrip("\n") == expected


def _named(name: str) -> Weakness:
    return next(weakness for weakness in WEAKNESSES if weakness.name == name)


@pytest.mark.parametrize("weakness", [w for w in WEAKNESSES if w.options == {"overwritten": "keep"}], ids=str)
def test_overwritten_value_is_an_error_unless_kept(weakness: Weakness) -> None:
    with pytest.raises(OverwrittenBlobError) as caught:
        backward_pass(net(weakness.forward), weakness.targets, numeric_rules())
    error = caught.value
    assert error.reader in net(weakness.forward)
    assert error.writer in net(weakness.forward)
    assert str(error.reader) in str(error)
    assert str(error.writer) in str(error)
    assert error.needed < error.current


def test_w1_sums_of_one_operator_come_in_the_order_of_its_inputs() -> None:
    result = _named("W1 order of sums").check()
    sums = [op.outputs[0] for op in result.operators if op.type == "Sum"]
    assert sums == ["p_grad", "q_grad", "r_grad"]


def test_w2_both_gradients_are_in_the_map() -> None:
    result = _named("W2 passed gradient whose name is used again").check()
    assert result.gradients["w"] == "y_grad"
    assert result.gradient_of("y", 0) != "y_grad"


def test_w7_local_use_is_renamed_too() -> None:
    result = _named("W7 renaming follows local uses").check()
    (second,) = [op for op in result.operators if op.type == "C2"]
    (first,) = [op for op in result.operators if op.type == "C1"]
    assert second.inputs == first.outputs


def test_w11_no_gradient_for_a_value_that_nobody_reads() -> None:
    result = _named("W11 overwritten without being read, pass-through").check()
    assert "a" not in result.gradients
    assert result.gradients["b"] == "b_grad"


def test_w14_caller_s_start_gradient_is_not_written() -> None:
    result = _named("W14 maker that scales its output gradient").check()
    assert all("dout" not in op.outputs for op in result.operators)


def test_w17_short_names_are_names() -> None:
    result = _named("W17 a gradient name of two characters").check()
    assert result.operators[0].inputs == ("dz",)


def test_w21_kept_value_is_copied_just_before_it_is_overwritten() -> None:
    result = _named("W21 an input that is overwritten later").check()
    assert text(result.forward) == lines("UseInput(in)->(out); Copy(in)->(in_kept); Direct(in)->(in)")
    assert text(result.operators) == lines(
        "ConstantFill(out)->(out_autogen_grad) {value=1.0}; "
        "UseInputGradient(in_kept,out_autogen_grad)->(in_grad)"
    )


def test_w21_value_that_an_operator_keeps_in_place_is_read_where_it_is() -> None:
    result = _named("W21 a value kept by StopGradient").check()
    assert result.forward == tuple(net(_named("W21 a value kept by StopGradient").forward))
    assert "UseOutputGradient(h,o_autogen_grad)->(x_grad)" in text(result.operators)


def test_w23_forbidden_operator_off_the_way_to_wrt() -> None:
    forward = net("Accuracy(x)->(a); Direct(a,w)->(o)")
    with pytest.raises(UnsupportedOperatorError, match="gradient forbidden for Accuracy"):
        backward_pass(forward, ["o"], make_rules())
    result = backward_pass(forward, ["o"], make_rules(), wrt=["w"])
    assert result.gradients["w"] == "w_grad"
    assert "x" not in result.gradients


def test_w24_each_version_has_its_gradient() -> None:
    result = _named("W24 versions of a target").check()
    assert result.gradients["y"] == result.gradient_of("y") == "y_autogen_grad"
    assert result.versions["y"] == 1
    assert result.gradient_of("y", 0) == "y_grad"


def test_w29_gradients_by_which_is_differentiated_can_be_written_in_place() -> None:
    """Momentum that leaves its step in the gradient blob, for one parameter after the other."""
    forward = net(_named("W29 one gradient blob for two parameters").forward)
    result = backward_pass(forward, ["y"], numeric_rules(), wrt=["a", "b"])
    blobs = run([*forward, *result.operators], feeds(forward).values)
    a, b = (result.gradients[name] for name in ("a", "b"))
    assert isinstance(a, str)
    assert isinstance(b, str)
    blobs[a] *= 0.1
    np.testing.assert_array_equal(blobs[b], np.ones_like(blobs[b]))
    assert len({a, b, "y_autogen_grad"}) == 3


def test_w30_output_gets_a_name_of_its_own_where_the_operator_needs_it() -> None:
    weakness = _named("W30 gradient operator that doesn't work in place")
    (line,) = [op for op in weakness.check().operators if op.type == "PReluGradient"]
    assert not set(line.inputs) & set(line.outputs)
    (line,) = [
        op for op in weakness.check(vocabulary=ClassicVocabulary()).operators if op.type == "PReluGradient"
    ]
    assert line.inputs[1] == line.outputs[0] == "x_grad"


@pytest.mark.parametrize("factor", [1.001, 0.999, -1.0])
def test_wrong_rule_fails_the_check(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    right = KERNELS["UseInputGradient"]

    def wrong(op: Operator, x: list[np.ndarray]) -> list[np.ndarray]:
        return [factor * gradient for gradient in right(op, x)]

    monkeypatch.setitem(KERNELS, "UseInputGradient", wrong)
    with pytest.raises(AssertionError, match="gradient of x"):
        check_numbers(net("Direct(x)->(a); UseInput(a)->(y)"), ["y"], numeric_rules())


def test_dropped_contribution_fails_the_check() -> None:
    class Forgetful(ClassicVocabulary):
        def sum(self, terms: list[str], out: str, device: object) -> list[Operator]:
            return super().sum(terms[:-1], out, device)

    with pytest.raises(AssertionError, match="gradient of x"):
        check_numbers(net("Direct(x)->(a); Direct(x,a)->(y)"), ["y"], numeric_rules(), vocabulary=Forgetful())
