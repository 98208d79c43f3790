"""Straight-through gradients: of rounding, and of quantised values until they are real numbers again.

The formulas are written in NumPy from the definition: the derivative of a quantiser whose rounding has the
derivative 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import parser

import netgrad
from netgrad.core.errors import InvalidArgumentError, UnsupportedOperatorError

X = np.float32([[0.4, 1.6, -0.5, 2.5], [-1.2, 0.0, 3.3, -2.5]])
DY = np.float32([[1, 2, 3, 4], [5, -6, 7, 8]])


def net(body: str, opset: int = 21, initializers: str = "") -> onnx.ModelProto:
    head = f'<ir_version: 10, opset_import: ["": {opset}]> g (float[n, 4] x) => (float[n, 4] y)'
    return parser.parse_model(f"{head} {f'<{initializers}>' if initializers else ''} {{ {body} }}")


def gradients(model: onnx.ModelProto, *wrt: str, x: Any = X, dy: Any = DY, **how: Any) -> dict[str, Any]:
    """The gradients of sum(y * dy), and y."""
    how = how or {"straight_through": True}
    gradient = netgrad.grad(model, wrt=list(wrt), of="y", cotangent="input", **how)
    return netgrad.run(gradient, {"x": x, "y_grad": dy})


@pytest.mark.parametrize("op_type", ["Ceil", "Floor", "Hardmax", "Round", "Sign"])
def test_rounding_passes_the_cotangent(op_type: str) -> None:
    model = net(f"h = {op_type} (x) y = Mul (h, h)")
    result = gradients(model, "x")
    rounded = netgrad.run(net(f"y = {op_type} (x)"), {"x": X})["y"]
    np.testing.assert_array_equal(result["x_grad"], 2 * rounded * DY)
    with pytest.warns(netgrad.NetgradWarning, match="'x' does not influence"):
        assert not gradients(model, "x", accumulation="auto")["x_grad"].any(), "by default nothing passes"


def quantised(x: Any, scale: Any, zero: Any, low: int, high: int) -> tuple[Any, Any]:
    """Steps from the zero point, and where nothing saturates."""
    level = np.round(x / scale) + zero
    return np.clip(level, low, high) - zero, (level >= low) & (level <= high)


RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int4": (-8, 7), "uint16": (0, 65535)}


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("zero", [0, 3])
def test_a_quantised_value_with_one_scale(dtype: str, zero: int) -> None:
    model = net(
        "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) y = Mul (d, d)",
        initializers=f"float s = {{0.25}}, {dtype} z = {{{zero}}}",
    )
    result = gradients(model, "x", "s")
    steps, inside = quantised(X.astype(float), 0.25, zero, *RANGES[dtype])
    assert inside.any()
    passed = 2 * steps * 0.25 * DY
    np.testing.assert_allclose(result["x_grad"], passed * inside, rtol=1e-6)
    # Learned step size: round(x / s) - x / s inside the range, the end of the range outside.
    np.testing.assert_allclose(
        result["s_grad"], (passed * (steps - inside * X.astype(float) / 0.25)).sum(), rtol=1e-5
    )


def test_the_ends_of_the_range_are_inside() -> None:
    model = net(
        "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z)",
        initializers="float s = {1}, int8 z = {0}",
    )
    x = np.float32([[127, 127.4, 127.6, -128.4], [-128.6, 0.0, np.inf, np.nan]])
    result = gradients(model, "x", x=x)
    np.testing.assert_array_equal(result["x_grad"], DY * [[1, 1, 0, 1], [0, 1, 0, 0]])


def test_a_scale_for_each_index_of_an_axis() -> None:
    scales, zeros = np.array([0.011, 0.013, 0.021, 0.043]), np.array([0, 1, -20, 30])
    model = net(
        "q = QuantizeLinear <axis = 1> (x, s, z) d = DequantizeLinear <axis = 1> (q, s, z) y = Mul (d, d)",
        initializers="float[4] s = {0.011, 0.013, 0.021, 0.043}, int8[4] z = {0, 1, -20, 30}",
    )
    result = gradients(model, "x", "s")
    steps, inside = quantised(X.astype(float), scales, zeros, -128, 127)
    assert inside.any()
    assert not inside.all()
    passed = 2 * steps * scales * DY
    np.testing.assert_allclose(result["x_grad"], passed * inside, rtol=1e-5)
    expected = (passed * (steps - inside * X / scales)).sum(0)
    rounding = 1e-6 * np.abs(passed * steps).max()  # of the two parts, which cancel
    np.testing.assert_allclose(result["s_grad"], expected, rtol=1e-5, atol=rounding)


def test_a_scale_for_each_block() -> None:
    model = net(
        "q = QuantizeLinear <axis = 1, block_size = 2> (x, s, z) "
        "d = DequantizeLinear <axis = 1, block_size = 2> (q, s, z) y = Mul (d, d)",
        initializers="float[2, 2] s = {0.011, 0.013, 0.021, 0.043}, int8[2, 2] z = {0, 1, -20, 30}",
    )
    result = gradients(model, "x", "s")
    scales = np.repeat([[0.011, 0.013], [0.021, 0.043]], 2, axis=1)
    zeros = np.repeat([[0, 1], [-20, 30]], 2, axis=1)
    steps, inside = quantised(X.astype(float), scales, zeros, -128, 127)
    assert not inside.all()
    passed = 2 * steps * scales * DY
    np.testing.assert_allclose(result["x_grad"], passed * inside, rtol=1e-5)
    expected = (passed * (steps - inside * X / scales)).reshape(2, 2, 2).sum(2)
    rounding = 1e-6 * np.abs(passed * steps).max()  # of the two parts, which cancel
    np.testing.assert_allclose(result["s_grad"], expected, rtol=1e-5, atol=rounding)


@pytest.mark.parametrize(
    ("body", "opset", "initializers", "slope"),
    [
        # Read by two operators; the two gradients of the integers add up to 1 + 0.5 / 0.25.
        (
            "q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) b = DequantizeLinear (q, t, z) "
            "y = Add (a, b)",
            18,
            "float s = {0.25}, float t = {0.5}, int8 z = {0}",
            np.full(X.shape, 3.0),
        ),
        # The first definition of the operators; uint8 has no negative numbers.
        (
            "q = QuantizeLinear (x, s, z) a = DequantizeLinear (q, s, z) y = Add (a, x)",
            10,
            "float s = {0.25}, uint8 z = {0}",
            1.0 + (np.round(X / 0.25) >= 0),
        ),
        # Without a zero point the integers are uint8, or what the attribute says.
        (
            "q = QuantizeLinear (x, s) y = DequantizeLinear (q, s)",
            13,
            "float s = {0.25}",
            np.round(X * 4) >= 0,
        ),
        (
            "q = QuantizeLinear <output_dtype = 3> (x, s) y = DequantizeLinear (q, s)",
            23,
            "float s = {0.25}",
            np.ones(X.shape),
        ),
    ],
    ids=["two readers", "opset 10", "no zero point", "output_dtype"],
)
def test_forms(body: str, opset: int, initializers: str, slope: np.ndarray) -> None:
    result = gradients(net(body, opset, initializers), "x")
    np.testing.assert_allclose(result["x_grad"], slope * DY, rtol=1e-6)


def test_two_different_scales() -> None:
    """The model multiplies by 0.5 / 0.25, and so does its gradient."""
    model = net(
        "q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, t, z)",
        initializers="float s = {0.25}, float t = {0.5}, int8 z = {0}",
    )
    np.testing.assert_allclose(gradients(model, "x")["x_grad"], 2 * DY, rtol=1e-6)


def test_the_scale_of_the_run() -> None:
    """DynamicQuantizeLinear chooses its scale, which is taken for a constant."""
    model = net("q, s, z = DynamicQuantizeLinear (x) d = DequantizeLinear (q, s, z) y = Mul (d, d)")
    result = gradients(model, "x")
    once = net("q, s, z = DynamicQuantizeLinear (x) y = DequantizeLinear (q, s, z)")
    rounded = netgrad.run(once, {"x": X})["y"]
    np.testing.assert_allclose(result["x_grad"], 2 * rounded * DY, rtol=1e-5)


def test_integers_are_moved_between_quantising_and_dequantising() -> None:
    model = net(
        "q = QuantizeLinear (x, s, z) t = Transpose <perm = [1, 0]> (q) a, b = Split <num_outputs = 2> (t) "
        "c = Concat <axis = 0> (b, a) r = Reshape (c, flat) g = Gather <axis = 0> (r, rows) "
        "k = Reshape (g, shape) u = Transpose <perm = [1, 0]> (k) y = DequantizeLinear (u, s, z)",
        initializers="float s = {0.25}, int8 z = {0}, int64[1] flat = {-1}, int64[2] shape = {4, -1}, "
        "int64[8] rows = {7, 6, 5, 4, 3, 2, 1, 0}",
    )

    def moved(a: Any) -> Any:
        a = a.T
        return np.concatenate([a[2:], a[:2]]).reshape(-1)[::-1].reshape(4, -1).T

    result = gradients(model, "x")
    order = moved(np.arange(8).reshape(2, 4))
    expected = np.zeros(8)
    expected[order.reshape(-1)] = DY.reshape(-1)
    np.testing.assert_allclose(result["x_grad"], expected.reshape(2, 4), rtol=1e-6)


def test_a_quantised_value_that_is_read_as_an_index_gives_no_gradient_there() -> None:
    model = net(
        "r = Round (x) i = Cast <to = 7> (r) f = Cast <to = 1> (i) t = Gather <axis = 0> (table, i) "
        "u = ReduceSum <keepdims = 0> (t, last) y = Add (f, u)",
        initializers="float[3, 2] table = {1, 2, 3, 4, 5, 6}, int64[1] last = {-1}",
    )
    x = np.float32([[0, 1, 2, 0], [1, 1, 2, 2]])
    result = gradients(
        model, "x", "table", x=x, gradients={"Round": "straight-through", "Cast": "straight-through"}
    )
    np.testing.assert_array_equal(result["x_grad"], DY)
    rows = [DY[x == row].sum() for row in range(3)]
    np.testing.assert_array_equal(result["table_grad"], np.stack([rows, rows], 1))


def test_a_threshold_by_name() -> None:
    """A comparison gives truth values that stand for real numbers until they are cast."""
    model = net("c = Greater (x, zero) y = Cast <to = 1> (c)", initializers="float zero = {0}")
    result = gradients(model, "x", gradients={"Greater": "straight-through"})
    np.testing.assert_array_equal(result["x_grad"], DY)
    with pytest.warns(netgrad.NetgradWarning, match="'x' does not influence"):
        netgrad.grad(model, wrt="x", straight_through=True)


def test_a_truncation_by_name() -> None:
    model = net("i = Cast <to = 7> (x) y = Cast <to = 1> (i)")
    np.testing.assert_array_equal(
        gradients(model, "x", gradients={"ai.onnx::Cast": "straight-through"})["x_grad"], DY
    )


def test_one_node_by_name() -> None:
    model = net("a = Round (x) b = Round (x) y = Sub (a, b)")
    for node, name in zip(model.graph.node, ("first", "second", "difference"), strict=True):
        node.name = name
    result = gradients(model, "x", gradients={"second": "straight-through"})
    np.testing.assert_array_equal(result["x_grad"], -DY)
    stopped = gradients(model, "x", straight_through=True, gradients={"second": "stop"})
    np.testing.assert_array_equal(stopped["x_grad"], DY)


def test_inside_a_branch() -> None:
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[n, 4] x, bool c) => (float[n, 4] y) <float s = {0.25}, int8 z = {0}> {
        h = If (c) <
            then_branch = t () => (float[n, 4] a) {
                q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) a = Mul (d, d) },
            else_branch = e () => (float[n, 4] b) { b = Round (x) }>
        y = Identity (h)
    }"""
    gradient = netgrad.grad(parser.parse_model(text), wrt="x", cotangent="input", straight_through=True)
    yes = netgrad.run(gradient, {"x": X, "c": np.array(True), "y_grad": DY})
    np.testing.assert_allclose(yes["x_grad"], 2 * np.round(X / 0.25) * 0.25 * DY, rtol=1e-6)
    no = netgrad.run(gradient, {"x": X, "c": np.array(False), "y_grad": DY})
    np.testing.assert_array_equal(no["x_grad"], DY)


