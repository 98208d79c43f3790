"""Models with graphs inside their operators, or with sequences: what is done with each of a table of them."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import parser

from tests.onnx.rules.table import (
    TOLERANCE,
    Arrays,
    central_differences,
    disagreement,
    gradient_model,
    run_gradient,
    runner,
)

HEAD = '<ir_version: 10, opset_import: ["": 18]> '

_TYPES = (
    *("If", "Loop", "Scan", "SequenceMap", "SequenceConstruct", "SequenceInsert", "SequenceErase"),
    *("SequenceAt", "SplitToSequence", "ConcatFromSequence", "Optional", "OptionalGetElement"),
)


@dataclass(frozen=True)
class Model:
    """A model with subgraphs or sequences.

    Attributes:
        note: What it is there for; its name.
        text: Its graph, in ONNX's text form.
        shapes: Shapes of the inputs that are differentiated; their content is random.
        settings: The other inputs.
        symbolic: False where the model itself needs static dims.
        weights: Initializers to differentiate by as well.
    """

    note: str
    text: str
    shapes: Mapping[str, Sequence[int]]
    settings: Mapping[str, Any] = field(default_factory=dict)
    symbolic: bool = True
    weights: Sequence[str] = ()

    @property
    def types(self) -> set[str]:
        """Those of the operators that this table is there for which the model has."""
        return {name for name in _TYPES if re.search(rf"\b{name}\s*[(<]", self.text)}

    @cached_property
    def point(self) -> Arrays:
        rng = np.random.default_rng(zlib.crc32(self.note.encode()))
        drawn = {name: np.asarray(np.round(rng.normal(size=shape), 2)) for name, shape in self.shapes.items()}
        return {**drawn, **{name: np.asarray(value) for name, value in self.settings.items()}}

    @property
    def wrt(self) -> list[str]:
        return [*self.shapes, *self.weights]

    def build(self, *, symbolic: bool = False, single: bool = False) -> onnx.ModelProto:
        text = HEAD + self.text
        if single:
            text = text.replace("double", "float").replace("= 11>", "= 1>")
        model = parser.parse_model(text)
        if symbolic:
            for value in model.graph.input:
                for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                    dim.dim_param = f"{value.name}_{axis}"
            for value in model.graph.output:
                for axis, dim in enumerate(value.type.tensor_type.shape.dim):
                    dim.dim_param = f"{value.name}_{axis}"
        return model


def _cotangents(outputs: Mapping[str, np.ndarray]) -> Arrays:
    rng = np.random.default_rng(5)
    return {
        name: np.asarray(np.round(rng.normal(size=array.shape), 2))
        for name, array in outputs.items()
        if array.dtype.kind == "f"
    }


def _with_weights_fed(model: Model, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, Arrays]:
    """The model with its weights as inputs, so that differences can move them, and a point of it all."""
    copy, point = onnx.ModelProto(), dict(model.point)
    copy.CopyFrom(proto)
    graphs = [copy.graph, *(a.g for node in copy.graph.node for a in node.attribute if a.HasField("g"))]
    for graph in graphs:
        for tensor in [t for t in graph.initializer if t.name in model.weights]:
            point[tensor.name] = onnx.numpy_helper.to_array(tensor)
            graph.initializer.remove(tensor)
            info = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
            copy.graph.input.append(info)
    return copy, point


def _compare(want: Arrays, got: Arrays, dtype: str) -> None:
    for name, expected in want.items():
        wrong = disagreement(expected, got[name], TOLERANCE[dtype])
        assert not wrong, f"gradient of {name}: {wrong}"


def check_gradient(model: Model) -> None:
    """Against central differences: in float64, with symbolic dims, and in float32."""
    proto = model.build()
    free, point = _with_weights_fed(model, proto)
    run = runner(free)
    cotangents = _cotangents(run(point))
    want = central_differences(run, point, cotangents, model.wrt)
    assert any(np.any(gradient) for gradient in want.values())
    for single, symbolic in [(False, False), (False, True), (True, False)]:
        if symbolic and not model.symbolic:
            continue
        dtype = "float32" if single else "float64"
        built = model.build(symbolic=symbolic, single=single)
        fed = {k: v.astype(dtype) if v.dtype == np.float64 else v for k, v in model.point.items()}
        got = run_gradient(gradient_model(built, model.wrt, list(cotangents)), fed, cotangents, dtype)
        assert all(array.dtype == dtype for array in got.values())
        _compare(want, got, dtype)


def check_second_order(model: Model) -> None:
    """The gradient's gradient against central differences of the gradient."""
    proto = model.build()
    cotangents = _cotangents(runner(proto)(model.point))
    first = gradient_model(proto, model.wrt, list(cotangents))
    gradients = [first.outputs[name] for name in model.wrt]
    run = runner(ir.to_proto(first.model))
    point = {**model.point, **{first.seeds[name]: array for name, array in cotangents.items()}}
    again = [*model.shapes, *first.seeds.values()]
    needed = {value.name for value in first.model.graph.inputs}
    point = {name: array for name, array in point.items() if name in needed}
    seeds = _cotangents({name: run(point)[name] for name in gradients})
    want = central_differences(run, point, seeds, again)
    got = run_gradient(gradient_model(first.model, again, gradients), point, seeds, "float64")
    _compare(want, got, "float64")
