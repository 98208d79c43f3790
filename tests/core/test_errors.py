"""Errors name the operator, the blob, and what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from netgrad import core
from netgrad.core import (
    AccumulationError,
    InvalidArgumentError,
    NetgradError,
    Operator,
    OverwrittenBlobError,
    RuleError,
    RuleRegistry,
    UnsupportedOperatorError,
    backward_pass,
    errors,
)
from netgrad.core.vocabulary import ClassicVocabulary
from tests.core.nets import make_rules, net


def test_every_error_has_a_help_page() -> None:
    classes = [
        thing
        for thing in vars(errors).values()
        if isinstance(thing, type) and issubclass(thing, NetgradError)
    ]
    assert len(classes) >= 8
    for kind in set(classes) - {NetgradError}:
        for part in ("Cause:", "Example:", "What to do:"):
            assert part in (kind.__doc__ or ""), f"{kind.__name__} lacks {part}"


def test_all_missing_rules_are_reported_at_once() -> None:
    forward = [
        Operator("Direct", ("x",), ("a",)),
        Operator("Warp", ("a", "theta"), ("b",), domain="my.ops", name="warp_1"),
        Operator("Direct", ("b",), ("c",)),
        Operator("Twist", ("c",), ("d",)),
        Operator("Bend", ("e",), ("f",)),  # leads nowhere
    ]
    with pytest.raises(UnsupportedOperatorError) as caught:
        backward_pass(forward, ["d"], make_rules())
    error = caught.value
    assert [missing.operator.type for missing in error.operators] == ["Warp", "Twist"]
    assert error.operators[0].path == ("x", "a", "b", "c", "d")
    assert error.operators[0].index == 1
    text = str(error)
    assert "no gradient rule for my.ops::Warp, node 'warp_1' (a, theta -> b)" in text
    assert "no gradient rule for Twist, operator 3 (c -> d)" in text
    assert "it lies between 'x' and 'd': x -> a -> b -> c -> d" in text
    assert "hint:" in text


def test_only_missing_rules_between_wrt_and_targets_count() -> None:
    forward = net("Twist(x)->(a); Direct(a,w)->(b); Bend(b)->(c); Direct(b)->(d)")
    assert backward_pass(forward, ["d"], make_rules(), wrt=["w"]).gradients["w"] == "w_grad"
    with pytest.raises(UnsupportedOperatorError, match="Bend") as caught:
        backward_pass(forward, ["c"], make_rules(), wrt=["w"])
    assert [missing.operator.type for missing in caught.value.operators] == ["Bend"]
    assert caught.value.operators[0].path == ("w", "b", "c")


def test_missing_rule_behind_inputs_that_block_is_no_error() -> None:
    forward = net("Twist(x)->(i); SparsePass(w,i)->(y)")
    assert set(backward_pass(forward, {"y": "gy_"}, make_rules()).gradients) == {"y", "w"}


def test_missing_rule_whose_rule_returns_no_gradient_is_no_error() -> None:
    forward = net("Twist(x)->(c); First(w,c)->(y)")
    assert set(backward_pass(forward, {"y": "gy_"}, make_rules()).gradients) == {"y", "w"}


def test_long_paths_are_shown_without_their_middle() -> None:
    forward = [Operator("Twist", ("x0",), ("x1",))]
    forward += [Operator("Direct", (f"x{k}",), (f"x{k + 1}",)) for k in range(1, 30)]
    with pytest.raises(UnsupportedOperatorError) as caught:
        backward_pass(forward, ["x30"], make_rules())
    assert caught.value.operators[0].path == ("x0", "x1", "x2", "x3", "...", "x27", "x28", "x29", "x30")


@pytest.mark.parametrize(
    ("register", "reason"),
    [
        (lambda rules: rules.should_not_do_gradient("Odd"), "gradient forbidden for Odd"),
        (lambda rules: rules.not_implemented("Odd"), "not implemented: no gradient rule for Odd"),
        (
            lambda rules: rules.not_implemented("Odd", reason="three axes"),
            r"not implemented \(three axes\): no gradient rule for Odd",
        ),
    ],
)
def test_declared_reasons_are_in_the_text(register: Callable[[RuleRegistry], None], reason: str) -> None:
    rules = RuleRegistry()
    register(rules)
    with pytest.raises(UnsupportedOperatorError, match=reason):
        backward_pass(net("Odd(x)->(y)"), ["y"], rules)


def test_overwritten_blob_names_both_operators_and_the_history() -> None:
    forward = net("Direct(z)->(x); UseInput(x)->(y); Pass(z)->(x); Direct(x)->(x)")
    with pytest.raises(OverwrittenBlobError) as caught:
        backward_pass(forward, ["y"], make_rules())
    error = caught.value
    assert (error.blob, error.needed, error.current) == ("x", 0, 2)
    assert (error.reader, error.writer) == (forward[1], forward[2])
    assert "version 0 is written by Direct(z) -> (x)" in str(error)
    assert "version 2 is written by Direct(x) -> (x)" in str(error)
    assert "overwritten='keep'" in str(error)


def _rule_of(returned: Any) -> RuleRegistry:
    rules = RuleRegistry()
    rules.register("Bad", lambda op, grads: returned)
    return rules


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None instead of"),
        (([], []), "returned 0 gradients for 2 inputs"),
        (([], ["a", None, None]), "returned 3 gradients for 2 inputs"),
        (([], "ab"), "returned 'ab' instead of one gradient per input"),
        (([], [3, None]), "returned 3, which is no gradient"),
        (([], ["elsewhere", None]), "uses 'elsewhere'"),
        (([Operator("G", ("elsewhere",), ("x_grad",))], ["x_grad", None]), "uses 'elsewhere', in G"),
        (([], [core.GradientSlice("x", ""), None]), "of which a part is missing"),
        ((["no operator"], [None, None]), "wrote 'no operator', which is no operator"),
    ],
)
def test_broken_contract_is_told_to_the_author_of_the_rule(returned: Any, message: str) -> None:
    with pytest.raises(RuleError, match=message) as caught:
        backward_pass(net("Bad(x,w)->(y)"), ["y"], _rule_of(returned))
    assert caught.value.operator == net("Bad(x,w)->(y)")[0]
    assert "Bad(x, w) -> (y)" in str(caught.value)
    file, line = caught.value.location.rsplit(":", 1)
    assert file == __file__
    assert int(line) > 0


def test_exception_in_a_rule_is_chained_and_names_the_operator() -> None:
    rules = RuleRegistry()
    rules.register("Bad", lambda op, grads: 1 / 0)
    with pytest.raises(RuleError, match=r"raised ZeroDivisionError.*Bad 'node_7'\(x\) -> \(y\)") as caught:
        backward_pass([Operator("Bad", ("x",), ("y",), name="node_7")], ["y"], rules)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_netgrad_errors_of_a_rule_pass_as_they_are() -> None:
    refused = UnsupportedOperatorError("mode 'cubic' has no gradient")

    def rule(op: Operator, grads: Any) -> Any:
        raise refused

    rules = RuleRegistry()
    rules.register("Resize", rule)
    with pytest.raises(UnsupportedOperatorError) as caught:
        backward_pass(net("Resize(x)->(y)"), ["y"], rules)
    assert caught.value is refused


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        ("y", {}, "targets are a list of blob names or a mapping"),
        (3, {}, "targets are a list of blob names or a mapping"),
        ([3], {}, "a target is the name of a blob, not 3"),
        ([""], {}, "a target is the name of a blob"),
        ({"y": 3}, {}, "start gradient of 'y' is"),
        ({"y": ""}, {}, "start gradient of 'y' is"),
        (["y"], {"wrt": "x"}, "wrt is a list of blob names, not the single name 'x'"),
        (["y"], {"overwritten": "copy"}, "overwritten is 'error' or 'keep', not 'copy'"),
        (
            ["y"],
            {"accumulation": "tree"},
            "accumulation is one of 'sum', 'running', 'fused', 'auto', not 'tree'",
        ),
    ],
)
def test_wrong_arguments(targets: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        backward_pass(net("Direct(x)->(y)"), targets, make_rules(), **options)


def test_gradient_of_an_unknown_value() -> None:
    result = backward_pass(net("Direct(x)->(x)"), ["x"], make_rules())
    with pytest.raises(InvalidArgumentError, match="no blob 'nope'"):
        result.gradient_of("nope")
    with pytest.raises(InvalidArgumentError, match="no version 2; its versions are 0 to 1"):
        result.gradient_of("x", 2)


def test_gradient_that_an_older_version_overwrites() -> None:
    forward = net("Direct(x)->(x); Direct(x)->(y)")
    result = backward_pass(forward, ["y"], make_rules())
    assert (result.gradients["x"], result.versions["x"]) == ("x_grad", 0)
    with pytest.raises(InvalidArgumentError, match="version 1 of blob 'x' is overwritten"):
        result.gradient_of("x")
    held = backward_pass(forward, ["y"], make_rules(), wrt=["x"])
    assert (held.gradients["x"], held.versions["x"]) == ("x_grad", 1)
    assert held.gradient_of("x", 0) == "x_grad_1"


def test_dialect_without_words_for_sparse_gradients() -> None:
    classic = ClassicVocabulary()

    class Dense:
        ones, zeros, sum, copy = classic.ones, classic.zeros, classic.sum, classic.copy
        size_in_bytes, fold = classic.size_in_bytes, classic.fold

    forward = net("SparsePass(x,i)->(a); SparsePass(x,j)->(b); Direct(a,b)->(y)")
    with pytest.raises(AccumulationError, match="version 0 of blob 'x' can't be added") as caught:
        backward_pass(forward, ["y"], make_rules(), vocabulary=Dense())
    assert list(caught.value.operators) == forward[:2]


def test_operators_and_errors_survive_pickling() -> None:
    op = Operator("Mul", ["a", "b"], ["c"], {"axis": 1}, "my.ops", ("gpu", 0), "mul_1")
    assert pickle.loads(pickle.dumps(op)) == op
    assert pickle.loads(pickle.dumps(Operator("Op"))) == Operator("Op")