def test_inside_a_scan() -> None:
    """y[t] = h[t] d[t] with h = the running sum of round(d), d = the quantised x."""
    text = """<ir_version: 10, opset_import: ["": 21]>
    g (float[t, 4] x) => (float[t, 4] y) <float s = {0.25}, int8 z = {0}, float[4] start = {0, 0, 0, 0}> {
        last, y = Scan <num_scan_inputs = 1,
                        body = b (float[4] h, float[4] v) => (float[4] next, float[4] o) {
            q = QuantizeLinear (v, s, z) d = DequantizeLinear (q, s, z) r = Round (d)
            next = Add (h, r) o = Mul (next, d) }> (start, x)
    }"""
    gradient = netgrad.grad(parser.parse_model(text), wrt="x", of="y", straight_through=True)
    steps = np.round(X / 0.25) * 0.25
    before, behind = np.cumsum(np.round(steps), axis=0), np.cumsum(steps[::-1], axis=0)[::-1]
    np.testing.assert_allclose(netgrad.run(gradient, {"x": X})["x_grad"], before + behind, rtol=1e-6)


def test_half_precision() -> None:
    model = net(
        "h = Cast <to = 10> (x) t = Cast <to = 10> (s) q = QuantizeLinear (h, t, z) "
        "d = DequantizeLinear (q, t, z) y = Cast <to = 1> (d)",
        initializers="float s = {0.25}, int8 z = {0}",
    )
    np.testing.assert_allclose(gradients(model, "x")["x_grad"], DY, rtol=1e-3)


