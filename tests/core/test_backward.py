"""What a caller of the backward pass relies on, beyond the worked cases."""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad import core
from netgrad.core import ClassicVocabulary, Contribution, GradientSlice, Operator, RuleRegistry, backward_pass
from netgrad.core.verify import check_single_assignment
from tests.core.interpreter import check_numbers, feeds, run
from tests.core.nets import lines, make_rules, maker, net, table_rule, text
from tests.core.test_random_nets import Folding, Widening
from tests.core.weaknesses import numeric_rules


def test_example_of_the_documentation() -> None:
    ops = [core.Operator("Direct", ("x",), ("h",)), core.Operator("Direct", ("h",), ("y",))]
    rules = core.RuleRegistry()
    rules.register(
        "Direct",
        lambda op, grads: (
            [core.Operator("DirectGradient", grads, (f"{op.inputs[0]}_grad",))],
            [f"{op.inputs[0]}_grad"],
        ),
    )
    result = core.backward_pass(ops, {"y": "y_seed"}, rules)
    assert result.operators == (
        core.Operator("DirectGradient", ("y_seed",), ("h_grad",)),
        core.Operator("DirectGradient", ("h_grad",), ("x_grad",)),
    )
    assert result.gradients["x"] == "x_grad"
    assert result.accumulations == ()
    assert result.origins == (1, 0)


