"""The worked corner cases of the specification, operator for operator and name for name.

A row whose note names a weakness (W...) shows what the original gets wrong; it then holds the right result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from netgrad.core import (
    ClassicVocabulary,
    Gradient,
    GradientSlice,
    UnsupportedOperatorError,
    backward_pass,
)
from netgrad.core.verify import check_reads
from tests.core.nets import lines, make_rules, net, text, text_with_devices


@dataclass(frozen=True)
class Case:
    name: str
    forward: str
    targets: Mapping[str, Gradient | None] | Sequence[str]
    operators: str
    gradients: Mapping[str, Gradient] = field(default_factory=dict)  # an excerpt
    absent: Sequence[str] = ()  # blobs without a gradient
    note: str = ""
    devices: bool = False

    def __str__(self) -> str:
        return self.name.replace(" ", "_")


CASES = [
    Case(
        "C1 same blob twice in one operator",
        "Direct(z)->(x); Direct(x,x)->(y)",
        {"y": "gy_"},
        "DirectGradient(gy_)->(x_grad,_x_grad_autosplit_0); Sum(x_grad,_x_grad_autosplit_0)->(x_grad); "
        "DirectGradient(x_grad)->(z_grad)",
        {"x": "x_grad", "z": "z_grad"},
    ),
    Case(
        "C2 same, pass-through",
        "Direct(z)->(x); Pass(x,x)->(y)",
        {"y": "gy_"},
        "Sum(gy_,gy_)->(x_grad); DirectGradient(x_grad)->(z_grad)",
        {"x": "x_grad"},
    ),
    Case(
        "C3 four consumers",
        "Direct(x)->(h0); Direct(x)->(h1); Direct(x)->(h2); Direct(x)->(h3); Direct(h0,h1,h2,h3)->(o)",
        {"o": "g_o"},
        "DirectGradient(g_o)->(h0_grad,h1_grad,h2_grad,h3_grad); DirectGradient(h3_grad)->(x_grad); "
        "DirectGradient(h2_grad)->(_x_grad_autosplit_0); DirectGradient(h1_grad)->(_x_grad_autosplit_1); "
        "DirectGradient(h0_grad)->(_x_grad_autosplit_2); "
        "Sum(x_grad,_x_grad_autosplit_0,_x_grad_autosplit_1,_x_grad_autosplit_2)->(x_grad)",
        {"x": "x_grad"},
    ),
    Case(
        "C4 first consumer without gradient",
        "Direct(x)->(a); Direct(x)->(b); Direct(x)->(c); Direct(b,c)->(o)",
        {"o": "g_o"},
        "DirectGradient(g_o)->(b_grad,c_grad); DirectGradient(c_grad)->(x_grad); "
        "DirectGradient(b_grad)->(_x_grad_autosplit_0); Sum(x_grad,_x_grad_autosplit_0)->(x_grad)",
        {"x": "x_grad"},
        absent=["a"],
    ),
    Case(
        "C5 all consumers without gradient",
        "Nogradient(x)->(h1); Nogradient(x)->(h2); Direct(h1,h2)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad)",
        absent=["x"],
    ),
    Case(
        "C6 requested blob consumed downstream, automatic",
        "Direct(x)->(m); Direct(m)->(o)",
        {"o": "go_", "m": None},
        "ConstantFill(m)->(m_autogen_grad) {value=1.0}; DirectGradient(go_)->(_m_grad_autosplit_0); "
        "Sum(m_autogen_grad,_m_grad_autosplit_0)->(m_autogen_grad); DirectGradient(m_autogen_grad)->(x_grad)",
        {"m": "m_autogen_grad"},
    ),
    Case(
        "C7 the same, order of targets swapped",
        "Direct(x)->(m); Direct(m)->(o)",
        ["m", "o"],
        "ConstantFill(m)->(m_autogen_grad) {value=1.0}; ConstantFill(o)->(o_autogen_grad) {value=1.0}; "
        "DirectGradient(o_autogen_grad)->(_m_grad_autosplit_0); "
        "Sum(m_autogen_grad,_m_grad_autosplit_0)->(m_autogen_grad); DirectGradient(m_autogen_grad)->(x_grad)",
        {"m": "m_autogen_grad"},
    ),
    Case(
        "C8 the same, explicit gradient",
        "Direct(x)->(m); Direct(m)->(o)",
        {"o": "go_", "m": "gm_"},
        "DirectGradient(go_)->(m_grad); Sum(m_grad,gm_)->(m_grad); DirectGradient(m_grad)->(x_grad)",
        {"m": "m_grad"},
        note="W3: the original drops gm_",
    ),
    Case(
        "C9 requested blob consumed only by a no-gradient operator",
        "Direct(x)->(m); Nogradient(m)->(o); Direct(o)->(p)",
        ["p", "m"],
        "ConstantFill(p)->(p_autogen_grad) {value=1.0}; ConstantFill(m)->(m_autogen_grad) {value=1.0}; "
        "DirectGradient(p_autogen_grad)->(o_grad); DirectGradient(m_autogen_grad)->(x_grad)",
        {"m": "m_autogen_grad", "x": "x_grad"},
    ),
    Case(
        "C10 requested blob written in place and consumed",
        "Direct(x)->(m); Direct(m)->(m); Direct(m)->(o)",
        ["o", "m"],
        "ConstantFill(o)->(o_autogen_grad) {value=1.0}; ConstantFill(m)->(m_autogen_grad) {value=1.0}; "
        "DirectGradient(o_autogen_grad)->(_m_grad_autosplit_0); "
        "Sum(m_autogen_grad,_m_grad_autosplit_0)->(m_autogen_grad); "
        "DirectGradient(m_autogen_grad)->(m_grad); DirectGradient(m_grad)->(x_grad)",
        {"m": "m_autogen_grad", "x": "x_grad"},
        note="W24: the original's map shows the older version, m_grad",
    ),
    Case(
        "C11 requested blob overwritten later",
        "Direct(a)->(y); Direct(y)->(b); Direct(c)->(y)",
        ["y", "b"],
        "ConstantFill(y)->(y_autogen_grad) {value=1.0}; ConstantFill(b)->(b_autogen_grad) {value=1.0}; "
        "DirectGradient(y_autogen_grad)->(c_grad); DirectGradient(b_autogen_grad)->(y_grad); "
        "DirectGradient(y_grad)->(a_grad)",
        {"y": "y_autogen_grad", "a": "a_grad", "c": "c_grad"},
        note="W24: the original's map shows the older version, y_grad",
    ),
    Case(
        "C12 only the final version is requested",
        "Direct(a)->(y); Direct(y)->(y)",
        ["y"],
        "ConstantFill(y)->(y_autogen_grad) {value=1.0}; DirectGradient(y_autogen_grad)->(y_grad); "
        "DirectGradient(y_grad)->(a_grad)",
        {"y": "y_autogen_grad", "a": "a_grad"},
        note="W24: the original's map shows the older version, y_grad",
    ),
    Case(
        "C13 intermediate requested",
        "Direct(in)->(hidden); Direct(hidden)->(out)",
        {"hidden": "hidden_grad"},
        "DirectGradient(hidden_grad)->(in_grad)",
        {"hidden": "hidden_grad", "in": "in_grad"},
        absent=["out"],
    ),
    Case(
        "C14 one output without gradient",
        "Direct(a)->(b,c); Direct(b)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(b_grad); ConstantFill(c)->(c_grad) {value=0.0}; "
        "DirectGradient(b_grad,c_grad)->(a_grad)",
        {"a": "a_grad"},
        absent=["c"],
        note="W22: the original's maker refuses",
    ),
    Case(
        "C15 operator without outputs",
        "Direct(x)->(y); Direct(y)->(); Direct(y)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(y_grad); DirectGradient(y_grad)->(x_grad)",
    ),
    Case(
        "C16 ZeroGradient on a blob that also has a gradient",
        "Direct(x)->(y); ZeroGradient(y)->(); Direct(y)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(y_grad); ConstantFill(y)->(_y_grad_autosplit_0) {value=0.0}; "
        "Sum(y_grad,_y_grad_autosplit_0)->(y_grad); DirectGradient(y_grad)->(x_grad)",
    ),
    Case(
        "C17 ZeroGradient with nothing requested",
        "Direct(x)->(y); ZeroGradient(y)->()",
        {},
        "ConstantFill(y)->(y_grad) {value=0.0}; DirectGradient(y_grad)->(x_grad)",
        {"y": "y_grad", "x": "x_grad"},
    ),
    Case(
        "C18 sparse, values computed",
        "SparseVal(x,i)->(h1); SparseVal(x,j)->(h2); Direct(h1,h2)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad); SparseValGradient(h2_grad)->(_x_grad_values_autosplit_0); "
        "SparseValGradient(h1_grad)->(_x_grad_values_autosplit_1); "
        "Concat(j,i)->(x_grad_indices_concat,x_grad_indices_concat_split) {axis=0}; "
        "Concat(_x_grad_values_autosplit_0,_x_grad_values_autosplit_1)"
        "->(x_grad_values_concat,x_grad_values_concat_split) {axis=0}",
        {"x": GradientSlice("x_grad_indices_concat", "x_grad_values_concat")},
        absent=["i", "j"],
    ),
    Case(
        "C19 sparse of all three kinds",
        "SparseVal(x,i)->(h1); SparseLook(x,j)->(h2); SparsePass(x,k)->(h3); Direct(h1,h2,h3)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad,h3_grad); "
        "SparseLookGradient(j,h2_grad)->(_x_grad_indices_autosplit_0,_x_grad_values_autosplit_0); "
        "SparseValGradient(h1_grad)->(_x_grad_values_autosplit_1); "
        "Concat(k,_x_grad_indices_autosplit_0,i)"
        "->(x_grad_indices_concat,x_grad_indices_concat_split) {axis=0}; "
        "Concat(h3_grad,_x_grad_values_autosplit_0,_x_grad_values_autosplit_1)"
        "->(x_grad_values_concat,x_grad_values_concat_split) {axis=0}",
        {"x": GradientSlice("x_grad_indices_concat", "x_grad_values_concat")},
    ),
    Case(
        "C20 dense and sparse mixed",
        "Direct(x)->(h1); SparsePass(x,i)->(h2); Direct(h1,h2)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad); DirectGradient(h1_grad)->(x_grad); "
        "SparseToDense(i,h2_grad,x)->(x_grad_dense); Sum(x_grad,x_grad_dense)->(x_grad)",
        {"x": "x_grad"},
        note="W19: the original refuses",
    ),
    Case(
        "C21 different devices",
        "Direct(x)->(h1) @gpu:0; Direct(x)->(h2); Direct(h1,h2)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad); DirectGradient(h2_grad)->(x_grad); "
        "DirectGradient(h1_grad)->(_x_grad_autosplit_0) @gpu:0; Copy(x_grad)->(x_grad_copy) @gpu:0; "
        "Sum(x_grad_copy,_x_grad_autosplit_0)->(x_grad) @gpu:0",
        {"x": "x_grad"},
        note="W8: the original refuses",
        devices=True,
    ),
    Case(
        "C21b two GPUs",
        "Direct(x)->(h1) @gpu:0; Direct(x)->(h2) @gpu:1; Direct(h1,h2)->(o) @gpu:1",
        {"o": "go_"},
        "DirectGradient(go_)->(h1_grad,h2_grad) @gpu:1; DirectGradient(h2_grad)->(x_grad) @gpu:1; "
        "DirectGradient(h1_grad)->(_x_grad_autosplit_0) @gpu:0; Copy(x_grad)->(x_grad_copy) @gpu:0; "
        "Sum(x_grad_copy,_x_grad_autosplit_0)->(x_grad) @gpu:0",
        {"x": "x_grad"},
        note="W8: the original refuses",
        devices=True,
    ),
    Case(
        "C23 pass-through and a device",
        "Direct(x)->(h1) @gpu:0; Pass(x,h1)->(o)",
        {"o": "go_"},
        "DirectGradient(go_)->(x_grad) @gpu:0; Copy(go_)->(go__copy) @gpu:0; "
        "Sum(x_grad,go__copy)->(x_grad) @gpu:0",
        {"x": "x_grad", "h1": "go_"},
        note="W8: the original sums across devices (2018) or refuses (late)",
        devices=True,
    ),
    Case(
        "C24 automatic fill against a GPU net",
        "Direct(x)->(m) @gpu:0; Direct(m)->(o) @gpu:0",
        ["m", "o"],
        "ConstantFill(m)->(m_autogen_grad) {value=1.0} @gpu:0; "
        "ConstantFill(o)->(o_autogen_grad) {value=1.0} @gpu:0; "
        "DirectGradient(o_autogen_grad)->(_m_grad_autosplit_0) @gpu:0; "
        "Sum(m_autogen_grad,_m_grad_autosplit_0)->(m_autogen_grad) @gpu:0; "
        "DirectGradient(m_autogen_grad)->(x_grad) @gpu:0",
        {"m": "m_autogen_grad"},
        note="W8, W15: the original refuses unless the device scope is repeated",
        devices=True,
    ),
    Case(
        "C25 in-place pass-through",
        "Direct(z)->(x); Pass(x,w)->(x); Direct(x)->(out)",
        {"out": "gout"},
        "DirectGradient(gout)->(x_grad); DirectGradient(x_grad)->(z_grad)",
        {"x": "x_grad", "w": "x_grad"},
    ),
    Case(
        "C26 unknown requested blob",
        "Direct(x)->(y)",
        ["nope"],
        "ConstantFill(nope)->(nope_autogen_grad) {value=1.0}",
        {"nope": "nope_autogen_grad"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_corner_case(case: Case) -> None:
    forward = net(case.forward)
    result = backward_pass(forward, case.targets, make_rules())
    if case.devices:
        assert text_with_devices(result.operators) == text_with_devices(net(case.operators))
    else:
        assert text(result.operators) == lines(case.operators)
    assert {blob: result.gradients[blob] for blob in case.gradients} == case.gradients
    assert not set(case.absent) & set(result.gradients)
    assert result.forward == tuple(forward)
    starts = [g for g in (case.targets.values() if isinstance(case.targets, dict) else ()) if g]
    check_reads([*forward, *result.operators], [*_fed(case.forward), *starts, "nope"])


def test_c22_devices_that_the_dialect_takes_for_one() -> None:
    class Words(ClassicVocabulary):
        def same_device(self, first: Any, second: Any) -> bool:
            return (first or "cpu") == (second or "cpu")

    forward = net("Direct(x)->(h1) @cpu; Direct(x)->(h2); Direct(h1,h2)->(o)")
    result = backward_pass(forward, {"o": "go_"}, make_rules(), vocabulary=Words())
    assert text_with_devices(result.operators) == text_with_devices(
        net(
            "DirectGradient(go_)->(h1_grad,h2_grad); DirectGradient(h2_grad)->(x_grad); "
            "DirectGradient(h1_grad)->(_x_grad_autosplit_0) @cpu; "
            "Sum(x_grad,_x_grad_autosplit_0)->(x_grad)"
        )
    )


def test_c27_unknown_operator_type() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"no gradient rule for Mystery.*\(x -> y\)") as caught:
        backward_pass(net("Mystery(x)->(y)"), {"y": "gy_"}, make_rules())
    assert caught.value.operators[0].operator.type == "Mystery"


def _fed(forward: str) -> list[str]:
    """The blobs that the net reads before it writes them."""
    fed: dict[str, None] = {}
    written: set[str] = set()
    for op in net(forward):
        fed.update(dict.fromkeys(name for name in op.inputs if name not in written))
        written.update(op.outputs)
    return list(fed)