def test_eight_bit_floating_point() -> None:
    model = net(
        "q = QuantizeLinear <saturate = 1> (x, s, z) y = DequantizeLinear (q, s, z)",
        opset=19,
        initializers="float s = {1}, float8e4m3fn z = {0}",
    )
    x = np.float32([[448, -448, 449, 1], [0.3, -500, 0, 2]])
    gradient = netgrad.grad(model, wrt="x", cotangent="input", straight_through=True)
    result = netgrad.run(gradient, {"x": x, "y_grad": DY})
    np.testing.assert_array_equal(result["x_grad"], DY * (np.abs(x) <= 448))


def test_second_order_of_a_straight_through_gradient() -> None:
    """y = r(x)^3 with r' = 1: dx = 3 r^2; again straight through: 6 r."""
    model = net("r = Round (x) s = Mul (r, r) y = Mul (s, r)")
    once = netgrad.grad(model, wrt="x", straight_through=True)
    twice = netgrad.grad(once, wrt="x", of="x_grad", straight_through=True)
    result = netgrad.run(twice, {"x": X})
    np.testing.assert_allclose(result["x_grad"], 3 * np.round(X) ** 2, rtol=1e-6)
    np.testing.assert_allclose(result["x_grad_1"], 6 * np.round(X), rtol=1e-6)


