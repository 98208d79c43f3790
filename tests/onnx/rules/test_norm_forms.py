"""Forms of normalisations, reductions and losses: how short they are, and what is refused."""

from __future__ import annotations

import re

import numpy as np
import onnx.parser
import onnx_ir as ir
import pytest

import netgrad
from netgrad.core.errors import UnsupportedOperatorError
from tests.onnx.rules.table import central_differences, on_onnxruntime

CHANNELS = "float[N, 3, h, w] x, float[3] s, float[3] b, float[3] m, float[3] v"


def _model(inputs: str, node: str, opset: int = 18) -> onnx.ModelProto:
    text = f'<ir_version: 9, opset_import: ["": {opset}]> g ({inputs}) => (y) {{ {node} }}'
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))


@pytest.mark.parametrize(
    ("inputs", "node", "wrt", "most"),
    [
        (CHANNELS, "y = BatchNormalization(x, s, b, m, v)", "x s b", 5),
        (CHANNELS, "y = BatchNormalization(x, s, b, m, v)", "x", 1),
        ("float[N, 8] x", "y = Softmax(x)", "x", 4),
        ("float[N, 8] x", "y = LogSoftmax<axis = 0>(x)", "x", 4),
        ("float[N, 8] x, float[8] s, float[8] b", "y = LayerNormalization(x, s, b)", "x s b", 14),
        ("float[6, 8] x, int64[6] t", "y = SoftmaxCrossEntropyLoss(x, t)", "x", 5),
        ("float[N, 8] x", "y = ReduceSum<keepdims = 1>(x)", "x", 2),
        ("float[N, 8] x", "y = ReduceSumSquare<keepdims = 0>(x)", "x", 2),
        ("float[N, 8] x", "y = ReduceLogSumExp<keepdims = 0>(x)", "x", 5),
        ("float[N, 8] x", "y = ReduceMax<keepdims = 0>(x)", "x", 5),
    ],
)
def test_the_backward_pass_is_short(inputs: str, node: str, wrt: str, most: int) -> None:
    """Operators of the backward pass; in zoo models there is a normalisation behind every convolution."""
    gradient = netgrad.grad(_model(inputs, node), wrt=wrt.split(), of="y", cotangent="input")
    written = [node.op_type for node in gradient.graph][1:]
    assert len(written) <= most, written


def test_mean_variance_normalization_has_default_axes() -> None:
    """Apart from the table, since the checker of onnx refuses a node without its axes."""
    model = _model("float[2, 3, 2, 2] x", "y = MeanVarianceNormalization(x)")
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", 1, (2, 3, 2, 2)))
    rng = np.random.default_rng(0)
    x, dy = rng.normal(size=(2, 3, 2, 2)), rng.normal(size=(2, 3, 2, 2))
    run = on_onnxruntime(ir.to_proto(netgrad.grad(model, wrt="x", cotangent="input")))
    assert run is not None
    got = run({"x": x.astype(np.float32), "y_grad": dy.astype(np.float32)})["x_grad"]

    def forward(given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        x = given["x"]
        axes = (0, 2, 3)
        return {"y": (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)}

    want = central_differences(forward, {"x": x}, {"y": dy}, ["x"])["x"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("y = ReduceProd(x, shape)", "the rank of 'x' is unknown"),
        ("y = LpNormalization<p = 3>(x)", "p is 3"),
    ],
)
def test_what_is_not_understood_is_refused(node: str, message: str) -> None:
    model = _model("float[n] u, int64[k] shape, float[4] s", f"x = Reshape(u, shape) {node}")
    with pytest.raises(UnsupportedOperatorError, match=re.escape(message)):
        netgrad.grad(model, wrt="u", of="y")


