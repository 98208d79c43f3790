"""Forms of the gradients of convolutions and pools that the table's small rows do not reach."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules import conv, conv_weight
from netgrad.onnx.rules.windows import Windows
from netgrad.onnx.view import TensorInfo
from netgrad.transforms.emit import Emitter, live
from netgrad.transforms.grad import differentiate
from tests.onnx.rules.cases.conv import CONV, TRANSPOSED
from tests.onnx.rules.cases.pool import CASES as POOLS
from tests.onnx.rules.table import (
    TOLERANCE,
    Case,
    build,
    central_differences,
    disagreement,
    feeds,
    gradient_model,
    normal,
    on_reference,
    random_cotangents,
    run_gradient,
    runner,
    targets,
)

# ---- every form of a convolution's gradients ---------------------------------------------------------

Form = Callable[[Builder, Value, Value, Value], Value]


def _run(form: Form, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    """What the form makes of x, dy and w, on ONNX Runtime in float32."""
    builder, dtype = Builder(18, "form"), ir.DataType.FLOAT
    result = form(builder, *(builder.value(n, TensorInfo(dtype, a.shape)) for n, a in arrays.items()))
    inputs = {
        n: ir.Value(name=n, type=ir.TensorType(dtype), shape=ir.Shape(a.shape)) for n, a in arrays.items()
    }
    graph = ir.Graph(list(inputs.values()), [], nodes=[], name="form", opset_imports={"": 18})
    emitter = Emitter(graph, inputs)
    for index in live(builder.operators, [result.name]):
        emitter.emit(builder.operators[index], None)
    output = emitter.values[result.name]
    output.type = ir.TensorType(dtype)
    graph.outputs.append(output)
    proto = ir.to_proto(ir.Model(graph, ir_version=10))
    given = {name: array.astype(np.float32) for name, array in arrays.items()}
    return next(iter(runner(proto)(given).values()))


def _by_definition(
    x: np.ndarray, dy: np.ndarray, w: np.ndarray, windows: Windows, group: int
) -> tuple[np.ndarray, np.ndarray]:
    """dW and dX, element by element of the kernel."""
    padded = np.pad(x, [(0, 0), (0, 0), *zip(windows.head, windows.tail, strict=True)])
    dw, spread = np.zeros_like(w), np.zeros_like(padded)
    m, c = w.shape[0] // group, w.shape[1]
    for k in itertools.product(*map(range, w.shape[2:])):
        places = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s)
            for i, d, n, s in zip(k, windows.dilations, dy.shape[2:], windows.strides, strict=True)
        )
        for g in range(group):
            out, into = slice(g * m, (g + 1) * m), (slice(None), slice(g * c, (g + 1) * c), *places)
            dw[(out, slice(None), *k)] = np.einsum("nmhw,nchw->mc", dy[:, out], padded[into])
            spread[into] += np.einsum("nm...,mc->nc...", dy[:, out], w[(out, slice(None), *k)])
    inner = tuple(slice(h, h + n) for h, n in zip(windows.head, x.shape[2:], strict=True))
    return dw, spread[(slice(None), slice(None), *inner)]


class Geometry(NamedTuple):
    batch: int
    channels: int
    outputs: int
    group: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilations: tuple[int, int]
    pads: tuple[int, int, int, int]

    def __str__(self) -> str:
        return "-".join(str(value).replace(" ", "") for value in self)

    @property
    def windows(self) -> Windows:
        return Windows(self.kernel, self.strides, self.dilations, self.pads[:2], self.pads[2:])

    def arrays(self) -> dict[str, np.ndarray]:
        size, w = (8, 7), self.windows
        axes = zip(size, w.head, w.tail, self.kernel, self.dilations, self.strides, strict=True)
        out = [(n + h + t - (k - 1) * d - 1) // s + 1 for n, h, t, k, d, s in axes]
        rng = np.random.default_rng(7)
        return {
            "x": rng.normal(size=(self.batch, self.channels, *size)),
            "dy": rng.normal(size=(self.batch, self.outputs, *out)),
            "w": rng.normal(size=(self.outputs, self.channels // self.group, *self.kernel)),
        }


GEOMETRIES = [
    Geometry(3, 4, 5, 1, (3, 2), (1, 1), (1, 1), (0, 0, 0, 0)),
    Geometry(2, 4, 6, 2, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Geometry(1, 4, 6, 2, (3, 3), (2, 1), (1, 1), (1, 1, 1, 1)),
    Geometry(2, 3, 5, 1, (3, 2), (2, 3), (1, 2), (1, 0, 2, 1)),
    Geometry(2, 3, 6, 3, (2, 3), (1, 2), (2, 1), (0, 1, 1, 0)),
    Geometry(1, 17, 2, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Geometry(2, 18, 3, 1, (3, 3), (1, 1), (2, 1), (2, 1, 2, 1)),
    Geometry(3, 5, 4, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
    # Weights and maps of the size at which the chosen forms change.
    Geometry(8, 20, 3, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    Geometry(2, 60, 50, 1, (1, 1), (1, 1), (1, 1), (0, 0, 0, 0)),
]
ONE_GROUP = [geometry for geometry in GEOMETRIES if geometry.group == 1]
WEIGHT_FORMS = [
    *itertools.product(["weight_gradient", "patches", "deep"], GEOMETRIES),
    *itertools.product(["swapped"], ONE_GROUP),
    *itertools.product(["depthwise"], [g for g in GEOMETRIES if g.group == g.channels]),
]
DATA_FORMS = [
    *itertools.product(["data_gradient", "transposed"], GEOMETRIES),
    *itertools.product(["flipped"], [g for g in ONE_GROUP if g.strides == (1, 1)]),
]


@pytest.mark.parametrize(("form", "geometry"), WEIGHT_FORMS, ids=str)
def test_every_form_of_the_weight_gradient_is_the_sum_of_its_definition(
    form: str, geometry: Geometry
) -> None:
    arrays, write = geometry.arrays(), getattr(conv_weight, form)
    more = [] if form == "swapped" else [geometry.group]
    got = _run(lambda b, x, dy, w: write(b, x, dy, w, geometry.windows, *more), arrays)
    want, _ = _by_definition(**arrays, windows=geometry.windows, group=geometry.group)
    assert not disagreement(want, got, TOLERANCE["float32"])


@pytest.mark.parametrize(("form", "geometry"), DATA_FORMS, ids=str)
def test_every_form_of_the_data_gradient_is_the_sum_of_its_definition(form: str, geometry: Geometry) -> None:
    arrays, write = geometry.arrays(), getattr(conv, form)
    more = [] if form == "flipped" else [geometry.group]
    got = _run(lambda b, x, dy, w: write(b, dy, w, x, geometry.windows, *more), arrays)
    _, want = _by_definition(**arrays, windows=geometry.windows, group=geometry.group)
    assert not disagreement(want, got, TOLERANCE["float32"])


def test_patches_keep_infinity_in_its_channel() -> None:
    """The one-hot form mixes elements of a window, never channels."""
    geometry = Geometry(2, 3, 4, 1, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1))
    arrays = geometry.arrays()
    arrays["x"][0, 1, 4, 3] = np.inf
    got = _run(lambda b, x, dy, w: conv_weight.patches(b, x, dy, w, geometry.windows, 1), arrays)
    assert np.isfinite(got[:, [0, 2]]).all()
    assert not np.isfinite(got[:, 1]).any()


# ---- a batch known only when the model runs ----------------------------------------------------------


def _with_free_batch(model: onnx.ModelProto) -> onnx.ModelProto:
    free = onnx.ModelProto.FromString(model.SerializeToString())
    free.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    del free.graph.value_info[:]
    for output in free.graph.output:
        output.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(free, data_prop=True)


@pytest.mark.parametrize(
    "case",
    [row for row in (*CONV, *TRANSPOSED, *POOLS) if row.expected is None and row.type != "MaxUnpool"],
    ids=lambda row: row.id,
)
def test_gradient_with_a_symbolic_batch_is_the_same(case: Case) -> None:
    """Maps and kernels of known size: the rules take other forms than with every dim unknown."""
    point, model = feeds(case, "float32"), build(case, dtype="float32")
    outputs = runner(model)(point)
    of, wrt = targets(case, outputs), [f"x{k}" for k in case.wrt_positions]
    cotangents = random_cotangents(case, outputs, of)
    want = run_gradient(gradient_model(model, wrt, of), point, cotangents, "float32")
    got = run_gradient(gradient_model(_with_free_batch(model), wrt, of), point, cotangents, "float32")
    for name, expected in want.items():
        wrong = disagreement(expected.astype(np.float64), got[name], TOLERANCE["float32"])
        assert not wrong, f"gradient of {name}: {wrong}"


@pytest.mark.parametrize(
    "case",
    [
        Case("Conv", [normal(2, 3, 5, 4), normal(2, 3, 3, 2)], {"strides": [2, 1], "pads": [1, 0, 0, 1]}),
        Case("Conv", [normal(2, 4, 4, 3), normal(4, 2, 2, 2)], {"group": 2}),
        Case("Conv", [normal(1, 20, 5, 4), normal(2, 20, 3, 3)], {"pads": [1, 1, 1, 1]}),
        Case("Conv", [normal(2, 3, 4, 4), normal(4, 3, 1, 1)], {"strides": [2, 1]}),
        Case("ConvTranspose", [normal(1, 2, 3, 2), normal(2, 3, 3, 2)], {"strides": [2, 2]}),
        Case(
            "AveragePool", [normal(1, 2, 5, 6)], {"kernel_shape": [2, 3], "strides": [2, 2], "ceil_mode": 1}
        ),
    ],
    ids=lambda row: row.id,
)
def test_second_order_in_float32_on_onnx_runtime_is_that_in_float64(case: Case) -> None:
    """The table checks it against differences in float64, where the evaluator runs the convolutions."""
    results = []
    for dtype in ("float64", "float32"):
        model, point = build(case, dtype=dtype), feeds(case, dtype)
        outputs, wrt = runner(model)(point), [f"x{k}" for k in case.wrt_positions]
        first = gradient_model(model, wrt, ["y0"])
        seed = random_cotangents(case, outputs, ["y0"])["y0"].astype(dtype)
        point[first.seeds["y0"]] = seed
        gradients = [first.outputs[name] for name in wrt]
        cotangents = random_cotangents(
            case, {g: point[n] for g, n in zip(gradients, wrt, strict=True)}, gradients
        )
        again = [*wrt[1:], first.seeds["y0"]]
        results.append(run_gradient(gradient_model(first.model, again, gradients), point, cotangents, dtype))
    for name, want in results[0].items():
        assert np.any(want)
        assert not disagreement(want, results[1][name], TOLERANCE["float32"]), name


# ---- forms that only the standard allows -------------------------------------------------------------


@pytest.mark.parametrize(
    "attributes",
    [
        {"strides": [2], "dilations": [3], "output_padding": [2]},
        {"strides": [2], "output_shape": [8]},
        {"strides": [2], "output_shape": [9], "output_padding": [1]},
    ],
    ids=str,
)
def test_transposed_convolutions_that_no_window_fills(attributes: dict[str, list[int]]) -> None:
    """More output than windows reach; ONNX Runtime refuses these, so the evaluator runs both passes."""
    case = Case("ConvTranspose", [normal(2, 2, 3), normal(2, 3, 2), normal(3)], attributes)
    model, point = build(case), feeds(case)
    run = on_reference(model)
    cotangents = random_cotangents(case, run(point), ["y0"])
    want = central_differences(run, point, cotangents, ["x0", "x1", "x2"])
    got = run_gradient(gradient_model(model, ["x0", "x1", "x2"], ["y0"]), point, cotangents, "float64")
    for name, expected in want.items():
        assert not disagreement(expected, got[name], TOLERANCE["float64"]), name


# ---- pools -------------------------------------------------------------------------------------------


def _pool(shape: tuple[int, ...], **attributes: object) -> onnx.ModelProto:
    return build(Case("MaxPool", [normal(*shape)], attributes), dtype="float32")


def test_max_pool_that_tiles_its_input_differentiates_twice_in_float32() -> None:
    """The gradient is linear in the cotangent, so its gradient by it is what it picks: X at the maxima."""
    model = _pool((2, 2, 4, 6), kernel_shape=[2, 3], strides=[2, 3])
    first = gradient_model(model, ["x0"], ["y0"])
    assert any(node.op_type == "MaxUnpool" for node in first.model.graph)
    second = gradient_model(first.model, [first.seeds["y0"]], [first.outputs["x0"]])
    x = np.random.default_rng(1).permutation(96).reshape(2, 2, 4, 6).astype(np.float32)
    v = np.random.default_rng(2).normal(size=x.shape)
    dy = np.ones((2, 2, 2, 2), np.float32)
    point = {"x0": x, first.seeds["y0"]: dy}
    got = run_gradient(second, point, {first.outputs["x0"]: v}, "float32")
    blocks = [a.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 2, 4, 3, 5).reshape(2, 2, 2, 2, 6) for a in (x, v)]
    want = np.take_along_axis(blocks[1], blocks[0].argmax(axis=-1)[..., None], axis=-1)[..., 0]
    assert not disagreement(want, got[first.seeds["y0"]], TOLERANCE["float32"])


def test_max_pool_of_minus_infinity_keeps_the_cotangent_in_its_window() -> None:
    model = _pool((1, 1, 1, 6), kernel_shape=[1, 3], strides=[1, 2], pads=[0, 1, 0, 0])
    x = np.array([-np.inf, -np.inf, -np.inf, -np.inf, -np.inf, 2], np.float32).reshape(1, 1, 1, 6)
    dy = np.array([1.0, 2.0, 4.0]).reshape(1, 1, 1, 3)
    got = run_gradient(gradient_model(model, ["x0"], ["y0"]), {"x0": x}, {"y0": dy}, "float32")["x0"].ravel()
    assert got.sum() == 7
    assert got[5] == 4


# ---- size --------------------------------------------------------------------------------------------


def _generated(case: Case, wrt: list[str]) -> list[str]:
    model = build(case, dtype="float32")
    result = differentiate(model, wrt=wrt)
    return [node.op_type for node in result.model.graph if "/grad/" in (node.name or "")]


def test_a_convolution_costs_few_operators() -> None:
    """For one image of known size: one for dX, one for dB, four for dW."""
    attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    case = Case("Conv", [normal(1, 20, 9, 8), normal(3, 20, 3, 3), normal(3)], attributes)
    assert _generated(case, ["x0"]) == ["ConvTranspose"]
    assert _generated(case, ["x2"]) == ["ReduceSum"]
    assert len(_generated(case, ["x1"])) <= 4


def test_a_convolution_of_stride_1_with_free_sizes_needs_no_shapes() -> None:
    case = Case("Conv", [normal(1, 2, 5, 5), normal(3, 2, 3, 3)], {"pads": [1, 1, 1, 1]})
    result = differentiate(build(case, symbolic=True, dtype="float32"), wrt=["x0"])
    assert [node.op_type for node in result.model.graph if "/grad/" in (node.name or "")] == ["ConvTranspose"]


# ---- refusals ----------------------------------------------------------------------------------------


def _refused(op_type: str, *shapes: tuple[int, ...], **attributes: object) -> str:
    inputs = [helper.make_tensor_value_info(f"x{k}", 1, s) for k, s in enumerate(shapes)]
    names = [value.name for value in inputs]
    node = helper.make_node(op_type, names, ["y"], name="layer", **attributes)
    output = helper.make_tensor_value_info("y", 1, None)
    graph = helper.make_graph([node], "refused", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(UnsupportedOperatorError) as error:
        differentiate(model, wrt=["x0"])
    return str(error.value)


def test_what_is_not_understood_is_refused_by_name() -> None:
    assert "negative" in _refused("Conv", (1, 2, 5), (3, 2, 2), pads=[-1, 0])
    assert "auto_pad" in _refused("Conv", (1, 2, 5), (3, 2, 2), auto_pad="SAME")
    message = _refused("ConvTranspose", (1, 2, 5), (2, 3, 2), pads=[0, -1])
    assert "layer" in message
    assert "ConvTranspose" in message
