"""The first row of every operator once more in float16 and in bfloat16.

The gradient of the half model and the gradient of that pass the checker, and the first agrees with the
float64 gradient (float32 where that is what has kernels) at the same point, which the half type holds
exactly. ONNX Runtime runs float16, the standard's reference evaluator bfloat16, for which ONNX Runtime has no
kernels on the CPU.
"""

from __future__ import annotations

import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest

from netgrad.onnx.infer import schema_of
from tests.onnx.rules.table import (
    Arrays,
    Case,
    Runner,
    Tensor,
    build,
    feeds,
    gradient_model,
    on_onnxruntime,
    on_reference,
    random_cotangents,
    run_gradient,
    runner,
    targets,
)
from tests.onnx.rules.test_gradients import ROWS

HALVES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}

# Of the largest element of a gradient: eight roundings, of the forward pass, in the rule, and of the result.
ROUNDINGS = 4

# Versions that admit the half types to more operators: many at 22, TopK at 24, Celu and Range at 27.
OPSETS = (22, 24, 28)

# What keeps the evaluator from running a bfloat16 gradient.
EVALUATOR_CANNOT = {
    "AffineGrid": "the evaluator computes it in float32",
    "CumProd": "the evaluator's Pad refuses negative pads",
    "Det": "the evaluator computes it in float64",
    "LayerNormalization": "the evaluator gives the mean in the type of X",
    "LinearAttention": "the evaluator's Scan runs forwards only",
    "LpNormalization": "the evaluator's norm for p = 1 is a sum without absolute values",
    "MaxRoiPool": "the evaluator does not have it",
    "ReduceProd": "the evaluator's Pad refuses negative pads",
    "ScatterElements": "the evaluator wants indices of the size of X",
}


def _first_rows() -> list[Case]:
    rows: dict[tuple[str, str], Case] = {}
    for row in ROWS:
        schema = schema_of(row.type, row.opset, row.domain)
        empty = any(array is not None and not array.size for array in row.arrays())
        if row.expected is None and not empty and not (schema and schema.deprecated):
            rows.setdefault((row.domain, row.type), row)
    return list(rows.values())


def _rounded(tensor: Tensor | None, dtype: np.dtype) -> Tensor | None:
    """The same numbers as far as ``dtype`` holds them."""
    if tensor is None:
        return None

    def draw(rng: np.random.Generator) -> np.ndarray:
        array = tensor.draw(rng)
        return array.astype(dtype).astype(np.float64) if array.dtype == np.float64 else array

    return Tensor(draw, tensor.fed)


def _formed(row: Case, half: str) -> tuple[Case, onnx.ModelProto] | None:
    """The row at the first opset at which its operator takes the half type, and its model there."""
    dtype = HALVES[half]
    case = replace(row, inputs=[_rounded(tensor, dtype) for tensor in row.inputs])
    for opset in (row.opset, *(opset for opset in OPSETS if opset > row.opset)):
        case = replace(case, opset=opset)
        try:
            model = build(case, dtype=dtype)
            onnx.checker.check_model(model, full_check=True)
        except onnx.shape_inference.InferenceError as error:
            if not re.search("has unsupported type|has inconsistent type", str(error)):
                raise
        else:
            return case, model
    return None


def _runner(model: onnx.ModelProto, half: str) -> Runner:
    found = on_onnxruntime(model) if half == "float16" else None
    return found or on_reference(model)


def _exact(case: Case, half: str) -> tuple[list[str], list[str], Arrays, Arrays]:
    """What is differentiated by what, cotangents that the half type holds, and the gradients."""
    dtype = case.gradient_dtype
    model, point = build(case, dtype=dtype), feeds(case, dtype)
    outputs = runner(model)(point)
    of, wrt = targets(case, outputs), [f"x{k}" for k in case.wrt_positions]
    cotangents = {
        name: cotangent.astype(HALVES[half]).astype(np.float64)
        for name, cotangent in random_cotangents(case, outputs, of).items()
    }
    return of, wrt, cotangents, run_gradient(gradient_model(model, wrt, of), point, cotangents, dtype)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("row", _first_rows(), ids=lambda row: f"{row.domain}{row.type}")
def test_the_gradient_of_a_half_model_is_that_of_float64(row: Case, half: str) -> None:
    formed = _formed(row, half)
    if formed is None:
        pytest.skip(f"the standard has no {half} form that passes the checker: {row.type}")
    case, model = formed
    of, wrt, cotangents, want = _exact(replace(case, opset=row.opset), half)
    gradient = gradient_model(model, wrt, of)
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    if row.second_order:
        again = [*wrt, *gradient.seeds.values()]
        second = gradient_model(gradient.model, again, [gradient.outputs[name] for name in wrt])
        onnx.checker.check_model(ir.to_proto(second.model), full_check=True)

    point = feeds(case, HALVES[half])  # type: ignore[arg-type]
    given = {**point, **{gradient.seeds[name]: cotangent for name, cotangent in cotangents.items()}}
    types = {
        i.name: onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type) for i in proto.graph.input
    }
    if half == "bfloat16" and row.type in EVALUATOR_CANNOT:
        pytest.skip(f"not run: {EVALUATOR_CANNOT[row.type]}")
    results = _runner(proto, half)({name: given[name].astype(dtype) for name, dtype in types.items()})

    roundings = ROUNDINGS * float(ml_dtypes.finfo(HALVES[half]).eps)
    for name, expected in want.items():
        got = results[gradient.outputs[name]]
        assert got.dtype == point[name].dtype
        assert got.shape == expected.shape
        error = np.abs(got.astype(np.float64) - expected).max()
        assert error <= roundings * (np.abs(expected).max() or 1.0), f"{name}: {error:.1e}"


def test_what_the_evaluator_cannot_do_is_known_of_operators_with_rows() -> None:
    assert set(EVALUATOR_CANNOT) <= {row.type for row in _first_rows()}
