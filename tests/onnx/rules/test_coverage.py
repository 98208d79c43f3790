"""Every operator of the installed onnx is exactly one of five things, and what has a gradient has rows."""

from __future__ import annotations

import importlib
import pkgutil

import onnx
import pytest
from onnx import parser

import netgrad.onnx.rules  # noqa: F401  registers all declarations
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.recurrent import RECURRENT
from netgrad.onnx.rules.choices import Choices
from netgrad.onnx.rules.declaration import Declaration, Kind, declarations
from netgrad.transforms.grad import differentiate
from tests.onnx.rules import cases
from tests.onnx.rules.second_order import UNMEASURED
from tests.onnx.rules.test_control import MODELS
from tests.onnx.rules.test_recurrent import FORMS
from tests.onnx.rules.test_sequences import MODELS as SEQUENCES

SCHEMAS: dict[str, onnx.defs.OpSchema] = {
    schema.name: onnx.defs.get_schema(schema.name)
    for schema in onnx.defs.get_all_schemas()
    if schema.domain == "" and not schema.deprecated
}
DECLARED = {name: declared for (domain, name), declared in declarations().items() if not domain}
WITH_ROWS = {
    row.type
    for module in pkgutil.iter_modules(cases.__path__)
    for row in importlib.import_module(f"{cases.__name__}.{module.name}").CASES
}
WITH_ROWS |= {name for model in [*MODELS, *SEQUENCES] for name in model.types} | {form.type for form in FORMS}


def _kind(name: str) -> str:
    declared = DECLARED.get(name)
    if declared is not None:
        return declared.kind.value
    schema = SCHEMAS[name]
    has_body = name in RECURRENT or schema.has_function or schema.has_context_dependent_function
    return "expanded" if has_body else "unknown"


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_operator_is_accounted_for(name: str) -> None:
    kind = _kind(name)
    assert kind != "unknown", f"{name}: write a rule, or declare why it has none"
    if kind in ("rule", "expanded"):
        assert name in WITH_ROWS, f"{name} ({kind}) has no row in the table"
    else:
        assert name not in WITH_ROWS, f"{name} has rows, but is declared {kind}"
        assert DECLARED[name].reason, f"{name} is declared {kind} without a reason"


def test_nothing_that_has_a_derivative_is_left_out() -> None:
    left_out = {name for name, declared in DECLARED.items() if declared.kind is Kind.NOT_IMPLEMENTED}
    assert not left_out


def test_second_derivatives_are_measured_but_for_a_list_with_reasons() -> None:
    rows = [
        row
        for module in pkgutil.iter_modules(cases.__path__)
        for row in importlib.import_module(f"{cases.__name__}.{module.name}").CASES
        if row.expected is None and not row.domain
    ]
    measured = {
        row.type for row in rows if row.second_order and (row.gradient_dtype == "float64" or row.forward)
    }
    assert {row.type for row in rows} - measured == set(UNMEASURED)
    assert all(UNMEASURED.values())


def test_nothing_is_declared_that_does_not_exist() -> None:
    assert set(DECLARED) <= set(SCHEMAS)
    assert set(SCHEMAS) >= WITH_ROWS


def test_a_missing_rule_is_refused_with_its_reason() -> None:
    text = '<ir_version: 10, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { s = Sin(x) y = Exp(s) }'
    without = {("", "Sin"): Declaration("Sin", "", Kind.NOT_IMPLEMENTED, "for this test")}
    wanted = r"not implemented \(for this test\): .*Sin.*\(x -> s\)"
    with pytest.raises(UnsupportedOperatorError, match=wanted):
        differentiate(parser.parse_model(text), wrt=["x"], of="y", choices=Choices(declarations=without))
