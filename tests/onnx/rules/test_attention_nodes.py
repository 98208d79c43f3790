"""The onnx package's own node tests of what transformers are made of, by every floating-point input.

Each gradient runs on ONNX Runtime in float64 and agrees, along random directions, with central differences of
the standard's reference evaluator; the same with every dim symbolic.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import onnx_ir as ir
import pytest

from netgrad.onnx.view import FLOATING
from netgrad.runtime.float64 import to_float64
from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import on_reference, runner

_FAMILIES = {
    "attention": "Attention",
    "causal_conv_with_state": "CausalConvWithState",
    "rotaryembedding": "RotaryEmbedding",
    "swiglu": "SwiGLU",
    "tensorscatter": "TensorScatter",
}
_IN_FLOAT32 = ("CausalConvWithState", "RotaryEmbedding")
"""Operators that compute in float32 at most, and that are nearly linear: a wide step does no harm."""

_DIRECTIONS = 2

Arrays = Mapping[str, np.ndarray]


def _cases() -> dict[str, Any]:
    for family in _FAMILIES:
        importlib.import_module(f"onnx.backend.test.case.node.{family}")
    types = set(_FAMILIES.values())
    return {
        case.name: case
        for case in node_cases._NodeTestCases
        if len(case.model.graph.node) == 1 and case.model.graph.node[0].op_type in types
    }


_CASES = _cases()


def _floats(values: Any) -> list[str]:
    return [value.name for value in values if value.dtype in FLOATING]


def _with_symbols(model: ir.Model) -> None:
    """Give every dim a name of its own; the standard defines CausalConvWithState for known kernels only."""
    for value in [*model.graph.inputs, *model.graph.outputs]:
        assert value.shape is not None
        if value.name == "weight":
            continue
        value.shape = ir.Shape([f"{value.name}_{axis}" for axis in range(value.shape.rank())])


@pytest.mark.parametrize("name", sorted(_CASES))
def test_node_model(name: str) -> None:
    case = _CASES[name]
    ((arrays, _),) = case.data_sets
    model = to_float64(case.model)
    narrow = case.model.graph.node[0].op_type in _IN_FLOAT32
    step, tolerance = (1e-2, 3e-4) if narrow else (1e-4, 1e-5)
    wrt, of = _floats(model.graph.inputs), _floats(model.graph.outputs)
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    point = {
        value.name: rng.normal(size=array.shape) if value.name in wrt and _finite(array) else _wide(array)
        for value, array in zip(model.graph.inputs, arrays, strict=True)
    }
    wrt = [k for k in wrt if np.isfinite(point[k]).all()]
    forward = on_reference(ir.to_proto(model))
    outputs = forward(point)
    # Scores after the mask may be -inf, which nothing can be a derivative of.
    cotangents = {k: rng.normal(size=outputs[k].shape) * np.isfinite(outputs[k]) for k in of}
    found = _gradients(model, wrt, cotangents, point)
    symbolic = model.clone()
    _with_symbols(symbolic)
    for k, gradient in _gradients(symbolic, wrt, cotangents, point).items():
        np.testing.assert_allclose(gradient, found[k], rtol=tolerance / 10, atol=tolerance / 10)

    def objective(at: Arrays) -> float:
        results = forward(dict(at))
        return float(
            sum(
                (results[k][cotangent != 0] * cotangent[cotangent != 0]).sum()
                for k, cotangent in cotangents.items()
            )
        )

    for k in wrt:
        for _ in range(_DIRECTIONS):
            direction = rng.normal(size=point[k].shape)
            high, low = ({**point, k: point[k] + sign * step * direction} for sign in (1, -1))
            want = (objective(high) - objective(low)) / (2 * step)
            got = float((found[k] * direction).sum())
            scale = max(1.0, float(np.linalg.norm(found[k])))
            assert abs(got - want) <= tolerance * scale, f"by {k}: {got} instead of {want}"


def _finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array.astype(np.float64)).all())


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def _gradients(model: ir.Model, wrt: list[str], cotangents: Arrays, point: Arrays) -> Arrays:
    gradient = differentiate(model, wrt=wrt, of=list(cotangents), cotangent="input")
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    seeds = {gradient.seeds[k]: cotangent for k, cotangent in cotangents.items()}
    needed = {value.name for value in proto.graph.input}
    results = runner(proto)({k: v for k, v in {**point, **seeds}.items() if k in needed})
    return {k: results[gradient.outputs[k]] for k in wrt}