def test_a_cotangent_of_another_shape_cannot_go_straight_through() -> None:
    model = net("a = ArgMax <axis = 1, keepdims = 1> (x) f = Cast <to = 1> (a) y = Add (f, x)")
    with pytest.raises(UnsupportedOperatorError, match=r"ArgMax.*its output has shape"):
        netgrad.grad(model, wrt="x", gradients={"ArgMax": "straight-through"})


def test_quantised_models_train() -> None:
    """Weights and activations are quantised in the forward pass; the loss goes down on ONNX Runtime."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((4, 2)).astype(np.float32)
    first = ", ".join(map(repr, (0.1 * rng.standard_normal(8)).round(3).tolist()))
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[n, 4] x) => (float[n, 2] y) '
        f"<float[4, 2] W = {{{first}}}, float sx = {{0.05}}, float sw = {{0.02}}, int8 z = {{0}}> "
        "{ qx = QuantizeLinear (x, sx, z) dx = DequantizeLinear (qx, sx, z) "
        "qw = QuantizeLinear (W, sw, z) dw = DequantizeLinear (qw, sw, z) y = MatMul (dx, dw) }"
    )
    step = netgrad.training_step(
        model,
        loss=netgrad.losses.mean_squared_error("y"),
        optimizer=netgrad.optimizers.adam(0.02),
        trainable=["W"],
        straight_through=True,
    )
    trainer = netgrad.Trainer(step)
    losses = []
    for _ in range(200):
        x = rng.standard_normal((16, 4)).astype(np.float32)
        losses.append(float(trainer.step({"x": x, "targets": x @ truth})["loss"]))
    assert np.mean(losses[-10:]) < 0.02 * np.mean(losses[:10])
    with pytest.warns(netgrad.NetgradWarning, match="'W' does not influence"):
        netgrad.training_step(
            model,
            loss=netgrad.losses.mean_squared_error("y"),
            optimizer=netgrad.optimizers.sgd(0.1),
            trainable=["W"],
        )


# ---- choices ---------------------------------------------------------------------------------------------


def test_a_function_for_a_type_and_for_a_node() -> None:
    model = net("a = Sign (x) b = Sign (x) y = Add (a, b)")
    for node, name in zip(model.graph.node, ("first", "second", "sum"), strict=True):
        node.name = name

    def clipped(op: Any, dy: Any) -> Any:
        """The straight-through estimate of a binary network: only where |x| <= 1."""
        return op.builder.where(op.emit("Abs", op.input) <= 1, dy, 0)

    inside = np.abs(X) <= 1
    both = gradients(model, "x", gradients={"Sign": clipped})
    np.testing.assert_array_equal(both["x_grad"], 2 * DY * inside)
    mixed = gradients(model, "x", gradients={"Sign": "straight-through", "second": clipped})
    np.testing.assert_array_equal(mixed["x_grad"], DY + DY * inside)


def test_a_function_keeps_the_facts_of_the_rule_that_it_replaces() -> None:
    """Add broadcasts, so contributions are summed to the input's shape."""
    model = net("y = Add (x, b)", initializers="float[4] b = {1, 2, 3, 4}")
    result = gradients(model, "x", "b", gradients={"Add": lambda op, dy: [dy * 2.0, dy * 3.0]})
    np.testing.assert_array_equal(result["x_grad"], 2 * DY)
    np.testing.assert_array_equal(result["b_grad"], 3 * DY.sum(0))


