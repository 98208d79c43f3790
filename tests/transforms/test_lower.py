"""The standard's training operators in operators that stock ONNX Runtime has."""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.backend.test
import onnx.backend.test.case.node as node_cases
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import netgrad
from netgrad.core.errors import InvalidModelError, NetgradError, UnsupportedOperatorError

Array = np.ndarray[Any, np.dtype[Any]]

NAMES = {
    *("test_adagrad", "test_adagrad_multiple", "test_adam", "test_adam_multiple"),
    *("test_momentum", "test_momentum_multiple", "test_nesterov_momentum"),
    *("test_gradient_of_add", "test_gradient_of_add_and_mul"),
}
SIMPLE = Path(onnx.backend.test.__file__).parent / "data" / "simple"


def _standard_cases() -> dict[str, tuple[onnx.ModelProto, list[Array], list[Array]]]:
    """The test models that the onnx package holds for the domain, with inputs and expected outputs."""
    for name in ("adagrad", "adam", "momentum"):
        importlib.import_module(f"onnx.backend.test.case.node.{name}")
    found = {}
    for case in node_cases._NodeTestCases:
        if any(node.domain == "ai.onnx.preview.training" for node in case.model.graph.node):
            ((inputs, outputs),) = case.data_sets
            found[case.name] = (case.model, list(inputs), list(outputs))
    for folder in SIMPLE.glob("test_gradient_of_*"):
        data = folder / "test_data_set_0"

        def arrays(what: str, data: Path = data) -> list[Array]:
            paths = sorted(data.glob(f"{what}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
            return [numpy_helper.to_array(onnx.load_tensor(str(path))) for path in paths]

        found[folder.name] = (onnx.load(folder / "model.onnx"), arrays("input"), arrays("output"))
    return found


CASES = _standard_cases()


def _run(model: ir.Model, feeds: Mapping[str, Array]) -> dict[str, Array]:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    assert {imported.domain for imported in proto.opset_import} == {""}
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, dict(feeds)), strict=True))


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_standards_own_models_run_with_the_expected_outputs(name: str) -> None:
    model, inputs, outputs = CASES[name]
    names = [value.name for value in model.graph.input]
    results = _run(netgrad.lower(model), dict(zip(names, inputs, strict=True)))
    assert list(results) == [value.name for value in model.graph.output]
    for got, want in zip(results.values(), outputs, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-7)


def test_there_are_no_other_models_of_the_domain() -> None:
    assert set(CASES) == NAMES


# ---- Gradient --------------------------------------------------------------------------------------------

TRAINING = 'ai.onnx.preview.training" : 1'


def _parsed(body: str, inputs: str, outputs: str) -> onnx.ModelProto:
    return parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 18, "{TRAINING}]> g ({inputs}) => ({outputs}) {{ {body} }}'
    )


GRADIENT = "ai.onnx.preview.training.Gradient"
X = np.array([[0.5, -1.0], [2.0, 0.25], [1.5, -0.5]], np.float32)
W = np.array([[1.0, 0.5], [-0.5, 2.0]], np.float32)


def test_by_an_intermediate_value_the_rest_is_fixed() -> None:
    # h = x w; y = sum(h^2 + x): by x, with h independent, only the second term counts.
    model = _parsed(
        f"""h = MatMul(x, w) s = Mul(h, h) t = Add(s, x) y = ReduceSum<keepdims = 0>(t)
        by_h, by_x = {GRADIENT} <xs = ["h", "x"], y = "y"> (h, x)""",
        "float[3, 2] x, float[2, 2] w",
        "float[3, 2] by_h, float[3, 2] by_x",
    )
    results = _run(netgrad.lower(model), {"x": X, "w": W})
    np.testing.assert_allclose(results["by_h"], 2 * X @ W, rtol=1e-6)
    np.testing.assert_array_equal(results["by_x"], np.ones_like(X))


