"""The row of a fused operator, and the checks that every row gets."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from netgrad.transforms.grad import Gradient, differentiate
from tests.onnx.rules.table import Arrays, central_differences, disagreement, on_onnxruntime, runner

MICROSOFT = "com.microsoft"


@dataclass(frozen=True, eq=False)
class Row:
    """One use of a fused operator.

    Attributes:
        type: Operator type.
        inputs: Arrays, floating ones in float64; None for an input that is left out.
        attributes: Its attributes.
        outputs: Names of its outputs, "" for one that is left out.
        domain: Its domain.
        formula: The forward in NumPy, arrays in and arrays out, where ONNX Runtime has no kernel for the CPU.
        wrt: Positions of the inputs to differentiate; by default all floating ones.
        kept: Positions of the inputs whose dims the operator needs to know before it runs.
        note: What the row is there for; part of its name.
    """

    type: str
    inputs: Sequence[np.ndarray | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: Sequence[str] = ("y",)
    domain: str = MICROSOFT
    formula: Callable[..., Any] | None = None
    wrt: Sequence[int] | None = None
    kept: Sequence[int] = ()
    note: str = ""

    @property
    def id(self) -> str:
        shapes = ["_" if array is None else "x".join(map(str, array.shape)) for array in self.inputs]
        options = [f"{key}={value}" for key, value in self.attributes.items()]
        return "-".join(filter(None, [self.type, ",".join(shapes), *options, self.note.replace(" ", "_")]))

    @property
    def of(self) -> list[str]:
        return [name for name in self.outputs if name]

    @property
    def point(self) -> Arrays:
        return {f"x{k}": array for k, array in enumerate(self.inputs) if array is not None}

    @property
    def names(self) -> list[str]:
        """The inputs that are differentiated."""
        if self.wrt is not None:
            return [f"x{k}" for k in self.wrt]
        return [name for name, array in self.point.items() if array.dtype.kind == "f"]


def drawn(*shapes: tuple[int, ...] | None) -> list[np.ndarray | None]:
    """Short random decimals."""
    rng = np.random.default_rng(7)
    return [None if shape is None else np.round(rng.normal(size=shape), 3) for shape in shapes]


def single(array: np.ndarray) -> np.ndarray:
    """The array in float32, if it is floating."""
    return array.astype(np.float32) if array.dtype.kind == "f" else array


def fused_model(
    row: Row, dtype: type, *, symbolic: bool = False, results: Arrays | None = None
) -> onnx.ModelProto:
    """The row's model: inputs x0, x1, ... and its outputs, with the ranks that ``results`` have."""
    names = ["" if array is None else f"x{k}" for k, array in enumerate(row.inputs)]
    inputs = []
    for k, array in enumerate(row.inputs):
        if array is None:
            continue
        element = np.dtype(dtype) if array.dtype.kind == "f" else array.dtype
        dims: list[int | str] = list(array.shape)
        if symbolic and k not in row.kept:
            dims = [f"x{k}_{axis}" for axis in range(array.ndim)]
        inputs.append(helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(element), dims))
    node = helper.make_node(
        row.type, names, list(row.outputs), name="node", domain=row.domain, **row.attributes
    )
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    given = []
    for name in row.of:
        named = None if results is None else [f"{name}_{axis}" for axis in range(results[name].ndim)]
        given.append(helper.make_tensor_value_info(name, kind, named))
    graph = helper.make_graph([node], "row", inputs, given)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def forward(row: Row) -> Arrays:
    """What the operator gives, by ONNX Runtime's kernel or by the row's formula."""
    if row.formula is not None:
        results = row.formula(*row.inputs)
        results = results if isinstance(results, tuple) else (results,)
        return dict(zip(row.of, map(np.asarray, results), strict=True))
    kernel = on_onnxruntime(fused_model(row, np.float32))
    assert kernel is not None, f"ONNX Runtime has no kernel for {row.type}: the row needs a formula"
    return kernel({name: single(array) for name, array in row.point.items()})


def check_row(row: Row, *, symbolic: bool) -> None:
    """The definition against the kernel in float32, its gradient against differences in float64."""
    want = forward(row)
    model = fused_model(row, np.float32, symbolic=symbolic, results=want)
    first = differentiate(model, wrt=row.names, of=row.of, cotangent="input")
    proto = ir.to_proto(first.model)
    onnx.checker.check_model(proto, full_check=True)
    seeds = {first.seeds[name]: np.ones(want[name].shape, np.float32) for name in row.of}
    got = runner(proto)({**{name: single(array) for name, array in row.point.items()}, **seeds})
    for name in row.of:
        np.testing.assert_allclose(got[name], want[name], rtol=2e-5, atol=2e-6)

    cotangents = _cotangents(row, want)
    differences = _differences(row)
    gradient = _gradient(row, want, symbolic=symbolic)
    given = {gradient.seeds[name]: array for name, array in cotangents.items()}
    found = runner(ir.to_proto(gradient.model))({**row.point, **given})
    for name in row.names:
        assert np.any(differences[name]), f"{row.type}: no difference by {name}, the row could not fail"
        wrong = disagreement(differences[name], found[gradient.outputs[name]], 1e-6)
        assert not wrong, f"{row.type}, gradient of input {name}: {wrong}"


def _cotangents(row: Row, results: Arrays) -> Arrays:
    rng = np.random.default_rng(zlib.crc32(row.type.encode()))
    return {name: np.round(rng.normal(size=results[name].shape), 3) for name in row.of}


def _gradient(row: Row, results: Arrays, *, symbolic: bool) -> Gradient:
    """The gradient model in float64."""
    model = fused_model(row, np.float64, symbolic=symbolic, results=results)
    return differentiate(model, wrt=row.names, of=row.of, cotangent="input")


@cache
def _differences(row: Row) -> Arrays:
    """Central differences of the definition in float64."""
    results = forward(row)
    cotangents, gradient = _cotangents(row, results), _gradient(row, results, symbolic=False)
    proto = ir.to_proto(gradient.model)
    kept = [output for output in proto.graph.output if output.name in row.of]
    del proto.graph.output[:]
    proto.graph.output.extend(kept)  # the gradient itself is not computed
    given = {gradient.seeds[name]: array for name, array in cotangents.items()}
    run = runner(proto)
    return central_differences(lambda at: run({**at, **given}), row.point, cotangents, row.names)
