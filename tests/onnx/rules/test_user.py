"""Rules of users: registered, local to a block, in place of built-in ones, for operators without a schema."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import netgrad
from netgrad.core.errors import InvalidArgumentError, RuleError, UnsupportedOperatorError
from netgrad.onnx.rules.user import user_declarations
from netgrad.onnx.view import TensorInfo

POINT = np.float32([[2.0, 1.0], [0.5, 3.0]])


def inverse_net(declared: str = "") -> onnx.ModelProto:
    """Y = exp((tanh X)^-1); ONNX Runtime has a kernel of Inverse, and onnx has no schema."""
    return parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "com.microsoft": 1]> g (float[n, n] x) => (float[n, n] y) '
        f"{declared} {{ h = Tanh (x) e = com.microsoft.Inverse (h) y = Exp (e) }}"
    )


def inverse(op: Any, dy: Any) -> Any:
    """Y = X^-1; dX = -Y' dY Y', of square matrices."""
    turned = op.emit("Transpose", op.output, perm=[1, 0])
    return -(turned @ dy @ turned)


def same(x: TensorInfo) -> TensorInfo:
    return x


def function_net(
    opset: int = 18, body: str = "one = Constant <value = float {1}> () y = Min (x, one)"
) -> Any:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["": {opset}, "my.domain": 1]> '
        "g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}> "
        "{ h = my.domain.Capped (x) y = Mul (h, w) } "
        f'<opset_import: ["": {opset}], domain: "my.domain"> Capped (x) => (y) {{ {body} }}'
    )


def test_an_operator_without_a_schema_in_every_verb() -> None:
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse", infer=same)(inverse)
        assert netgrad.check(inverse_net(), {"x": POINT}, wrt="x").ok
        gradient = netgrad.grad(inverse_net(), wrt="x")
        assert netgrad.check(gradient, {"x": POINT}, wrt="x", of="x_grad").ok, "second order"
        found = netgrad.inspect(inverse_net(), wrt="x")
        kinds = {info.type: info.gradient.value for info in found.operators}
        assert kinds["com.microsoft::Inverse"] == "rule (user's)"
        assert found.differentiable
        assert "inverse (test_user.py:" in {i.type: i.rule for i in found.operators}["com.microsoft::Inverse"]
    with pytest.raises(UnsupportedOperatorError, match=r"no gradient rule for com\.microsoft::Inverse"):
        netgrad.grad(inverse_net(), wrt="x")


def test_without_infer_the_shape_is_one_of_run_time() -> None:
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse")(inverse)
        assert netgrad.check(inverse_net(), {"x": POINT}, wrt="x").ok


def test_what_the_model_declares_goes_before_infer() -> None:
    asked = []

    def wrong(x: TensorInfo) -> TensorInfo:
        asked.append(x)
        return TensorInfo(x.dtype, (7, 7))

    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse", infer=wrong)(inverse)
        assert netgrad.check(inverse_net("<float[n, n] e>"), {"x": POINT}, wrt="x").ok
    assert not asked


@pytest.mark.parametrize(
    ("infer", "message"),
    [
        (lambda x: 1 / 0, "failed with ZeroDivisionError"),
        (lambda x: [], "for each of 1 outputs"),
        (lambda x: ["float"], "for each of 1 outputs"),
    ],
)
def test_an_infer_that_is_wrong_is_named(infer: Any, message: str) -> None:
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse", infer=infer)(inverse)
        with pytest.raises(InvalidArgumentError, match=rf"`infer`.*Inverse.*{message}"):
            netgrad.grad(inverse_net(), wrt="x")


def test_attributes_that_the_rule_does_not_know_are_refused() -> None:
    net = inverse_net()
    net.graph.node[1].attribute.append(onnx.helper.make_attribute("pivoting", 1))
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse")(inverse)
        with pytest.raises(UnsupportedOperatorError, match="does not know attribute 'pivoting' = 1"):
            netgrad.grad(net, wrt="x")
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse", attributes=["pivoting"])(inverse)
        assert [value.name for value in netgrad.grad(net, wrt="x").graph.outputs] == ["y", "x_grad"]


def test_a_rule_says_how_new_an_operator_set_it_knows() -> None:
    net = inverse_net()
    net.opset_import[1].version = 2
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse", newest=1)(inverse)
        with pytest.raises(UnsupportedOperatorError, match=r"version 2 of com\.microsoft.*up to 1"):
            netgrad.grad(net, wrt="x")
        netgrad.grad(inverse_net(), wrt="x")


def test_a_rule_that_forgets_an_input_is_its_authors_error() -> None:
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "Inverse")(lambda op, dy: [None])
        with pytest.raises(RuleError, match="returns no gradient for input 0"):
            netgrad.grad(inverse_net(), wrt="x")


# ---- functions of the model ------------------------------------------------------------------------------


def straight(op: Any, dy: Any) -> Any:
    return dy


def test_a_function_of_the_model_is_differentiated_by_the_rule() -> None:
    x = np.float32([[2.0, 0.5, -3.0]])
    inlined = netgrad.run(netgrad.grad(function_net(), wrt="x"), {"x": x})
    np.testing.assert_array_equal(inlined["x_grad"], [[0, 2, 3]])
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Capped")(straight)
        gradient = netgrad.grad(function_net(), wrt=["x", "w"])
        assert [function.name for function in gradient.functions.values()] == ["Capped"]
        result = netgrad.run(gradient, {"x": x})
        np.testing.assert_array_equal(result["x_grad"], [[1, 2, 3]])
        np.testing.assert_array_equal(result["w_grad"], [1, 0.5, -3])
        twice = netgrad.run(netgrad.grad(gradient, wrt="x", of="w_grad"), {"x": x})
        np.testing.assert_array_equal(twice["x_grad_1"], [[1, 1, 1]])
        report = netgrad.check(function_net(), {"x": x}, wrt="x")
        assert [(culprit.type, culprit.position) for culprit in report.culprits] == [("Capped", 0)]
    with pytest.warns(netgrad.NetgradWarning, match="'x' does not influence"):
        choice = netgrad.grad(function_net(), wrt="x", gradients={"my.domain::Capped": "stop"})
    np.testing.assert_array_equal(netgrad.run(choice, {"x": x})["x_grad"], [[0, 0, 0]])


def test_a_function_of_an_older_opset_is_lifted_with_the_model() -> None:
    body = "s = ReduceMean <axes = [1], keepdims = 1> (x) y = Sub (x, s)"
    x = np.float32([[2.0, 0.5, -3.0]])
    expected = netgrad.run(function_net(13, body), {"x": x})["y"]
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Capped")(straight)
        gradient = netgrad.grad(function_net(13, body), wrt="x")
    (function,) = gradient.functions.values()
    assert function.opset_imports[""] == gradient.opset_imports[""] == 18
    result = netgrad.run(gradient, {"x": x})
    np.testing.assert_array_equal(result["y"], expected)
    np.testing.assert_array_equal(result["x_grad"], [[1, 2, 3]])


def test_a_function_calls_one_with_a_rule() -> None:
    net = function_net()
    outer = onnx.helper.make_function(
        "my.domain",
        "Outer",
        ["a"],
        ["b"],
        [
            onnx.helper.make_node("Capped", ["a"], ["c"], domain="my.domain"),
            onnx.helper.make_node("Neg", ["c"], ["b"]),
        ],
        [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.domain", 1)],
    )
    net.functions.append(outer)
    net.graph.node[0].op_type = "Outer"
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Capped")(straight)
        result = netgrad.run(netgrad.grad(net, wrt="x"), {"x": np.float32([[2.0, 0.5, -3.0]])})
    np.testing.assert_array_equal(result["x_grad"], [[-1, -2, -3]])


def test_a_training_step_uses_the_rule() -> None:
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "my.domain": 1]> '
        "g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}> "
        "{ h = Add (x, w) y = my.domain.Capped (h) } "
        '<opset_import: ["": 18], domain: "my.domain"> Capped (x) => (y) '
        "{ one = Constant <value = float {1}> () y = Min (x, one) }"
    )

    def last_loss() -> float:
        step = netgrad.training_step(
            net, loss=netgrad.losses.mean_squared_error("y"), optimizer=netgrad.optimizers.sgd(0.5)
        )
        trainer = netgrad.Trainer(step)
        batch = {"x": np.float32([[1, 1, 1]]), "targets": np.float32([[0, 0, 0]])}
        return float([trainer.step(batch)["loss"] for _ in range(20)][-1])

    assert last_loss() == pytest.approx(1.0), "behind the cap there is no gradient"
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Capped")(straight)
        assert last_loss() < 0.3


def test_a_trained_model_keeps_the_function(tmp_path: Path) -> None:
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "my.domain": 1]> '
        "g (float[n, 3] x) => (float[n, 3] y) <float[3] w = {1, 2, 3}> "
        "{ h = Mul (x, w) y = my.domain.Twice (h) } "
        '<opset_import: ["": 18], domain: "my.domain"> Twice (x) => (y) { y = Add (x, x) }'
    )
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Twice")(lambda op, dy: dy * 2.0)
        step = netgrad.training_step(
            net, loss=netgrad.losses.mean_squared_error("y"), optimizer=netgrad.optimizers.adam(0.1)
        )
    step.save(tmp_path / "step.onnx")  # what was written needs no rule any more
    onnx.checker.check_model(tmp_path / "step.onnx", full_check=True)
    trainer = netgrad.Trainer(netgrad.TrainingStep.load(tmp_path / "step.onnx"))
    data = {"x": np.eye(3, dtype=np.float32), "targets": np.diag([1, 1, 1]).astype(np.float32)}
    losses = [float(trainer.step(data)["loss"]) for _ in range(100)]
    assert losses[-1] < 0.001 * losses[0]
    assert trainer.evaluate(data)["loss"] == pytest.approx(losses[-1], abs=1e-4)


def test_the_backward_pass_as_a_function_of_the_model() -> None:
    """Y = X^3 with dX = dY 3 X^2, the latter in a function that nobody calls in the forward pass."""
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "my.domain": 1]> '
        "g (float[n] x) => (float[n] y) { y = my.domain.Cube (x) } "
        '<opset_import: ["": 18], domain: "my.domain"> '
        "Cube (x) => (y) { s = Mul (x, x) y = Mul (s, x) } "
        '<opset_import: ["": 18], domain: "my.domain"> '
        "CubeGradient (x, d) => (e) { s = Mul (x, x) t = Mul (s, d) a = Add (t, t) e = Add (a, t) } "
        '<opset_import: ["": 18], domain: "other.domain"> Unused (x) => (y) { y = Neg (x) }'
    )
    x = {"x": np.float32([1, -2, 0.5])}
    with netgrad.local_rules():
        netgrad.rule("my.domain", "Cube")(
            lambda op, dy: op.emit("CubeGradient", op.input, dy, domain="my.domain")
        )
        gradient = netgrad.grad(net, wrt="x")
        assert sorted(f.name for f in gradient.functions.values()) == ["Cube", "CubeGradient"]
        np.testing.assert_allclose(netgrad.run(gradient, x)["x_grad"], 3 * x["x"] ** 2)
        twice = netgrad.run(netgrad.grad(gradient, wrt="x", of="x_grad"), x)
        np.testing.assert_allclose(twice["x_grad_1"], 6 * x["x"])
        assert netgrad.check(net, x, wrt="x").ok
    assert not netgrad.grad(net, wrt="x").functions


def test_a_rule_writes_an_operator_of_a_set_that_the_model_does_not_import() -> None:
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Abs (x) }'
    )
    choice = {"Abs": lambda op, dy: op.emit("QuickGelu", dy, domain="com.microsoft", alpha=1.0)}
    gradient = netgrad.grad(net, wrt="x", gradients=choice)
    assert gradient.opset_imports["com.microsoft"] == 1
    result = netgrad.run(gradient, {"x": np.float32([-1, 2])})
    np.testing.assert_allclose(result["x_grad"], [1 / (1 + np.exp(-1))] * 2, rtol=1e-6)


def test_the_built_in_rules_are_known_however_early_one_registers() -> None:
    code = (
        "import netgrad\n"
        "try:\n"
        "    netgrad.rule('', 'Relu')\n"
        "except netgrad.InvalidArgumentError as error:\n"
        "    assert 'netgrad has a rule for Relu itself' in str(error)\n"
        "else:\n"
        "    raise AssertionError\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# ---- registering -----------------------------------------------------------------------------------------


def test_a_built_in_rule_is_replaced_on_purpose_only() -> None:
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[n] x) => (float[n] y) { y = Relu (x) }'
    )
    x = np.float32([-1, 2])
    with netgrad.local_rules():
        with pytest.raises(InvalidArgumentError, match="netgrad has a rule for Relu itself"):
            netgrad.rule("", "Relu")
        netgrad.rule("ai.onnx", "Relu", replace=True)(lambda op, dy: dy * 3.0)
        np.testing.assert_array_equal(netgrad.run(netgrad.grad(net, wrt="x"), {"x": x})["x_grad"], [3, 3])
    np.testing.assert_array_equal(netgrad.run(netgrad.grad(net, wrt="x"), {"x": x})["x_grad"], [0, 1])


@pytest.mark.parametrize("known", [("", "LSTM"), ("", "Attention"), ("com.microsoft", "Gelu"), ("", "Shape")])
def test_expansions_and_declarations_are_known_too(known: tuple[str, str]) -> None:
    with netgrad.local_rules(), pytest.raises(InvalidArgumentError, match="netgrad has a rule"):
        netgrad.rule(*known)


def test_a_composite_operator_with_a_users_rule_is_not_expanded() -> None:
    net = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "com.microsoft": 1]> g (float[n] x) => (float[n] y) '
        "{ y = com.microsoft.QuickGelu (x) }"
    )
    with netgrad.local_rules():
        netgrad.rule("com.microsoft", "QuickGelu", attributes=["alpha"], replace=True)(straight)
        gradient = netgrad.grad(net, wrt="x")
        assert "QuickGelu" in [node.op_type for node in gradient.graph]
        result = netgrad.run(gradient, {"x": np.float32([-1, 2])})
    np.testing.assert_array_equal(result["x_grad"], [1, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: netgrad.rule("Foo"), r'names no operator type\n.*rule\("my.domain", "Foo"\)'),
        (lambda: netgrad.rule("my.domain", ""), "are names, not ''"),
        (lambda: netgrad.rule(straight), "are names, not <function"),
        (lambda: netgrad.rule("my.domain", "Foo", attributes="mode"), "`attributes` is 'mode'; it is a list"),
        (lambda: netgrad.rule("my.domain", "Foo", not_differentiable=1), "it is a list"),
        (lambda: netgrad.rule("my.domain", "Foo")(3), "a gradient rule is a function, not 3"),
        (lambda: netgrad.rule("", "Rleu"), "no operator Rleu; did you mean 'Relu'"),
        (lambda: netgrad.rule("", "Upsample"), "brought to its successor"),
        (lambda: netgrad.rule("my.domain", "Foo", replace=True), "no rule for my.domain::Foo to replace"),
    ],
)
def test_a_wrong_registration(call: Any, message: str) -> None:
    with netgrad.local_rules(), pytest.raises(InvalidArgumentError, match=message):
        call()


def test_two_rules_for_one_operator_are_refused_in_either_order() -> None:
    def other(op: Any, dy: Any) -> Any:
        return dy

    for first, second in ((straight, other), (other, straight)):
        with netgrad.local_rules():
            netgrad.rule("my.domain", "Foo")(first)
            netgrad.rule("my.domain", "Foo")(first)  # the cell of a notebook, run again
            with pytest.raises(InvalidArgumentError, match=r"my\.domain::Foo has a rule already"):
                netgrad.rule("my.domain", "Foo")(second)
            with netgrad.local_rules():
                with pytest.raises(InvalidArgumentError, match="has a rule already"):
                    netgrad.rule("my.domain", "Foo")
                netgrad.rule("my.domain", "Foo", replace=True)(second)
                assert user_declarations()["my.domain", "Foo"].function is second
            assert user_declarations()["my.domain", "Foo"].function is first


def test_a_block_forgets_its_rules_and_is_its_threads_own() -> None:
    seen: list[bool] = []

    def look() -> None:
        seen.append(("my.domain", "Foo") in user_declarations())

    def fail() -> None:
        with netgrad.local_rules():
            netgrad.rule("my.domain", "Foo")(straight)
            look()
            thread = threading.Thread(target=look)
            thread.start()
            thread.join()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    look()
    assert seen == [True, False, False]


def test_a_rule_outside_of_blocks_holds_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrad.onnx.rules.user._EVERYWHERE", {})
    netgrad.rule("my.domain", "Foo")(straight)
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(("my.domain", "Foo") in user_declarations()))
    thread.start()
    thread.join()
    assert seen == [True]