def test_what_is_in_zs_is_independent() -> None:
    # y = sum(x z) with z = x^2, which counts as a variable of its own.
    model = _parsed(
        f"""z = Mul(x, x) p = Mul(x, z) y = ReduceSum<keepdims = 0>(p)
        all = {GRADIENT} <xs = ["x"], y = "y"> (x)
        partly = {GRADIENT} <xs = ["x"], zs = ["z"], y = "y"> (x, z)""",
        "float[3, 2] x",
        "float[3, 2] all, float[3, 2] partly",
    )
    results = _run(netgrad.lower(model), {"x": X})
    np.testing.assert_allclose(results["all"], 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(results["partly"], X**2, rtol=1e-6)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_gradient_of_a_gradient(swapped: bool) -> None:
    # o = sum(tanh(x w)^2): by w, and the sum of that by x and by w; the second may stand before
    first = f'gx, gw = {GRADIENT} <xs = ["x", "w"], y = "o"> (x, w)'
    second = f'gwx, gww = {GRADIENT} <xs = ["x", "w"], y = "gw"> (x, w)'
    model = _parsed(
        f"""h = MatMul(x, w) t = Tanh(h) s = Mul(t, t) o = ReduceSum<keepdims = 0>(s)
        {second if swapped else first} {first if swapped else second}""",
        "float[n, 2] x, float[2, 2] w",
        "float[n, 2] gx, float[2, 2] gw, float[n, 2] gwx, float[2, 2] gww",
    )
    results = _run(netgrad.lower(model), {"x": X, "w": W})

    def by_w(x: Array, w: Array) -> Array:
        t = np.tanh(x @ w)
        return np.asarray(x.T @ (2 * t * (1 - t**2)))

    x, w = X.astype(np.float64), W.astype(np.float64)
    np.testing.assert_allclose(results["gw"], by_w(x, w), rtol=1e-5)
    for name, place in (("gwx", 0), ("gww", 1)):
        want = np.zeros_like((x, w)[place])
        for index in np.ndindex(want.shape):
            step = np.zeros_like(want)
            step[index] = 1e-6
            above, below = ((x + step, w), (x - step, w)) if place == 0 else ((x, w + step), (x, w - step))
            want[index] = (by_w(*above) - by_w(*below)).sum() / 2e-6
        np.testing.assert_allclose(results[name], want, rtol=1e-4, atol=1e-5)


def test_at_other_values_the_function_is_written_again() -> None:
    model = _parsed(
        f"""two = Constant <value_float = 2.0> () far = Mul(x, two)
        p = Mul(x, w) q = Sin(p) y = ReduceSum<keepdims = 0>(q)
        there = {GRADIENT} <xs = ["x"], zs = ["w"], y = "y"> (far, w)
        a, b = {GRADIENT} <xs = ["x", "w"], y = "y"> (far, far)""",
        "float[3] x, float[3] w",
        "float y, float[3] there, float[3] a, float[3] b",
    )
    x, w = np.array([0.5, -1.0, 0.25], np.float32), np.array([1.0, 0.5, -2.0], np.float32)
    results = _run(netgrad.lower(model), {"x": x, "w": w})
    np.testing.assert_allclose(results["y"], np.sin(x * w).sum(), rtol=1e-6)
    np.testing.assert_allclose(results["there"], w * np.cos(2 * x * w), rtol=1e-5)
    np.testing.assert_allclose(results["a"], 2 * x * np.cos(4 * x * x), rtol=1e-5)
    np.testing.assert_allclose(results["b"], results["a"], rtol=1e-6)


def test_through_composite_operators_loops_and_optional_outputs() -> None:
    # an LSTM becomes a Scan, whose states the backward pass reads; MaxPool needs its indices
    rng = np.random.default_rng(3)
    lstm = helper.make_node("LSTM", ["x", "w", "r"], ["h"], "lstm", hidden_size=3)
    nodes = [
        helper.make_node("MaxPool", ["image"], ["pooled"], "pool", kernel_shape=[1, 2], strides=[1, 2]),
        helper.make_node("Squeeze", ["pooled", "axis"], ["x"], "squeeze"),
        lstm,
        helper.make_node("ReduceSumSquare", ["h"], ["y"], "sum", keepdims=0),
        helper.make_node(
            "Gradient",
            ["image", "w"],
            ["by_image", "by_w"],
            "gradient",
            domain="ai.onnx.preview.training",
            xs=["image", "w"],
            y="y",
        ),
    ]
    weights = {
        "w": rng.normal(size=(1, 12, 2)).astype(np.float32),
        "r": rng.normal(size=(1, 12, 3)).astype(np.float32),
        "axis": np.array([0]),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", 1, [1, 4, 5, 4])],
        [helper.make_tensor_value_info("by_image", 1, None), helper.make_tensor_value_info("by_w", 1, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    del plain.graph.node[-1]
    del plain.graph.output[:]
    plain.graph.output.append(helper.make_tensor_value_info("y", 1, []))
    image = rng.normal(size=(1, 4, 5, 4)).astype(np.float32)
    got = netgrad.run(netgrad.lower(model), {"image": image})
    want = netgrad.run(netgrad.grad(plain, wrt=["image", "w"]), {"image": image})
    assert np.any(want["w_grad"])
    np.testing.assert_array_equal(got["by_image"], want["image_grad"])
    np.testing.assert_array_equal(got["by_w"], want["w_grad"])


DESCENT = f"""
    go = Constant <value = bool {{1}}> ()
    z = Loop (n, go, x) <body = b (int64 i, bool c, float[3] a) => (bool o, float[3] r) {{
        o = Identity (c) p = Mul (a, w) g = Gelu (p) q = Mul (g, a) y = ReduceSum <keepdims = 0> (q)
        d = {GRADIENT} <xs = ["a"], y = "y"> (a) s = Mul (d, rate) r = Sub (a, s) }}>
"""


def test_in_the_body_of_a_loop_and_differentiated_again() -> None:
    """Steps of descent on y = sum(a gelu(w a)); and how the end depends on start and weights."""
    model = _parsed(
        f"rate = Constant <value = float {{0.1}}> () {DESCENT}",
        "float[3] x, float[3] w, int64 n",
        "float[3] z",
    )
    model.opset_import[0].version = 20
    x, w = np.array([0.5, -1.0, 1.5]), np.array([0.7, 1.2, -0.4])

    def phi(t: np.ndarray) -> np.ndarray:
        return np.asarray([(1 + math.erf(one / math.sqrt(2))) / 2 for one in t])

    def descended(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        for _ in range(3):
            t = a * w  # y = a t phi(t): dy/da = 2 t phi(t) + a w t phi'(t)
            a = a - 0.1 * (2 * t * phi(t) + t * t * np.exp(-t * t / 2) / math.sqrt(2 * math.pi))
        return a

    feeds = {"x": x.astype(np.float32), "w": w.astype(np.float32), "n": np.array(3)}
    np.testing.assert_allclose(_run(netgrad.lower(model), feeds)["z"], descended(x, w), rtol=1e-5)
    got = netgrad.run(netgrad.grad(model, wrt=["x", "w"], of="z"), feeds)
    step = 1e-5
    by_x = (descended(x + step, w) - descended(x - step, w)) / (2 * step)  # elementwise
    by_w = (descended(x, w + step) - descended(x, w - step)) / (2 * step)
    np.testing.assert_allclose(got["x_grad"], by_x, rtol=1e-4)
    np.testing.assert_allclose(got["w_grad"], by_w, rtol=1e-4)


@pytest.mark.parametrize("then", [True, False])
def test_in_branches_with_the_same_names(then: bool) -> None:
    model = _parsed(
        f"""z = If (c) <
            then_branch = t () => (float[2] d) {{
                a = Identity (x) y = Mul (a, a) d = {GRADIENT} <xs = ["a"], y = "y"> (a) }},
            else_branch = e () => (float[2] d) {{
                a = Sin (x) y = Exp (a) d = {GRADIENT} <xs = ["a"], y = "y"> (a) }}>""",
        "float[2] x, bool c",
        "float[2] z",
    )
    x = np.array([0.5, -1.0], np.float32)
    want = 2 * x if then else np.exp(np.sin(x))
    got = _run(netgrad.lower(model), {"x": x, "c": np.array(then)})["z"]
    np.testing.assert_allclose(got, want, rtol=1e-6)


def test_a_value_of_another_graph_is_refused() -> None:
    model = _parsed(
        f"""h = Sin (x) z = If (c) <
            then_branch = t () => (float[2] d) {{ y = Mul (h, x) d = {GRADIENT} <xs = ["x"], y = "y"> (x) }},
            else_branch = e () => (float[2] d2) {{ d2 = Identity (x) }}>""",
        "float[2] x, bool c",
        "float[2] z",
    )
    with pytest.raises(InvalidModelError, match="names 'x', which its graph does not have"):
        netgrad.lower(model)


def test_left_out_outputs_and_values_without_influence() -> None:
    graph_nodes = [
        helper.make_node("Mul", ["x", "x"], ["y"], "square"),
        helper.make_node(
            "Gradient",
            ["x", "u"],
            ["", "by_u"],
            "gradient",
            domain="ai.onnx.preview.training",
            xs=["x", "u"],
            y="y",
        ),
    ]
    infos = [helper.make_tensor_value_info(name, 1, [2]) for name in ("x", "u")]
    graph = helper.make_graph(graph_nodes, "g", infos, [helper.make_tensor_value_info("by_u", 1, [2])])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.preview.training", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    ones = np.ones(2, np.float32)
    np.testing.assert_array_equal(_run(netgrad.lower(model), {"x": ones, "u": ones})["by_u"], [0, 0])


def test_grad_check_and_inspect_lower_by_themselves() -> None:
    # one step of descent, differentiated by the learning rate: -(gradient)^2 summed, for a quadratic
    model = _parsed(
        f"""s = Mul(x, x) y = ReduceSum<keepdims = 0>(s)
        g = {GRADIENT} <xs = ["x"], y = "y"> (x)
        x2, v2 = ai.onnx.preview.training.Momentum
            <alpha = 0.5, beta = 1.0, mode = "nesterov", norm_coefficient = 0.1> (r, t, x, g, v)""",
        "float[3] x, float[3] v, float r, int64 t",
        "float[3] x2",
    )
    feeds = {
        "x": np.array([1.0, 2.0, -0.5], np.float32),
        "v": np.array([0.5, 0.25, 1.0], np.float32),
        "r": np.array(0.1, np.float32),
        "t": np.array(3),
    }
    report = netgrad.check(model, feeds, wrt=["r", "x", "v"], of="x2")
    assert report.ok, str(report)
    inspection = netgrad.inspect(model, wrt="r", of="x2")
    assert not inspection.problem
    assert not [one for one in inspection.operators if "training" in one.type]
    with pytest.raises(NetgradError, match=r"netgrad\.lower"):
        netgrad.run(model, feeds)


@pytest.mark.parametrize(
    ("attributes", "why"),
    [
        ('xs = ["x"], y = "z"', "names 'z'"),
        ('xs = ["x"]', "attributes xs and y"),
        ('xs = ["x", "y"], y = "y"', "2 values, and it has 1 inputs"),
        ('xs = ["x"], y = "g"', "differentiates itself"),
    ],
)
def test_a_node_that_does_not_fit_its_graph_is_refused(attributes: str, why: str) -> None:
    model = _parsed(
        f"y = Mul(x, x) g = {GRADIENT} <{attributes}> (x)", "float[3] x", "float[3] y, float[3] g"
    )
    with pytest.raises(InvalidModelError, match=rf"Gradient.*{why}"):
        netgrad.lower(model)


def test_an_operator_without_a_rule_in_the_way_is_named() -> None:
    model = _parsed(
        f'y = com.example.Foo (x) g = {GRADIENT} <xs = ["x"], y = "y"> (x)', "float[3] x", "float[3] g"
    )
    model.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(UnsupportedOperatorError, match=r"com\.example::Foo"):
        netgrad.lower(model)


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ('Momentum <alpha = 0.5, beta = 1.0, mode = "fast", norm_coefficient = 0.1> (r, t, x, x, x)', "mode"),
        ("Adam (r, t, x, x, x)", "3 tensors"),
        ("Adagrad <foo = 1> (r, t, x, x, x)", "attribute 'foo'"),
    ],
)
def test_other_forms_of_optimizers_are_refused(node: str, why: str) -> None:
    model = _parsed(f"y = ai.onnx.preview.training.{node}", "float r, int64 t, float[3] x", "float[3] y")
    with pytest.raises(UnsupportedOperatorError, match=why):
        netgrad.lower(model)