@pytest.mark.parametrize("loss", ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"])
def test_an_unknown_reduction_is_refused(loss: str) -> None:
    model = _model("float[6, 8] x, int64[6] t", f'y = {loss}<reduction = "median">(x, t)')
    with pytest.raises(UnsupportedOperatorError, match="reduction is 'median'"):
        netgrad.grad(model, wrt="x", of="y")


_FED = {"u": 24, "s": 4, "c": 3, "p": 3, "w": (3, 4), "m": (4, 2), "mm": (2, 1, 5, 3), "v": 3, "u2": (2, 4)}
"""Float inputs of the model below and their shapes."""


def _opset(node: str) -> int:
    return 23 if "RMS" in node else 20 if "along" in node else 18


@pytest.mark.parametrize(
    "node",
    [
        "Softmax<axis = 1>(x)",
        "LogSoftmax(x)",
        "ReduceMean(x)",
        "ReduceMax<keepdims = 0>(x, a)",
        "ReduceL2(x, a)",
        "ReduceSum<keepdims = 0>(x, a)",
        "ReduceLogSumExp(x)",
        "LayerNormalization(x, s, s)",
        "LayerNormalization<axis = 1>(x, w, s)",
        "RMSNormalization<axis = 1>(x, w)",
        "LpNormalization(x)",
        "BatchNormalization(x, c, c, c, p)",
        "BatchNormalization<training_mode = 1>(x, c, c, c, p)",
        "InstanceNormalization(x, c, c)",
        "GroupNormalization<num_groups = 3>(x, c, c)",
        "GlobalAveragePool(x)",
        "GlobalMaxPool(x)",
        "ReduceProd<keepdims = 0>(x)",
        "ReduceProd<keepdims = 0>(x, k)",
        "ReduceProd(x, kk)",
        "MatMul(x, m)",
        "MatMul(mm, x)",
        "MatMul(x, s)",
        "MatMul(v, x)",
        "MatMul(x, xt)",
        "Gather<axis = 1>(x, i)",
        "Gather<axis = -1>(x, j)",
        "Gather(x, f)",
        "Tile(x, r)",
        "Tile(x, rr)",
        "Compress<axis = 1>(x, t)",
        "Compress<axis = -1>(x, t)",
        "GatherND(x, pairs)",
        "GatherND(x, fed)",
        "GatherND<batch_dims = 1>(x, one)",
        "ScatterND(x, apart, u2)",
        'ScatterND<reduction = "mul">(x, fed, u2)',
        'Resize<mode = "linear">(x, , scales)',
        "DFT<axis = 1>(x3)",
        "DFT<axis = 1, onesided = 1>(x1)",
        "DFT<axis = 1, onesided = 1, inverse = 1>(x3)",
        "DFT(x3, , along)",
        "DequantizeLinear<axis = 1>(q, c)",
    ],
)
def test_an_unknown_rank_is_enough(node: str) -> None:
    """The gradient where nothing is known of x is the one where its shape is known."""
    results = []
    read = {"c"} if "(q" in node else {"u", *re.findall(r"\w+", node.split("(")[1])}
    for shape, flipped, third in (("[]", "[]", "[]"), ("[2, 3, 4]", "[2, 4, 3]", "[2, 6, 2]")):
        text = f"""<ir_version: 10, opset_import: ["": {_opset(node)}]>
            g (float[24] u, int64[axes] shape, int64[axes] turn, float[4] s, int64[1] a, float[3] c,
               float[3] p, float[3,4] w, int64[2,2] j, int64 i, int64[3] rr, float[4,2] m, float[2,1,5,3] mm,
               float[3] v, int64[] fed, float[2,4] u2, int64[axes] three) => (float z)
            <float{shape} x, float{flipped} xt, float{third} x3, int64[1] k = {{-2}}, int64[2] kk = {{0, 2}},
             int64[2,2] pairs = {{1, 0, 1, -1}}, int64[2,1] one = {{2, 0}}, int64[2,2] apart = {{1, 0, 0, 2}},
             float[3] scales = {{1.0, 2.0, 1.5}}, int64[1] minus = {{-1}}, int64 along = {{1}},
             int64[2] f = {{1, 0}}, int64[3] r = {{2, 1, 3}}, bool[3] t = {{1, 0, 1}}> {{
                x = Reshape(u, shape)
                xt = Reshape(u, turn)
                x3 = Reshape(u, three)
                x1 = Unsqueeze(x, minus)
                q = Cast<to = 3>(x)
                y{", mean, var" if "training" in node else ""} = {node}
                y2 = Mul(y, y)
                z = ReduceSum<keepdims = 0>(y2)
            }}"""
        model = onnx.parser.parse_model(text)
        run = on_onnxruntime(
            ir.to_proto(netgrad.grad(model, wrt=[name for name in _FED if name in read], of="z"))
        )
        assert run is not None
        rng = np.random.default_rng(0)
        given = {
            "u": rng.normal(size=24).astype(np.float32),
            "shape": np.array([2, 3, 4]),
            "s": rng.normal(size=4).astype(np.float32),
            "turn": np.array([2, 4, 3]),
            "a": np.array([1]),
            **{name: rng.normal(size=dims).astype(np.float32) for name, dims in _FED.items()},
            "p": rng.uniform(0.5, 2.0, size=3).astype(np.float32),
            "j": np.array([[0, 3], [-1, 0]]),
            "i": np.array(-2),
            "rr": np.array([1, 3, 2]),
            "fed": np.array([[1, 0], [1, -3]]),
            "three": np.array([2, 6, 2]),
        }
        results.append(run(given))
    unused = {"p_grad"} if "training" in node else set()  # the variance that is not read then
    assert all(np.abs(value).max() > 0 for name, value in results[0].items() if name not in unused)
    for name, expected in results[1].items():
        np.testing.assert_allclose(results[0][name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
