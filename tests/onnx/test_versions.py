"""Opset ranges: what every rule, expansion and lowering is for, against the installed onnx."""

from __future__ import annotations

import onnx
import onnx.defs
import pytest
from onnx import parser

import netgrad
import netgrad.transforms.grad  # and with it all rules, before a test changes the table
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx import versions
from netgrad.onnx.fused import fused_operators
from netgrad.onnx.lowering.lower import CLASSICAL, TRAINING, lowered_operators
from netgrad.onnx.recurrent import RECURRENT
from netgrad.onnx.rules.declaration import declarations
from netgrad.onnx.versions import REVIEWED, defined_in, too_new

WRITTEN = sorted(
    {
        *declarations(),
        *fused_operators(),
        *(("", name) for name in RECURRENT),
        *((domain, name) for domain in (CLASSICAL, TRAINING) for name in lowered_operators(domain)),
    }
)


def _installed(domain: str) -> int:
    """The newest version of an operator set that the installed onnx knows."""
    found = [s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain]
    return max([onnx.defs.onnx_opset_version() if not domain else 0, *found])


@pytest.mark.parametrize(("domain", "op_type"), WRITTEN, ids=lambda part: str(part))
def test_no_operator_is_newer_than_its_rule(domain: str, op_type: str) -> None:
    """Fails when a new onnx defines an operator anew: read what changed, then raise the version there."""
    assert domain in REVIEWED, f"say in netgrad.onnx.versions which version of {domain} was read"
    why = too_new(op_type, domain, {domain: _installed(domain)})
    assert why is None, f"{domain}::{op_type}: {why}"


@pytest.mark.parametrize("domain", sorted(REVIEWED))
def test_the_table_runs_ahead_of_no_operator_set(domain: str) -> None:
    if _installed(domain):
        assert REVIEWED[domain] <= _installed(domain), "no one can have read what is not there"


def test_since_when_an_operator_is_what_it_is() -> None:
    assert defined_in("Relu", 18) == 14
    assert defined_in("Gelu", 19) is None
    assert defined_in("Gelu", 28) == 20
    assert defined_in("Scaler", 5, "ai.onnx.ml") == 1


def test_an_unchanged_operator_of_a_later_version_is_fine() -> None:
    assert too_new("Relu", "", {"": 28}, newest=14) is None
    assert too_new("Relu", "", {"": 28}, newest=13) == (
        "version 14 of its operator set defines it anew, and netgrad knows versions up to 13"
    )
    assert too_new("Foo", "my.domain", {"my.domain": 7}) is None, "of a domain that is not netgrad's"
    assert too_new("Foo", "my.domain", {"my.domain": 7}, newest=6) is not None


def _net(body: str, opsets: str = '"": 25') -> onnx.ModelProto:
    return parser.parse_model(
        f"<ir_version: 10, opset_import: [{opsets}]> g (float[n, 3] x) => (float[n, 3] y) {{ {body} }}"
    )


def test_a_rule_refuses_an_operator_that_was_defined_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the rules had been written at opset 12: Tanh and Sign are of opset 13, Round of 22."""
    monkeypatch.setitem(versions.REVIEWED, "", 12)
    wanted = r"version 13 of its .*up to 12: no gradient rule for Tanh, node 'Tanh' \(x -> y\)"
    with pytest.raises(UnsupportedOperatorError, match=wanted):
        netgrad.grad(_net("y = Tanh (x)"), wrt="x")
    net = _net("h = Tanh (x) y = Neg (x)")
    netgrad.grad(net, wrt="x", gradients={"Neg": lambda op, dy: -dy})  # no gradient passes Tanh


def test_what_has_no_gradient_may_have_one_when_it_is_defined_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    net = _net("h = Sign (x) y = Add (x, h)")
    netgrad.grad(net, wrt="x")
    monkeypatch.setitem(versions.REVIEWED, "", 12)
    with pytest.raises(UnsupportedOperatorError, match=r"version 13 of its .*no gradient rule for Sign"):
        netgrad.grad(net, wrt="x", gradients={"Add": lambda op, dy: [dy, dy]})


def test_a_rule_of_the_callers_is_for_any_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions.REVIEWED, "", 12)
    net = _net("y = Tanh (x)")
    assert netgrad.grad(net, wrt="x", gradients={"Tanh": lambda op, dy: dy}).graph.outputs[1].name == "x_grad"


def test_an_expansion_refuses_another_version_of_its_set() -> None:
    body = "y = com.microsoft.QuickGelu (x)"
    netgrad.grad(_net(body, '"": 18, "com.microsoft": 1'), wrt="x")
    with pytest.raises(UnsupportedOperatorError, match=r"QuickGelu.*version 2 of com\.microsoft.*up to 1"):
        netgrad.grad(_net(body, '"": 18, "com.microsoft": 2'), wrt="x")


def test_a_lowering_refuses_another_version_of_its_set(monkeypatch: pytest.MonkeyPatch) -> None:
    body = "y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0]> (x)"
    netgrad.grad(_net(body, '"": 18, "ai.onnx.ml": 3'), wrt="x")
    monkeypatch.setitem(versions.REVIEWED, "ai.onnx.ml", 0)
    with pytest.raises(UnsupportedOperatorError, match=r"Scaler.*version 1 of its operator set.*up to 0"):
        netgrad.grad(_net(body, '"": 18, "ai.onnx.ml": 3'), wrt="x")


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("y = my.dom.Relu (x)", "no gradient rule for my.dom::Relu"),
        ("y = com.microsoft.Tanh (x)", "no gradient rule for com.microsoft::Tanh"),
    ],
)
def test_an_operator_of_another_domain_is_another_operator(body: str, match: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=match):
        netgrad.grad(_net(body, '"": 18, "my.dom": 1, "com.microsoft": 1'), wrt="x")


@pytest.mark.parametrize(
    "body",
    [
        "y = com.microsoft.QuickGelu <beta = 1.0> (x)",
        'y = ai.onnx.ml.Scaler <offset = [1.0], scale = [2.0], mode = "DCR"> (x)',
    ],
)
def test_an_unknown_attribute_of_an_expansion_is_refused(body: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"'(beta|mode)' is not understood"):
        netgrad.grad(_net(body, '"": 18, "com.microsoft": 1, "ai.onnx.ml": 3'), wrt="x")