def test_core_imports_the_standard_library_only() -> None:
    allowed = {*sys.stdlib_module_names, "netgrad"}
    for path in Path(core.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            for name in names:
                assert name.split(".")[0] in allowed, f"{path.name} imports {name}"
                assert not name.startswith("netgrad.") or name.startswith("netgrad.core"), path.name


def test_emitted_names_are_plain_strings() -> None:
    forward = net("Direct(x,x)->(x); UseInput(x)->(y); SparsePass(y,i)->(z)")
    result = backward_pass(forward, {"z": "gz_"}, make_rules())
    names = [name for op in result.operators for name in (*op.inputs, *op.outputs)]
    for gradient in result.gradients.values():
        names += [gradient.indices, gradient.values] if isinstance(gradient, GradientSlice) else [gradient]
    assert {type(name) for name in names} == {str}


def test_tuples_single_operators_and_none_are_accepted_from_rules() -> None:
    rules = RuleRegistry()
    rules.register("One", lambda op, grads: (Operator("OneGradient", grads, ("g",)), ("g",)))
    rules.register("None", lambda op, grads: (None, (grads[0],)))
    result = backward_pass(net("One(x)->(h); None(h)->(y)"), ["y"], rules)
    assert text(result.operators)[1:] == ["OneGradient(y_autogen_grad)->(g)"]
    assert result.gradients["x"] == "g"


def test_rule_by_itself() -> None:
    operators, gradients = make_rules().rule(net("Direct(x)->(y)")[0], ["gy_"])
    assert text(operators) == ["DirectGradient(gy_)->(x_grad)"]
    assert gradients == ["x_grad"]
    assert make_rules().rule(net("Nogradient(x,w)->(y)")[0], ["gy_"]) == ([], [None, None])
    with pytest.raises(core.InvalidArgumentError, match="no gradient rule for Odd"):
        make_rules().rule(net("Odd(x)->(y)")[0], ["gy_"])


def test_registering_again_replaces_the_rule() -> None:
    rules = make_rules()
    rules.register("StopGradient", table_rule("StopGradientGradient(G0)->(D0)"))
    result = backward_pass(net("StopGradient(x)->(y)"), {"y": "gy_"}, rules)
    assert text(result.operators) == ["StopGradientGradient(gy_)->(x_grad)"]


def test_domain_is_part_of_the_type() -> None:
    rules = RuleRegistry()
    rules.register("Op", lambda op, grads: ([Operator("A", grads, ("g",))], ["g"]))
    rules.register("Op", lambda op, grads: ([Operator("B", grads, ("g",))], ["g"]), domain="my.ops")
    result = backward_pass([Operator("Op", ("x",), ("y",), domain="my.ops")], {"y": "gy_"}, rules)
    assert [op.type for op in result.operators] == ["B"]


def test_names_are_never_those_that_are_reserved() -> None:
    forward = net("Direct(x)->(a); Direct(x)->(b); Direct(a,b)->(y)")
    taken = ["x_grad", "x_grad_1", "y_autogen_grad", "_x_grad_autosplit_0"]
    result = backward_pass(forward, ["y"], make_rules(), reserved=taken)
    assert not set(taken) & {name for op in result.operators for name in op.outputs}
    assert result.gradients["x"] == "x_grad_2"


def test_gradient_of_a_gradient() -> None:
    """The lists of a first pass are forward operators of a second one."""
    rules = make_rules()
    rules.register("DirectGradient", lambda op, grads: _double(op, grads))
    forward = net("Direct(x)->(h); Direct(h)->(y)")
    first = backward_pass(forward, {"y": "gy"}, rules)
    second = backward_pass([*forward, *first.operators], ["x_grad"], rules)
    assert second.gradients["gy"] == "gy_grad"
    assert len(second.operators) == 1 + len(first.operators)


def _double(op: Operator, grads: Sequence[str]) -> Any:
    outputs = [f"{name}_grad" for name in op.inputs]
    return [Operator("Direct", grads, outputs)], outputs


# ---- wrt -----------------------------------------------------------------------------------------------


def test_only_what_lies_between_wrt_and_targets_is_differentiated() -> None:
    forward = net("Direct(data)->(h); Direct(h,w)->(y); Direct(y)->(z); Direct(y)->(other)")
    result = backward_pass(forward, ["z"], make_rules(), wrt=["w"])
    assert set(result.gradients) == {"z", "y", "w"}
    assert {result.origins[k] for k in range(1, 3)} == {2, 1}
    assert len(result.operators) == 3


def test_rule_is_told_which_gradients_are_wanted() -> None:
    asked: list[tuple[str, list[bool]]] = []

    class Rules(RuleRegistry):
        def gradient(self, op: Operator, grads: Any, wanted: Any) -> Any:
            asked.append((op.type, list(wanted)))
            return super().gradient(op, grads, wanted)

    rules = Rules()
    rules.register("Op", lambda op, grads: ([], [grads[0]] * len(op.inputs)), blocked=[3])
    op = Operator("Op", ("a", "b", "", "c", "b"), ("y",))
    backward_pass([op], {"y": "gy_"}, rules)
    backward_pass([op], {"y": "gy_"}, rules, wrt=["b", "c"])
    assert asked == [("Op", [True, True, False, False, True]), ("Op", [False, True, False, False, True])]


def test_wrt_that_is_not_reached_has_no_gradient() -> None:
    forward = net("Direct(x)->(y); Nogradient(w)->(z); Direct(y,z)->(o)")
    result = backward_pass(forward, ["o"], make_rules(), wrt=["w", "nowhere", "x"])
    assert set(result.gradients) == {"o", "y", "x"}


def test_wrt_an_intermediate_blob_goes_no_further() -> None:
    result = backward_pass(net("Direct(x)->(h); Direct(h)->(y)"), {"y": "gy_"}, make_rules(), wrt=["h"])
    assert text(result.operators) == ["DirectGradient(gy_)->(h_grad)"]


def test_wrt_a_target_keeps_the_start_gradient() -> None:
    result = backward_pass(net("Direct(x)->(y)"), {"y": "gy_"}, make_rules(), wrt=["y"])
    assert result.operators == ()
    assert result.gradients == {"y": "gy_"}


def test_wrt_gets_a_blob_of_its_own() -> None:
    result = backward_pass(net("Pass(a,b)->(y)"), {"y": "gy_"}, make_rules(), wrt=["a", "b"])
    assert text(result.operators) == lines("Copy(gy_)->(a_grad); Copy(gy_)->(b_grad)")
    assert result.gradients == {"y": "gy_", "a": "a_grad", "b": "b_grad"}


def test_wrt_with_a_sparse_gradient_gets_values_of_its_own() -> None:
    forward = net("SparsePass(a,i)->(h); Pass(h,b)->(y)")
    result = backward_pass(forward, {"y": "gy_"}, make_rules(), wrt=["a", "b"])
    assert result.gradients["a"] == GradientSlice("i", "a_grad")
    assert result.gradients["b"] == "b_grad"


# ---- values --------------------------------------------------------------------------------------------


def test_start_gradient_may_be_a_blob_of_the_net() -> None:
    check_numbers(net("UseInput(x)->(t); Direct(x)->(y)"), {"y": "t"}, _constant_t(), wrt=["w"])
    result = backward_pass(net("UseInput(x)->(t); Direct(x)->(y)"), {"y": "t"}, make_rules())
    assert text(result.operators) == ["DirectGradient(t)->(x_grad)"]


def _constant_t() -> RuleRegistry:
    return numeric_rules()


def test_rule_may_return_a_forward_blob_as_gradient() -> None:
    rules = RuleRegistry()
    rules.register("Dot", lambda op, grads: ([], [op.inputs[1], None]))
    result = backward_pass(net("Dot(x,c)->(y); Dot(x,d)->(z)"), ["y", "z"], rules)
    assert text(result.operators)[-1] == "Sum(d,c)->(x_grad)"


def test_rule_may_write_the_name_of_a_forward_blob() -> None:
    def rule(op: Operator, grads: Sequence[str]) -> Any:
        return [
            Operator("Scale", (op.outputs[0],), (op.outputs[0],)),
            Operator("Mul", (op.outputs[0], grads[0]), ("g",)),
        ], ["g"]

    rules = RuleRegistry()
    rules.register("Rewriting", rule)
    result = backward_pass(net("Rewriting(x)->(y)"), {"y": "gy_"}, rules)
    assert text(result.operators) == ["Scale(y)->(y_1)", "Mul(y_1,gy_)->(g)"]


def test_absent_operands_have_no_gradients() -> None:
    forward = [Operator("Op", ("x", "", "w"), ("y", ""))]
    rules = RuleRegistry()
    rules.register(
        "Op",
        maker(lambda op, grads: ([("G", [grads[0]], ["x_grad", "", "w_grad"])], ["x_grad", "", "w_grad"])),
    )
    result = backward_pass(forward, {"y": "gy_"}, rules)
    assert result.operators == (Operator("G", ("gy_",), ("x_grad", "", "w_grad")),)
    assert result.gradients == {"y": "gy_", "x": "x_grad", "w": "w_grad"}


def test_partial_rule_is_given_none() -> None:
    given: list[Any] = []

    def rule(op: Operator, grads: Any) -> Any:
        given.append(list(grads))
        return [], [grads[0]]

    rules = RuleRegistry()
    rules.register("Op", rule, partial=True)
    backward_pass(net("Op(x)->(y,z)"), {"y": "gy_"}, rules)
    assert given == [["gy_", None]]


def test_rule_source_needs_only_three_methods() -> None:
    class Rules:
        def missing(self, op: Operator) -> str | None:
            return None

        def blocked_inputs(self, op: Operator) -> Sequence[int]:
            return ()

        def gradient(self, op: Operator, grads: Any, wanted: Any) -> Any:
            name = str(grads[0])  # a source that loses the identity of names
            return [Operator("G", [name, op.inputs[0]], ["dx"])], ["dx"]

    result = backward_pass(net("Op(x)->(h); Op(h)->(y)"), {"y": "gy_"}, Rules())
    assert text(result.operators) == ["G(gy_,h)->(dx)", "G(dx,x)->(dx_1)"]
    unique = backward_pass(net("Op(x)->(h); Op(h)->(y)"), {"y": "gy_"}, Rules(), single_assignment=True)
    assert text(unique.operators) == ["G(gy_,h)->(dx)", "G(dx,x)->(dx_1)"]


# ---- accumulation --------------------------------------------------------------------------------------

FAN_OUT = (
    "UseInput(x)->(h0); Direct(x)->(h1); Pass(x,w)->(h2); UseOutput(x)->(h3); Direct(x,x)->(h4); "
    "SparseVal(x,i)->(h5); Sum(h0,h1,h2,h3,h4,h5)->(y)"
)


@pytest.mark.parametrize("single_assignment", [False, True])
def test_strategies_give_the_same_sums(single_assignment: bool) -> None:
    sums = {}
    for strategy in ("sum", "running", "fused", "auto"):
        result = check_numbers(
            net(FAN_OUT),
            {"y": "gy_"},
            numeric_rules(),
            indices=["i"],
            accumulation=strategy,
            vocabulary=Folding(),
            single_assignment=single_assignment,
        )
        values = {**feeds(net(FAN_OUT), ["i"]).values, "gy_": np.arange(6.0).reshape(3, 2) - 2}
        after = run([*result.forward, *result.operators], values)
        sums[strategy] = after[result.gradients["x"]]
        assert [c.operator for c in result.accumulations[0].contributions] == [5, 4, 4, 3, 2, 1, 0]
    for strategy, total in sums.items():
        np.testing.assert_allclose(total, sums["sum"], rtol=1e-13, err_msg=strategy)


def test_running_keeps_two_partial_gradients_alive() -> None:
    forward = [Operator("Direct", ("x",), (f"h{k}",)) for k in range(5)]
    forward.append(Operator("Pass", [f"h{k}" for k in range(5)], ("y",)))
    result = backward_pass(forward, {"y": "gy_"}, make_rules(), accumulation="running")
    sums = [op for op in result.operators if op.type == "Sum"]
    assert [len(op.inputs) for op in sums] == [2, 2, 2, 2]
    assert {op.outputs for op in sums} == {("x_grad",)}
    assert result.accumulations[0].strategy == "running"


def test_fused_folds_additions_into_operators_that_take_them() -> None:
    forward = net("Direct(x)->(a); UseInput(x)->(b); Direct(x)->(c); Pass(a,b,c)->(y)")
    result = backward_pass(forward, {"y": "gy_"}, make_rules(), accumulation="fused", vocabulary=Folding())
    assert text(result.operators) == lines(
        """DirectGradient(gy_)->(x_grad)
        UseInputGradient(x,gy_)->(_x_grad_autosplit_0)
        Sum(x_grad,_x_grad_autosplit_0)->(x_grad)
        DirectGradientPlus(gy_,x_grad)->(x_grad) {at=0}"""
    )
    (record,) = result.accumulations
    assert record.strategy == "fused"
    assert record.gradient == result.gradients["x"] == "x_grad"


@pytest.mark.parametrize(("strategy", "converted"), [("sum", 5), ("running", 4), ("fused", 4)])
@pytest.mark.parametrize("single_assignment", [False, True])
def test_long_sums_are_added_in_a_wider_type(strategy: str, converted: int, single_assignment: bool) -> None:
    """Each term is converted once, or the sum of the first two as one, and the total is converted back."""
    forward = [Operator("UseInput", ("x",), (f"h{k}",)) for k in range(5)]
    forward.append(Operator("Sum", [f"h{k}" for k in range(5)], ("y",)))
    result = check_numbers(
        forward,
        {"y": "gy_"},
        numeric_rules(),
        accumulation=strategy,
        vocabulary=Widening(),
        single_assignment=single_assignment,
    )
    copies = [op for op in result.operators if op.type == "Copy"]
    assert [op.attributes["wide"] for op in copies] == [1] * converted + [0]
    assert result.gradients["x"] == copies[-1].outputs[0] == "x_grad"


def test_nothing_is_folded_where_another_blob_needs_the_addend_alone() -> None:
    rules = make_rules()
    rules.register("Shared", maker(lambda op, grads: ([("DirectGradient", grads, ["g"])], ["g", "g"])))
    forward = net("Shared(x,w)->(a); Direct(x)->(b); Pass(a,b)->(y)")
    result = backward_pass(forward, {"y": "gy_"}, rules, accumulation="fused", vocabulary=Folding())
    assert [op.type for op in result.operators] == ["DirectGradient", "DirectGradient", "Sum"]
    assert result.gradients["w"] != result.gradients["x"]


def test_auto_chooses_by_the_size_of_the_value() -> None:
    forward = net(
        "UseInput(a)->(h); UseInput(a)->(k); UseInput(b)->(m); UseInput(b)->(n); Pass(h,k,m,n)->(y)"
    )
    result = backward_pass(forward, ["y"], make_rules(), accumulation="auto", vocabulary=Folding())
    assert {record.blob: record.strategy for record in result.accumulations} == {"a": "running", "b": "sum"}


def test_record_of_an_accumulation() -> None:
    forward = net("Direct(x)->(m) @gpu:0; Direct(m)->(o) @gpu:0; Pass(m)->(p) @gpu:0")
    result = backward_pass(forward, {"o": "go_", "m": None, "p": "gp_"}, make_rules())
    (record,) = result.accumulations
    assert (record.blob, record.version, record.strategy, record.device) == ("m", 0, "sum", "gpu:0")
    assert record.contributions == (
        Contribution("m_autogen_grad", None),
        Contribution("gp_", 2),
        Contribution("_m_grad_autosplit_0", 1),
    )
    assert record.gradient == "m_autogen_grad"


def test_origins_lead_to_the_forward_operators() -> None:
    forward = net("Direct(x)->(a); Direct(x)->(b); Direct(a,b)->(y)")
    result = backward_pass(forward, ["y"], make_rules())
    assert list(zip([op.type for op in result.operators], result.origins, strict=True)) == [
        ("ConstantFill", None),
        ("DirectGradient", 2),
        ("DirectGradient", 1),
        ("DirectGradient", 0),
        ("Sum", 0),
    ]


def test_operator_with_very_many_operands_takes_linear_time() -> None:
    """Quadratic work on that many operands would take minutes."""
    count = 10_000
    names = [f"x{k}" for k in range(count)]
    forward = [Operator("Direct", names, names), Operator("Direct", [*names, *names], ("y",))]
    result = backward_pass(forward, {"y": "gy_"}, make_rules())
    assert len(result.operators) == 2 + count
    assert len(result.accumulations) == count


def test_deep_net_needs_no_recursion() -> None:
    depth = 10 * sys.getrecursionlimit()
    forward = [Operator("Direct", (f"x{k}",), (f"x{k + 1}",)) for k in range(depth)]
    result = backward_pass(forward, [f"x{depth}"], make_rules(), single_assignment=True, wrt=["x0"])
    assert len(result.operators) == depth + 1
    check_single_assignment(result.operators, [f"x{k}" for k in range(depth + 1)])


def test_vocabulary_may_write_several_operators_for_a_start_gradient() -> None:
    class Long(ClassicVocabulary):
        def ones(self, blob: str, out: str, device: Any) -> list[Operator]:
            return [
                Operator("Shape", (blob,), (f"{out}_shape",)),
                Operator("Fill", (f"{out}_shape",), (out,)),
            ]

    result = backward_pass(net("Direct(x)->(y)"), ["y"], make_rules(), vocabulary=Long())
    assert text(result.operators) == lines(
        "Shape(y)->(y_autogen_grad_shape); Fill(y_autogen_grad_shape)->(y_autogen_grad); "
        "DirectGradient(y_autogen_grad)->(x_grad)"
    )
