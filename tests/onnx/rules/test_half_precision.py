"""float16 on ONNX Runtime, where sums, counts and reciprocals leave the range of the type.

Each gradient is compared with the same gradient in float32, from the same numbers, which float16 holds
exactly. (That one is compared with differences elsewhere.) What is left is the rounding of float16: of the
forward pass, and of the result.
"""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import Case, Tensor, build, constant, feeds, on_onnxruntime

# Relative to the largest element of a gradient: about eight roundings of float16.
TOLERANCE = 4e-3

MANY = 70_000  # more than 65504, the largest float16


def _half(tensor: Tensor) -> Tensor:
    """The same numbers, rounded to float16."""
    return Tensor(lambda rng: tensor.draw(rng).astype(np.float16).astype(np.float64), tensor.fed)


def _normal(*shape: int, around: float = 0.0, deviation: float = 1.0) -> Tensor:
    return _half(Tensor(lambda rng: rng.normal(around, deviation, size=shape)))


def _vector(size: int) -> Tensor:
    return _half(Tensor(lambda rng: rng.uniform(0.5, 2.0, size=size)))


CASES = [
    Case("ReduceMean", [_normal(2, MANY)], {"keepdims": 0}, note="many"),
    Case("ReduceMean", [_normal(2, MANY), constant([1])], note="many in a row"),
    Case("ReduceMax", [_half(Tensor(lambda rng: np.ones((1, MANY))))], note="many ties"),
    Case("ReduceMin", [_normal(3, 50), constant([-1])], {"keepdims": 0}),
    Case("ReduceL2", [_normal(3, 50), constant([1])]),
    Case("ReduceLogSumExp", [_normal(3, 50, deviation=2.0), constant([1])]),
    Case("ReduceLogSumExp", [_normal(3, 50, around=1000.0), constant([1])], note="large scores"),
    Case("ReduceLogSum", [_half(Tensor(lambda rng: rng.uniform(1.0, 3.0, size=(1, MANY))))], note="many"),
    Case("LpPool", [_normal(1, 2, 8, deviation=400.0)], {"kernel_shape": [2], "p": 3}),
    Case("GlobalLpPool", [_normal(1, 2, 8, deviation=400.0)], {"p": 3}),
    Case("Softmax", [_normal(3, 50)]),
    Case("LogSoftmax", [_normal(3, 50, deviation=20.0)]),
    # 4096 elements of size 16: the sum of their squares is a million.
    Case("LayerNormalization", [_normal(2, 4096, around=16.0), _vector(4096), _vector(4096)]),
    Case("RMSNormalization", [_normal(2, 4096, around=16.0), _vector(4096)], opset=23),
    Case("InstanceNormalization", [_normal(2, 3, 64, 64, around=16.0), _vector(3), _vector(3)]),
    Case(
        "GroupNormalization",
        [_normal(2, 4, 32, 64, around=16.0), _vector(4), _vector(4)],
        {"num_groups": 2},
        opset=21,
    ),
    Case("BatchNormalization", [_normal(8, 3, 32, 32), *(_vector(3) for _ in range(4))]),
    Case(
        "BatchNormalization",
        [_normal(8, 3, 32, 32, around=16.0), *(_vector(3) for _ in range(4))],
        {"training_mode": 1},
        outputs=3,
        of=[0],
        wrt=[0, 1, 2],
    ),
    Case("LpNormalization", [_normal(3, 4096)]),
    Case("LRN", [_normal(2, 6, 4, 4)], {"size": 3, "alpha": 0.5}),
    Case("SoftmaxCrossEntropyLoss", [_normal(6, 50), constant([3, 1, 0, 49, 8, 8])]),
    Case("NegativeLogLikelihoodLoss", [_normal(6, 50), constant([3, 1, 0, 49, 8, 8])], {"ignore_index": 8}),
]


def _gradients(case: Case, dtype: str) -> dict[str, np.ndarray]:
    """The gradients of the sum of the outputs times a fixed wave of cotangents."""
    model, point = build(case, dtype=dtype), feeds(case, dtype)
    run = on_onnxruntime(model)
    assert run is not None
    outputs = run(point)
    of = [case.output_names[k] for k in case.of or [0]]
    gradient = differentiate(model, wrt=[f"x{k}" for k in case.wrt_positions], of=of, cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=False)
    waves = {
        gradient.seeds[name]: np.cos(np.arange(outputs[name].size) * 1.3).reshape(outputs[name].shape)
        for name in of
    }
    given = {**point, **{name: wave.astype(np.float16).astype(dtype) for name, wave in waves.items()}}
    backward = on_onnxruntime(proto)
    assert backward is not None
    results = backward({value.name: given[value.name] for value in proto.graph.input})
    return {name: results[output] for name, output in gradient.outputs.items()}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_float16_agrees_with_float32(case: Case) -> None:
    want, got = _gradients(case, "float32"), _gradients(case, "float16")
    for name, expected in want.items():
        assert got[name].dtype == np.float16
        scale = np.abs(expected).max()
        assert scale > 0
        error = np.abs(got[name].astype(np.float64) - expected).max() / scale
        assert error < TOLERANCE, f"{name}: {error:.1e}"


def test_batch_normalization_with_float32_statistics_of_a_float16_batch() -> None:
    """X, scale and the statistics may have types of their own; each gradient has its primal's."""
    text = """<ir_version: 9, opset_import: ["": 18]>
        g (float16[4, 3] x, float[3] s, float[3] b, float[3] m, float[3] v) => (float16[4, 3] y)
        { y = BatchNormalization(x, s, b, m, v) }"""
    gradient = differentiate(onnx.parser.parse_model(text), wrt=list("xsbmv"), cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    run = on_onnxruntime(proto)
    assert run is not None
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=(4, 3)).astype(np.float16) for _ in range(2))
    scale, bias, mean, var = (rng.uniform(0.5, 2, 3).astype(np.float32) for _ in range(4))
    got = run({"x": x, "s": scale, "b": bias, "m": mean, "v": var, "y_grad": dy})
    deviation = np.sqrt(var + 1e-5)
    dscale = (dy.astype(np.float64) * (x - mean) / deviation).sum(0)
    want = {
        "x": dy * scale / deviation,
        "s": dscale,
        "b": dy.astype(np.float64).sum(0),
        "m": -(dy.astype(np.float64) * scale / deviation).sum(0),
        "v": -dscale * scale / (2 * (var + 1e-5)),
    }
    for name, expected in want.items():
        result = got[gradient.outputs[name]]
        assert result.dtype == (np.float16 if name == "x" else np.float32)
        np.testing.assert_allclose(result, expected, rtol=TOLERANCE, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("operator", ["ReduceMean", "ReduceLogSum", "ReduceSum"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_gradient_of_an_empty_tensor_is_empty(operator: str, dtype: str) -> None:
    """The sum over no element is there; what it is spread over is not."""
    case = Case(operator, [Tensor(lambda rng: np.zeros((2, 0, 3))), constant([1])], {"keepdims": 0})
    (got,) = _gradients(case, dtype).values()
    assert (got.shape, got.dtype) == ((2, 0, 3), np.dtype(dtype))
