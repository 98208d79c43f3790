"""The public `grad`: names, targets, errors; one phenomenon of the graph's shape each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import parser

import netgrad
from netgrad.onnx.weights import weight_names

HEADER = '<ir_version: 10, opset_import: ["": 18]>\n'


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(HEADER + text)


def outputs_of(result: ir.Model) -> list[str | None]:
    return [value.name for value in result.graph.outputs]


def types_of(result: ir.Model) -> list[str]:
    return [node.op_type for node in result.graph]


CHAIN = model("chain (float[2,3] x) => (float[2,3] y) { h = Exp(x)  y = Sin(h) }")
X = np.float32([[0.1, -0.2, 0.3], [0.5, 0.0, -1.0]])


def test_chain_adds_one_output_and_keeps_the_others() -> None:
    result = netgrad.grad(CHAIN, wrt="x")
    assert outputs_of(result) == ["y", "x_grad"]
    assert types_of(result)[:2] == ["Exp", "Sin"]
    got = netgrad.run(result, {"x": X})
    np.testing.assert_allclose(got["x_grad"], np.exp(X) * np.cos(np.exp(X)), rtol=1e-5)
    np.testing.assert_allclose(got["y"], np.sin(np.exp(X)), rtol=1e-5)


def test_gradient_has_shape_and_type_of_its_primal() -> None:
    value = netgrad.grad(CHAIN, wrt="x").graph.outputs[-1]
    assert value.dtype == ir.DataType.FLOAT
    assert list(value.shape or ()) == [2, 3]


def test_fan_out_accumulates_once() -> None:
    twice = model("fan (float[3] x) => (float[3] y) { a = Exp(x)  b = Sin(x)  y = Mul(a, b) }")
    result = netgrad.grad(twice, wrt="x")
    assert types_of(result).count("Add") + types_of(result).count("Sum") == 1
    x = np.float32([0.3, -0.7, 2.0])
    got = netgrad.run(result, {"x": x})["x_grad"]
    np.testing.assert_allclose(got, np.exp(x) * (np.sin(x) + np.cos(x)), rtol=1e-5)


def test_cotangent_becomes_an_input() -> None:
    result = netgrad.grad(CHAIN, wrt="x", cotangent="input")
    assert [value.name for value in result.graph.inputs] == ["x", "y_grad"]
    seed = np.float32([[1, 2, 3], [-1, 0, 0.5]])
    got = netgrad.run(result, {"x": X, "y_grad": seed})["x_grad"]
    np.testing.assert_allclose(got, seed * np.exp(X) * np.cos(np.exp(X)), rtol=1e-5)


def test_several_targets_add_up() -> None:
    both = model("two (float[3] x) => (float[3] a, float[3] b) { a = Exp(x)  b = Sin(x) }")
    x = np.float32([0.3, -0.7, 2.0])
    got = netgrad.run(netgrad.grad(both, wrt="x", of=["a", "b"]), {"x": x})["x_grad"]
    np.testing.assert_allclose(got, np.exp(x) + np.cos(x), rtol=1e-5)
    with pytest.raises(netgrad.InvalidArgumentError, match=r"2 floating-point outputs.*\n.*'a', 'b'"):
        netgrad.grad(both, wrt="x")


def test_target_that_is_consumed_further_on() -> None:
    inner = model("inner (float[3] x) => (float[3] h, float[3] y) { h = Exp(x)  y = Mul(h, h) }")
    x = np.float32([0.3, -0.7, 2.0])
    got = netgrad.run(netgrad.grad(inner, wrt="x", of="h"), {"x": x})["x_grad"]
    np.testing.assert_allclose(got, np.exp(x), rtol=1e-5)
    both = netgrad.run(netgrad.grad(inner, wrt="x", of=["h", "y"]), {"x": x})["x_grad"]
    np.testing.assert_allclose(both, np.exp(x) + 2 * np.exp(2 * x), rtol=1e-5)


def test_wrt_an_intermediate_value() -> None:
    got = netgrad.run(netgrad.grad(CHAIN, wrt=["h", "x"]), {"x": X})
    np.testing.assert_allclose(got["h_grad"], np.cos(np.exp(X)), rtol=1e-5)
    np.testing.assert_allclose(got["x_grad"], np.exp(X) * np.cos(np.exp(X)), rtol=1e-5)


def test_wrt_the_target_itself_is_its_cotangent() -> None:
    got = netgrad.run(netgrad.grad(CHAIN, wrt="y"), {"x": X})
    np.testing.assert_array_equal(got["y_grad"], np.ones((2, 3), np.float32))


def test_one_gradient_for_two_names_gives_two_outputs() -> None:
    plus = model("plus (float[3] a, float[3] b) => (float[3] y) { y = Add(a, b) }")
    result = netgrad.grad(plus, wrt=["a", "b"], cotangent="input")
    assert outputs_of(result) == ["y", "a_grad", "b_grad"]
    ones = np.ones(3, np.float32)
    got = netgrad.run(result, {"a": ones, "b": ones, "y_grad": 2 * ones})
    np.testing.assert_array_equal(got["a_grad"], 2 * ones)
    np.testing.assert_array_equal(got["b_grad"], 2 * ones)


def test_unreached_name_gets_zeros_and_a_warning() -> None:
    spare = model("spare (float[3] x, float[N,2] z) => (float[3] y) { y = Exp(x) }")
    with pytest.warns(netgrad.NetgradWarning, match="'z' does not influence"):
        result = netgrad.grad(spare, wrt=["x", "z"])
    z = np.ones((4, 2), np.float32)
    got = netgrad.run(result, {"x": np.zeros(3, np.float32), "z": z})
    np.testing.assert_array_equal(got["z_grad"], np.zeros((4, 2), np.float32))
    assert got["z_grad"].dtype == np.float32


def test_gradient_of_the_gradient() -> None:
    first = netgrad.grad(CHAIN, wrt="x", of="y")
    second = netgrad.grad(first, wrt="x", of="x_grad")
    assert outputs_of(second) == ["y", "x_grad", "x_grad_1"]
    third = netgrad.grad(second, wrt="x", of="x_grad_1")
    got = netgrad.run(third, {"x": X.astype(np.float32)})
    e = np.exp(X.astype(np.float64))
    np.testing.assert_allclose(got["x_grad_1"], e * np.cos(e) - e**2 * np.sin(e), rtol=1e-4, atol=1e-5)
    want = e * np.cos(e) - 3 * e**2 * np.sin(e) - e**3 * np.cos(e)
    np.testing.assert_allclose(got["x_grad_2"], want, rtol=1e-4, atol=1e-4)


def test_taken_names_get_a_suffix() -> None:
    taken = model("taken (float[3] x) => (float[3] y, float[3] x_grad) { y = Exp(x)  x_grad = Neg(x) }")
    result = netgrad.grad(taken, wrt="x", of="y", cotangent="input")
    assert outputs_of(result) == ["y", "x_grad", "x_grad_1"]
    ones = np.ones(3, np.float32)
    got = netgrad.run(result, {"x": ones, "y_grad": ones})
    np.testing.assert_array_equal(got["x_grad"], -ones)
    np.testing.assert_allclose(got["x_grad_1"], np.exp(ones), rtol=1e-6)


@pytest.mark.parametrize("form", ["proto", "bytes", "path", "ir"])
def test_every_source_and_none_is_changed(form: str, tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(CHAIN, path)
    before = CHAIN.SerializeToString(deterministic=True)
    source = {
        "proto": CHAIN,
        "bytes": before,
        "path": path,
        "ir": ir.from_proto(CHAIN),
    }[form]
    result = netgrad.grad(source, wrt="x")
    assert outputs_of(result) == ["y", "x_grad"]
    assert CHAIN.SerializeToString(deterministic=True) == before
    if isinstance(source, ir.Model):
        assert outputs_of(source) == ["y"]
        assert types_of(source) == ["Exp", "Sin"]


def test_constants_of_the_gradient_are_no_weights(tmp_path: Path) -> None:
    layer = parser.parse_model(
        HEADER
        + "layer (float[1,2,5,5] x) => (float[1,3,5,5] y) <float[3,2,3,3] w = "
        + "{"
        + ", ".join(map(str, np.arange(54) / 50))
        + "}> "
        "{ c = Conv<pads=[1,1,1,1]>(x, w) e = Elu(c) y = Sqrt(e) }"
    )
    gradient = netgrad.grad(layer)
    netgrad.save(gradient, tmp_path / "gradient.onnx")
    for model in (gradient, netgrad.load(tmp_path / "gradient.onnx")):
        assert len(model.graph.initializers) > 1
        assert weight_names(model) == ["w"]


def test_result_is_the_same_every_time() -> None:
    first, second = (ir.to_proto(netgrad.grad(CHAIN, wrt="x")).SerializeToString() for _ in range(2))
    assert first == second


def test_generated_nodes_know_where_they_come_from() -> None:
    result = netgrad.grad(CHAIN, wrt="x")
    generated = [node for node in result.graph if "netgrad.forward_type" in node.metadata_props]
    assert {node.metadata_props["netgrad.forward_type"] for node in generated} == {"Exp", "Sin"}
    rule = next(
        n.metadata_props["netgrad.rule"]
        for n in generated
        if n.metadata_props["netgrad.forward_type"] == "Sin"
    )
    assert rule.startswith("sin (netgrad/onnx/rules/elementwise.py:")


def test_all_operators_without_a_rule_are_named_with_their_path() -> None:
    foreign = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "my.dom": 1]>\n'
        "foreign (float[3] x) => (float[3] y) { a = my.dom.Relu(x)  b = my.dom.Warp(a)  y = Exp(b) }"
    )
    with pytest.raises(netgrad.UnsupportedOperatorError) as caught:
        netgrad.grad(foreign, wrt="x")
    text = str(caught.value)
    assert "my.dom::Relu" in text
    assert "my.dom::Warp" in text
    assert "x -> a -> b" in text
    assert "hint:" in text


def test_operators_off_the_path_do_not_matter() -> None:
    aside = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18, "my.dom": 1]>\n'
        "aside (float[3] x, float[3] w) => (float[3] y) { a = my.dom.Warp(x)  y = Mul(a, w) }"
    )
    result = netgrad.grad(aside, wrt="w")
    assert outputs_of(result) == ["y", "w_grad"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wrt": "X"}, "'X', which the model does not have; did you mean 'x'"),
        ({"wrt": "x", "of": "loss"}, "`of` names 'loss', which the model does not have"),
        ({"wrt": []}, "`wrt` names nothing"),
        ({"wrt": [3]}, "not a name"),
        ({"wrt": "k"}, "'k', whose elements are INT64"),
        ({"wrt": "x", "cotangent": "zeros"}, "`cotangent` is 'zeros'; it can be 'ones' or 'input'"),
        ({}, "no weights to differentiate by default"),
    ],
)
def test_wrong_arguments(arguments: dict[str, object], message: str) -> None:
    pick = model("pick (float[4] x, int64[2] k) => (float[2] y) { y = Gather(x, k) }")
    with pytest.raises(netgrad.InvalidArgumentError, match=message):
        netgrad.grad(pick, **arguments)  # type: ignore[arg-type]
