"""The test cases of the original's backward pass, through the Python interface, compared as messages.

The nets and the expected operators are those of `tests.core.test_original_cases`; the makers of the test
operators are registered as scripts do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_definition, to_operator
from netgrad.caffe2.python import core
from netgrad.core import GradientSlice, RuleRegistry
from tests.core.nets import make_rules, net
from tests.core.test_original_cases import CASES, Case, _map

SCRIPTED = [
    "Direct",
    "UseInput",
    "UseOutput",
    "Nogradient",
    "Pass",
    "First",
    "SparsePass",
    "SparseVal",
    "SparseLook",
    "Chain",
]


def _as_script(rules: RuleRegistry) -> Any:
    """A maker over messages that answers like the core's rule."""

    def maker(definition: OperatorDef, g_output: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
        grads = [GradientSlice(*grad) if isinstance(grad, core.GradientSlice) else grad for grad in g_output]
        operator = to_operator(definition)
        if not rules.needs_all_output_gradients(operator) and all(grad is None for grad in grads):
            return [], [None] * len(operator.inputs)
        written, gradients = rules.rule(operator, grads)
        return [to_definition(one) for one in written], [_to_script(grad) for grad in gradients]

    return maker


def _to_script(gradient: Any) -> Any:
    return (
        core.GradientSlice(gradient.indices, gradient.values)
        if isinstance(gradient, GradientSlice)
        else gradient
    )


@pytest.fixture
def registered() -> Iterator[None]:
    rules = make_rules()
    registry = core.GradientRegistry.gradient_registry_
    before = dict(registry)
    registry.update({type_: _as_script(rules) for type_ in SCRIPTED})
    yield
    registry.clear()
    registry.update(before)


def _plain(operators: Sequence[OperatorDef]) -> list[OperatorDef]:
    """Operators without what only netgrad's own makers and additions say of themselves."""
    plain = []
    for one in operators:
        copy = OperatorDef()
        copy.CopyFrom(one)
        copy.ClearField("is_gradient_op")
        copy.ClearField("device_option")
        plain.append(copy)
    return plain


# What a script is given where it isn't what the core gives: the gradients of what blobs are fed with.
FOR_SCRIPTS = {"testStopGradientInplace": "out: out_grad"}


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_case_of_the_original(case: Case) -> None:
    targets: Any = case.targets
    if isinstance(targets, Mapping):
        targets = {blob: _to_script(grad) for blob, grad in targets.items()}
    else:
        targets = list(targets)
    forward = [to_definition(one) for one in net(case.forward)]
    operators, gradients = core.GradientRegistry.GetBackwardPass(forward, targets)
    assert _plain(operators) == _plain([to_definition(one) for one in net(case.operators)])
    expected = _map(FOR_SCRIPTS.get(case.name, case.gradients))
    assert gradients == {blob: _to_script(grad) for blob, grad in expected.items()}