def test_a_function_may_end_the_gradient() -> None:
    model = net("y = Mul (x, b)", initializers="float[4] b = {1, 2, 3, 4}")
    with pytest.warns(netgrad.NetgradWarning, match="'b' does not influence"):
        result = gradients(model, "x", "b", gradients={"Mul": lambda op, dy: [dy, None]})
    np.testing.assert_array_equal(result["x_grad"], DY)
    assert not result["b_grad"].any()


def test_a_composite_operator_by_name_is_not_expanded() -> None:
    model = net("y = Swish (x)", opset=24)
    result = gradients(model, "x", gradients={"Swish": lambda op, dy: dy})
    np.testing.assert_array_equal(result["x_grad"], DY)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"Rund": "stop"}, "names 'Rund', which is neither a node nor .*; did you mean 'Round'"),
        ({"secnd": "stop"}, "names 'secnd', .*; did you mean 'second'"),
        ({"Round": "straight"}, "gives 'straight' for 'Round'; did you mean 'straight-through'"),
        ({"Round": None}, "gives None for 'Round'; it can be a function"),
        ({"": "stop"}, "has the key '', which is no name"),
        ("Round", "`gradients` is 'Round'; it maps"),
        ({"Sub": "stop"}, "'Sub', which is a node of type Round and the type of other nodes"),
    ],
)
def test_a_wrong_choice(given: Any, message: str) -> None:
    model = net("a = Round (x) b = Round (x) y = Sub (a, b)")
    for node, name in zip(model.graph.node, ("Sub", "second", "difference"), strict=True):
        node.name = name
    with pytest.raises(InvalidArgumentError, match=message):
        netgrad.grad(model, wrt="x", gradients=given)


def test_inspect_says_what_was_chosen() -> None:
    model = net("a = Round (x) b = Sign (x) c = Add (a, b) y = Tanh (c)")
    found = netgrad.inspect(
        model, wrt="x", straight_through=True, gradients={"Sign": "stop", "Tanh": lambda op, dy: dy}
    )
    kinds = {info.type: info.gradient.value for info in found.operators}
    assert kinds == {"Round": "straight-through", "Sign": "stopped", "Add": "rule", "Tanh": "rule (user's)"}
    assert {info.type for info in found.operators if info.active} == {"Round", "Add", "Tanh"}


def test_check_measures_a_function_of_the_callers() -> None:
    model = net("y = Tanh (x)")
    right = {"Tanh": lambda op, dy: dy * (1.0 - op.output * op.output)}
    assert netgrad.check(model, {"x": X}, wrt="x", gradients=right).ok
    report = netgrad.check(model, {"x": X}, wrt="x", gradients={"Tanh": "straight-through"})
    assert [culprit.type for culprit in report.culprits] == ["Tanh"]


DYNAMIC = """
q, s, z = DynamicQuantizeLinear (x) m = {product} r = Cast <to = 1> (m) t = Mul (s, ws) y = Mul (r, t)
"""


