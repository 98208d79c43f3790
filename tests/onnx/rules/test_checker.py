"""The gradient test itself: a rule that is wrong, however little, must fail, and the message names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from netgrad.core.errors import RuleError, UnsupportedOperatorError
from netgrad.onnx.builder import Value
from netgrad.onnx.rules import declaration
from netgrad.onnx.rules.context import RuleContext
from tests.onnx.rules.table import Case, normal
from tests.onnx.rules.test_gradients import (
    test_gradient_agrees_with_central_differences as first_order,
)
from tests.onnx.rules.test_gradients import (
    test_same_value_fed_twice as fed_twice,
)
from tests.onnx.rules.test_gradients import (
    test_second_order_agrees_with_central_differences_of_the_gradient as second_order,
)

MATMUL = Case("MatMul", [normal(2, 3), normal(3, 4)], note="wrong")
SQUARE = Case("MatMul", [normal(3, 3), normal(3, 3)], note="square")
MUL = Case("Mul", [normal(2, 3), normal(2, 3)], note="wrong")
EXP = Case("Exp", [normal(2, 3)], note="wrong")


def replace(monkeypatch: pytest.MonkeyPatch, op_type: str, function: Callable[..., Any]) -> None:
    right = declaration.declarations()[("", op_type)]
    wrong = declaration.Declaration(
        op_type,
        "",
        declaration.Kind.RULE,
        function=function,
        attributes=right.attributes,
        broadcasts=right.broadcasts,
    )
    monkeypatch.setitem(declaration._DECLARATIONS, ("", op_type), wrong)


def right_rule(op_type: str) -> Callable[..., Any]:
    function = declaration.declarations()[("", op_type)].function
    assert function is not None
    return function


@pytest.mark.parametrize("case", [MATMUL, MUL, EXP], ids=lambda case: case.type)
@pytest.mark.parametrize("factor", [1.001, 0.999, -1.0, 0.0])
def test_a_rule_wrong_by_a_factor_fails(case: Case, factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    first_order(case)
    right = right_rule(case.type)
    replace(monkeypatch, case.type, lambda op, dy: right(op, dy * factor))
    with pytest.raises(AssertionError, match=f"{case.type}, gradient of input x0: element"):
        first_order(case)


@pytest.mark.parametrize("wrong_input", [0, 1])
def test_one_wrong_input_is_named(wrong_input: int, monkeypatch: pytest.MonkeyPatch) -> None:
    right = right_rule("Mul")

    def rule(op: RuleContext, dy: Value) -> list[Value | None]:
        contributions = list(right(op, dy))
        contributions[wrong_input] = contributions[wrong_input] * 1.001
        return contributions

    replace(monkeypatch, "Mul", rule)
    with pytest.raises(AssertionError, match=f"Mul, gradient of input x{wrong_input}: element"):
        first_order(MUL)


def test_a_transposed_gradient_fails_even_where_it_is_square(monkeypatch: pytest.MonkeyPatch) -> None:
    first_order(SQUARE)
    right = right_rule("MatMul")

    def rule(op: RuleContext, dy: Value) -> list[Value]:
        da, db = right(op, dy)
        return [op.emit("Transpose", da), db]

    replace(monkeypatch, "MatMul", rule)
    with pytest.raises(AssertionError, match="MatMul, gradient of input x0: element"):
        first_order(SQUARE)


def test_a_transposed_gradient_is_refused_where_it_is_not_square(monkeypatch: pytest.MonkeyPatch) -> None:
    right = right_rule("MatMul")
    replace(monkeypatch, "MatMul", lambda op, dy: [op.emit("Transpose", right(op, dy)[0]), right(op, dy)[1]])
    with pytest.raises((RuleError, AssertionError), match="shape"):
        first_order(MATMUL)


def test_a_dropped_contribution_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    fed_twice(MUL)
    right = right_rule("Mul")
    replace(monkeypatch, "Mul", lambda op, dy: [right(op, dy)[0], op.builder.zeros_like(op.required(1))])
    with pytest.raises(AssertionError, match="Mul, gradient of input x0: element"):
        fed_twice(MUL)


def test_a_rule_that_is_right_to_first_order_only_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number is right, but it is a constant to whoever differentiates again."""
    second_order(EXP)

    def rule(op: RuleContext, dy: Value) -> Value:
        return dy * (op.emit("Round", op.output * 2.0**40) * 2.0**-40)

    replace(monkeypatch, "Exp", rule)
    first_order(EXP)
    with pytest.raises(AssertionError, match="Exp, gradient of input x0: element"):
        second_order(EXP)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda op, dy: [dy], "returns 1 gradients where there are 2 inputs"),
        (lambda op, dy: dy, "returns one value where there are 2 differentiable inputs"),
        (lambda op, dy: [dy, None], "returns no gradient for input 1"),
        (lambda op, dy: dy.nothing, "failed with AttributeError"),
    ],
    ids=["too few", "bare", "forgotten", "raises"],
)
def test_a_broken_contract_is_told_to_the_author(
    function: Callable[..., Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace(monkeypatch, "Mul", function)
    with pytest.raises(RuleError, match=message):
        first_order(MUL)


def test_an_attribute_that_a_rule_does_not_know_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case("Elu", [normal(2, 3)], {"alpha": 0.5}, note="wrong")
    first_order(case)
    wrong = declaration.Declaration("Elu", "", declaration.Kind.RULE, function=right_rule("Elu"))
    monkeypatch.setitem(declaration._DECLARATIONS, ("", "Elu"), wrong)
    with pytest.raises(UnsupportedOperatorError, match=r"Elu, node 'node' .* attribute 'alpha' = 0\.5"):
        first_order(case)
    first_order(Case("Elu", [normal(2, 3)], note="at its default"))
