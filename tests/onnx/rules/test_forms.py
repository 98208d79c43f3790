"""The form of what elementwise rules write: short where much is known, refused where it is not understood."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from netgrad import run
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.transforms.grad import grad


def _model(
    body: str,
    opset: int = 20,
    initializers: str = "",
    x: str = "float[2, 3] x",
    y: str = "float[N, M] y",
) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": {opset}]> g ({x}) => ({y}) <{initializers}>'
    return onnx.shape_inference.infer_shapes(parser.parse_model(f"{text} {{ {body} }}"))


def _added(body: str, **options: str | int) -> list[str]:
    """Operator types of the gradient's nodes, with the cotangent as an input."""
    result = grad(_model(body, **options), wrt=["x"], of="y", cotangent="input")  # type: ignore[arg-type]
    forward = len(_model(body, **options).graph.node)  # type: ignore[arg-type]
    return [node.op_type for node in result.graph][forward:]


@pytest.mark.parametrize(
    ("body", "types"),
    [
        ("y = Relu(x)", ["HardSigmoid", "Mul"]),
        ("y = LeakyRelu(x)", ["HardSigmoid", "Max", "Mul"]),
        ("y = Elu(x)", ["Min", "Add", "Mul"]),
        ("y = Elu <alpha = 0.5> (x)", ["Min", "HardSigmoid", "Max", "Add", "Mul"]),
        ("y = Softplus(x)", ["Sigmoid", "Mul"]),
        ("y = Exp(x)", ["Mul"]),
        ("y = Identity(x)", ["Identity"]),
        ("y = Dropout(x)", ["Identity"]),
        ("y = Clip(x)", ["Identity"]),
        ("y = Clip(x, low)", ["Equal", "Cast", "Mul"]),
        ("y = Max(x, low)", ["Equal", "Cast", "Mul"]),
        ("y = Where(c, x, low)", ["Cast", "Mul"]),
        ("y = Pow(x, two)", ["Add", "Mul"]),
        ("y = Mul(x, two)", ["Mul"]),
        ("y = Div(x, two)", ["Div"]),
        ("y = Add(x, two)", ["Identity"]),
    ],
)
def test_the_short_form(body: str, types: list[str]) -> None:
    initializers = "float low = {0.5}, float two = {2.0}, bool[3] c = {1, 0, 1}"
    assert sorted(_added(body, initializers=initializers)) == sorted(types)


def test_the_step_of_relu_is_constant_for_a_second_derivative() -> None:
    """The mask of Relu is no function to differentiate: y = 2 relu(x)^2 has the second derivative 4."""
    model = _model("r = Relu(x) s = Mul(r, r) y = Mul(s, two)", initializers="float two = {2.0}")
    second = grad(grad(model, wrt=["x"], of="y"), wrt=["x"], of="x_grad")
    assert not {"Less", "And"} & {node.op_type for node in second.graph}
    x = np.array([[-1.0, 0.5, 2.0], [3.0, -0.25, 1e-30]], np.float32)
    got = run(second, {"x": x}, outputs=["x_grad_1"])["x_grad_1"]
    np.testing.assert_array_equal(got, 4.0 * (x > 0))


@pytest.mark.parametrize("kind", ["Relu", "LeakyRelu", "PRelu"])
def test_the_step_is_exact_for_every_normal_number(kind: str) -> None:
    tiny = np.finfo(np.float32).tiny
    x = np.array([[-np.inf, -3e38, -tiny], [tiny, 3e38, 1e-20]], np.float32)
    operands = "x, half" if kind == "PRelu" else "x"
    attribute = " <alpha = 0.5> " if kind == "LeakyRelu" else ""
    model = grad(
        _model(f"y = {kind}{attribute}({operands})", initializers="float half = {0.5}"), wrt=["x"], of="y"
    )
    below = 0.0 if kind == "Relu" else 0.5
    np.testing.assert_array_equal(run(model, {"x": x})["x_grad"], np.where(x > 0, 1, np.float32(below)))


@pytest.mark.parametrize("shape", ["2, 3, 4", "N, M, K"])
def test_a_pad_of_some_axes_passes_the_optimizer(shape: str) -> None:
    """ONNX Runtime moves a Transpose past a Pad, and overlooks the axes of one that has them as an input."""
    body = "s = Slice(x, one, end, one) t = Transpose <perm = [2, 0, 1]> (s) y = Mul(t, t)"
    model = _model(
        body,
        initializers="int64[1] one = {1}, int64[1] end = {9}",
        x=f"float[{shape}] x",
        y="float[A, B, C] y",
    )
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    want = 2 * x
    want[:, 0] = 0
    backward = grad(model, wrt=["x"], of="y")
    np.testing.assert_allclose(run(backward, {"x": x})["x_grad"], want, rtol=1e-6)
    assert all(len(node.inputs) < 4 for node in backward.graph if node.op_type == "Pad")


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ('y = Gelu <approximate = "cubic"> (x)', ["Gelu", "cubic"]),
        (
            'y = Resize <keep_aspect_ratio_policy = "widest"> (x, , , sizes)',
            ["Resize", "keep_aspect_ratio_policy"],
        ),
    ],
)
def test_what_is_not_understood_is_refused(body: str, names: list[str]) -> None:
    with pytest.raises(UnsupportedOperatorError) as caught:
        grad(_model(body, initializers="int64[2] sizes = {4, 5}"), wrt=["x"], of="y")
    for name in names:
        assert name in str(caught.value)


@pytest.mark.parametrize("kind", ["RoiAlign", "MaxRoiPool"])
def test_images_of_unknown_rank_have_four_dims(kind: str) -> None:
    """The regions' bins of Y are the whole derivative: of a mean or a maximum of X it is 1 in all."""
    align = kind == "RoiAlign"
    attributes = {"output_height": 2, "output_width": 2} if align else {"pooled_shape": [2, 2]}
    node = helper.make_node(kind, ["x", "rois", "batch"][: 3 if align else 2], ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, None),
        helper.make_tensor_value_info("rois", TensorProto.FLOAT, [1, 4 if align else 5]),
    ]
    feeds = {
        "x": np.random.default_rng(0).normal(size=(1, 2, 6, 6)).astype(np.float32),
        "rois": np.array([[0.5, 0.6, 4.2, 4.7]] if align else [[0, 0, 0, 4, 4]], np.float32),
    }
    if align:
        inputs.append(helper.make_tensor_value_info("batch", TensorProto.INT64, [1]))
        feeds["batch"] = np.array([0])
    graph = helper.make_graph(
        [node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    found = run(grad(model, wrt=["x"]), feeds)["x_grad"]
    np.testing.assert_allclose(found.sum(axis=(0, 2, 3)), [4, 4], rtol=1e-6)
