"""The onnx package's own node tests of sequences and optionals, each by every input that is real."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.backend.test.case.node import collect_testcases

from netgrad.onnx.view import FLOATING
from netgrad.runtime.float64 import to_float64
from tests.onnx.rules.table import TOLERANCE, disagreement, gradient_model, runner

_NAMES = re.compile(
    r"test_(sequence_|split_to_sequence_|optional_get_|identity_(sequence|opt)|if_(seq|opt)|loop\d+_seq|"
    r"reversesequence_(time|batch))"
)
_OPSET = 21  # ONNX Runtime has no kernels of the latest one for optionals


@cache
def _models() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = collect_testcases(None)
    return {case.name: case for case in collected if _NAMES.match(case.name)}


def _tensors(value: Any) -> list[np.ndarray]:
    """The tensors of a value: of a sequence all, of an empty optional none."""
    if value is None:
        return []
    return [tensor for item in value for tensor in _tensors(item)] if isinstance(value, list) else [value]


def _like(value: Any, rng: np.random.Generator) -> Any:
    """Random numbers in the structure of ``value``."""
    if isinstance(value, list):
        return [_like(item, rng) for item in value]
    return None if value is None else np.asarray(np.round(rng.normal(size=np.shape(value)), 2))


def _floats(value: ir.Value) -> bool:
    return value.type is not None and value.type.dtype in FLOATING


@pytest.mark.parametrize("name", sorted(_models()))
def test_node_model(name: str) -> None:
    case = _models()[name]
    model = to_float64(case.model)
    model.opset_imports[""] = min(_OPSET, model.opset_imports[""])
    given = dict(zip((v.name for v in model.graph.inputs), case.data_sets[0][0], strict=True))
    rng = np.random.default_rng(0)
    point = {v.name: _like(given[v.name], rng) if _floats(v) else given[v.name] for v in model.graph.inputs}
    wrt = [v.name for v in model.graph.inputs if _floats(v) and _tensors(point[v.name])]
    run = runner(ir.to_proto(model))
    outputs = run(point)
    of = [v.name for v in model.graph.outputs if _floats(v)]
    if not wrt or not of:
        assert name in _NOTHING_REAL, f"{name}: wrt {wrt}, of {of}"
        return
    gradient = gradient_model(model, wrt, of)
    proto = ir.to_proto(gradient.model)
    onnx.checker.check_model(proto, full_check=True)
    seeds = {gradient.seeds[k]: _like(outputs[k], rng) for k in of}
    needed = {value.name for value in proto.graph.input}
    got = runner(proto)({k: v for k, v in {**point, **seeds}.items() if k in needed})

    def objective() -> float:
        found = run(point)
        pairs = [
            pair
            for k in of
            for pair in zip(_tensors(found[k]), _tensors(seeds[gradient.seeds[k]]), strict=True)
        ]
        return float(sum((value * cotangent).sum() for value, cotangent in pairs))

    for k in wrt:
        gradients = _tensors(got[gradient.outputs[k]])
        assert len(gradients) == len(_tensors(point[k]))
        for tensor, found in zip(_tensors(point[k]), gradients, strict=True):
            want = np.zeros(tensor.shape)
            for index in np.ndindex(*tensor.shape):
                middle, ends = tensor[index], []
                for step in (1e-3, -1e-3):
                    tensor[index] = middle + step
                    ends.append(objective())
                tensor[index] = middle
                want[index] = (ends[0] - ends[1]) / 2e-3
            wrong = disagreement(want, found, TOLERANCE["float64"])
            assert not wrong, f"gradient of {k}: {wrong}"


_NOTHING_REAL = {
    "test_loop13_seq",
    *("test_optional_get_element_optional_sequence", "test_optional_get_element_sequence"),
    *("test_sequence_insert_at_back", "test_sequence_insert_at_front"),
    *("test_sequence_map_extract_shapes", "test_sequence_map_extract_shapes_expanded"),
    *("test_if_seq", "test_if_opt"),
}
"""Models whose inputs or outputs are integers, or that take no tensor."""
