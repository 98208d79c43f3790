"""Many half-precision numbers added up: sums that stop growing in the type itself, and who adds them.

In float16 ones add up to 2048, in bfloat16 to 256; one more is lost in rounding. ONNX Runtime's sums inside
one operator are right, the reference evaluator adds in the type that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper, parser

from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import Runner, on_onnxruntime, on_reference

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

MANY = 4096


def _gradient(
    model: onnx.ModelProto, run: Callable[[onnx.ModelProto], Runner | None], **point: np.ndarray
) -> np.ndarray:
    """The gradient of the sum of y by x."""
    gradient = differentiate(model, wrt=["x"], of=["y"])
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    runner = run(proto)
    assert runner is not None
    needed = [value.name for value in proto.graph.input]
    return runner({name: point[name] for name in needed})[gradient.outputs["x"]]


def _model(text: str, opset: int = 22) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> {text}')


# ---- one operator --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "g (float16[3, 2] x, int64[4096] i) => (float16[4096, 2] y) { y = Gather(x, i) }",
        "g (float16[3, 2] x, int64[4096] i) => (float16[4096, 2] y) "
        "{ c = Constant<value_ints = [4096, 1]>() j = Reshape(i, c) y = GatherND(x, j) }",
        "g (float16[3, 2] x, int64[4096] i) => (float16[4096, 2] y) "
        "{ c = Constant<value_ints = [1, 2]>() a = Constant<value_ints = [1]>() "
        "j = Unsqueeze(i, a) k = Tile(j, c) y = GatherElements(x, k) }",
    ],
    ids=["Gather", "GatherND", "GatherElements"],
)
def test_4096_equal_rows_are_all_counted(text: str) -> None:
    """The indices are found at run time; one row is looked up by all of them."""
    x, i = np.ones((3, 2), np.float16), np.full(MANY, 1)
    got = _gradient(_model(text), on_onnxruntime, x=x, i=i)
    np.testing.assert_array_equal(got, [[0, 0], [MANY, MANY], [0, 0]])


def test_4096_equal_constant_rows_are_all_counted() -> None:
    model = _model("g (float16[3, 2] x) => (float16[4096, 2] y) { y = Gather(x, i) }")
    for places in (np.full(MANY, 1), np.tile([0, 1, 2, 1], MANY // 4)):
        del model.graph.initializer[:]
        model.graph.initializer.append(onnx.numpy_helper.from_array(places, "i"))
        got = _gradient(model, on_onnxruntime, x=np.ones((3, 2), np.float16))
        np.testing.assert_array_equal(got[:, 0], np.bincount(places, minlength=3))


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("g (float16[1] x) => (float16[4096] y) { s = Shape(c) y = Expand(x, s) }", MANY),
        ("g (float16[1] x) => (float16[4096] y) { y = Mul(x, c) }", MANY),
        ("g (float16[1, 1] x) => (float16[1, 4096] y) { y = MatMul(x, r) }", MANY),
        ("g (float16[1, 1, 1] x) => (float16[1, 1, 4096] y) { t = Unsqueeze(r, z) y = Conv(t, x) }", MANY),
        ("g (float16[4096] x) => (float16[4096] y) { y = CumSum(x, z) }", MANY),
    ],
    ids=["Expand", "Mul", "MatMul", "Conv", "CumSum"],
)
def test_onnx_runtime_adds_in_float32_inside_an_operator(text: str, total: float) -> None:
    """So the gradients leave these sums to ReduceSum, MatMul, Conv and CumSum, without conversions."""
    model = _model(text)
    ones = np.ones((1, MANY), np.float16)
    contents = {"c": ones[0], "r": ones, "z": np.array([0] if "Unsqueeze" in text else 0)}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in contents.items()
    )
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    got = _gradient(model, on_onnxruntime, x=np.ones(shape, np.float16))
    assert got.ravel()[0] == total


# ---- fan-out -------------------------------------------------------------------------------------------


def _read_often(slopes: Sequence[float], half: str) -> onnx.ModelProto:
    """y = the sum of c x over so many numbers c; the sweep meets the last one first."""
    element = helper.np_dtype_to_tensor_dtype(HALVES[half])
    nodes, initializers = [], []
    for k, slope in enumerate(slopes):
        initializers.append(onnx.numpy_helper.from_array(np.full((1, 1), slope, HALVES[half]), f"c{k}"))
        nodes.append(helper.make_node("Mul", ["x", f"c{k}"], [f"y{k}"]))
    nodes.append(helper.make_node("Sum", [f"y{k}" for k in range(len(slopes))], ["y"]))
    x, y = (helper.make_tensor_value_info(name, element, [1, 2]) for name in "xy")
    graph = helper.make_graph(nodes, "often", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


@pytest.mark.parametrize("large", [1 << 20, 0], ids=["added at the end", "added as they come"])
@pytest.mark.parametrize(("half", "first"), [("float16", 2048), ("bfloat16", 256)])
def test_a_value_read_by_many_operators(
    half: str, first: int, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of the ones that come behind a large first contribution counts, but for the first few."""
    monkeypatch.setattr("netgrad.core.accumulation.LARGE", large)
    model = _read_often([*[1.0] * 20, first], half)
    got = _gradient(model, on_reference, x=np.ones((1, 2), HALVES[half]))
    assert got.dtype == HALVES[half]
    four_roundings = 2 * float(ml_dtypes.finfo(HALVES[half]).eps)
    np.testing.assert_allclose(got.astype(np.float64), first + 20, rtol=four_roundings)


@pytest.mark.parametrize("half", HALVES)
def test_few_terms_are_added_as_they_are(half: str) -> None:
    gradient = differentiate(_read_often([1.0, 2.0, 3.0, 4.0], half), wrt=["x"], of=["y"])
    assert "Cast" not in {node.op_type for node in gradient.model.graph}


# ---- squares that overflow -----------------------------------------------------------------------------

_LARGE = np.array([-60000.0, -3000, -300, -40, 40, 300, 3000, 60000])

SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "Asinh": lambda x: 1 / np.sqrt(x * x + 1),
    "Acosh": lambda x: 1 / np.sqrt(x * x - 1),
    "Atan": lambda x: 1 / (x * x + 1),
    "Softsign": lambda x: 1 / (1 + np.abs(x)) ** 2,
    "Reciprocal": lambda x: -1 / (x * x),
    'Gelu<approximate = "tanh">': lambda x: (x > 0).astype(np.float64),
    "Gelu": lambda x: (x > 0).astype(np.float64),
}


@pytest.mark.parametrize("operator", SLOPES)
def test_slopes_at_large_float16_numbers(operator: str) -> None:
    """Run in float16 step by step: 256^2 is infinite there."""
    name, _, attributes = operator.partition("<")
    x = np.abs(_LARGE) if operator == "Acosh" else _LARGE
    text = f"g (float16[8] x) => (float16[8] y) {{ y = {name} {'<' + attributes if attributes else ''} (x) }}"
    with np.errstate(over="ignore"):
        got = _gradient(_model(text), on_reference, x=x.astype(np.float16))
    smallest = float(np.finfo(np.float16).smallest_normal)
    np.testing.assert_allclose(
        got.astype(np.float64), SLOPES[operator](x), rtol=4e-3, atol=4e-3 * smallest + 6e-8
    )