@pytest.mark.parametrize("zeros", ["z, wz", "z, wzs", "z", ""])
def test_a_dynamically_quantised_product(zeros: str) -> None:
    """m = (q - z) (w - wz); the cotangent of q is that of m by (w - wz)^T, that of x has no s any more."""
    weights = np.array([[3, 130, 255, 0], [7, 120, 1, 9], [200, 100, 50, 25], [128, 127, 126, 0]])
    offsets = {"z, wz": 128, "z, wzs": np.array([128, 120, 100, 0])}.get(zeros, 0)
    product = f"MatMulInteger ({', '.join(filter(None, ['q, w', zeros]))})"
    model = net(
        DYNAMIC.format(product=product),
        initializers=f"uint8[4, 4] w = {{{', '.join(map(str, weights.ravel()))}}}, float ws = {{0.01}}, "
        "uint8 wz = {128}, uint8[4] wzs = {128, 120, 100, 0}",
    )
    result = gradients(model, "x")
    np.testing.assert_allclose(result["x_grad"], DY @ (weights - offsets).T * 0.01, rtol=1e-5)


def test_a_product_of_two_quantised_values() -> None:
    """Of each column of m = p q, every entry counts alike."""
    body = """
    shape = Constant <value = int64[2] {4, -1}> () t = Reshape (x, shape) size = Shape (x)
    q = QuantizeLinear (x, s, z) p = QuantizeLinear (t, s, z)
    m = MatMulInteger (p, q, z, z) r = Cast <to = 1> (m) n = ReduceSum (r, axes) y = Expand (n, size)
    """
    model = net(body, initializers="float s = {0.25}, uint8 z = {100}, int64[1] axes = {0}")
    result = gradients(model, "x")
    steps = np.round(X / 0.25)
    cotangent = np.tile(DY.sum(0), (4, 1))
    want = steps.reshape(4, 2).T @ cotangent + (cotangent @ steps.T).reshape(2, 4)
    np.testing.assert_allclose(result["x_grad"], want / 0.25, rtol=1e-5)


@pytest.mark.parametrize("zero", ["", "wz"])
def test_a_dynamically_quantised_convolution(zero: str) -> None:
    """ConvInteger is linear in q: one step of one element shows its derivative."""
    options = "<strides = [2, 1], pads = [1, 0, 0, 0]>"
    inputs = ", ".join(filter(None, ["q", "w", "z" if zero else "", zero]))
    integers = np.uint8([[[3, 130], [255, 0]], [[7, 120], [1, 9]], [[200, 100], [50, 25]]])
    initial = (
        f"uint8[3, 2, 2, 1] w = {{{', '.join(map(str, integers.ravel()))}}}, float ws = {{0.01}}, "
        "uint8 wz = {128}"
    )
    head = '<ir_version: 10, opset_import: ["": 18]>'
    body = DYNAMIC.format(product=f"ConvInteger {options} ({inputs})")
    model = parser.parse_model(
        f"{head} g (float[1, 2, 5, 2] x) => (float[1, 3, 3, 2] y) <{initial}> {{ {body} }}"
    )
    plain = parser.parse_model(
        f"{head} g (uint8[1, 2, 5, 2] q, uint8 z) => (int32[1, 3, 3, 2] m) <{initial}> "
        f"{{ m = ConvInteger {options} ({inputs}) }}"
    )
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1, 2, 5, 2)).astype(np.float32)
    dy = rng.normal(size=(1, 3, 3, 2)).astype(np.float32)
    result = gradients(model, "x", x=x, dy=dy)
    q, z = np.full(x.shape, 100, np.uint8), np.uint8(90)
    at = netgrad.run(plain, {"q": q, "z": z})["m"]
    for place in np.ndindex(*q.shape):
        moved = q.copy()
        moved[place] += 1
        slope = netgrad.run(plain, {"q": moved, "z": z})["m"] - at
        np.testing.assert_allclose(result["x_grad"][place], (slope * dy).sum() * 0.01, rtol=1e-4, atol=1e-5)


def test_a_zero_point_for_each_kernel_is_refused() -> None:
    model = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 18]> g (float[1, 2, 5] x) => (float[1, 3, 5] y) '
        "<uint8[3, 2, 1] w = {1, 2, 3, 4, 5, 6}, uint8[3] wz = {1, 2, 3}> {"
        "q, s, z = DynamicQuantizeLinear (x) m = ConvInteger (q, w, z, wz) y = Cast <to = 1> (m) }"
    )
    with pytest.raises(UnsupportedOperatorError, match=r"ConvInteger, node.*'wz' is not a single one"):
        gradients(model, "x")
