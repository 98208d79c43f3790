"""The row of the gradient table, and everything that is done with a row.

A row says what is special about one use of an operator; `test_gradients` does the rest to every row, unasked.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from netgrad.runtime.reference_operators import OPERATORS
from netgrad.transforms.grad import Gradient, differentiate

Arrays = dict[str, np.ndarray]

# Relative and absolute, by the type in which the gradient ran. A rule wrong by 0.1 % fails in either.
TOLERANCE = {"float64": 1e-6, "float32": 3e-4}

# ---- inputs ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """An input of a row: how it is drawn, and how the model gets it."""

    draw: Callable[[np.random.Generator], np.ndarray]
    fed: bool = True  # a graph input; otherwise an initializer


def _rounded(array: np.ndarray) -> np.ndarray:
    """Short decimals: a failure can be read and recomputed by hand."""
    return np.asarray(np.round(array, 3), dtype=np.float64)


def normal(*shape: int) -> Tensor:
    return Tensor(lambda rng: _rounded(rng.normal(size=shape)))


def uniform(low: float, high: float, *shape: int) -> Tensor:
    return Tensor(lambda rng: _rounded(rng.uniform(low, high, size=shape)))


def positive(*shape: int) -> Tensor:
    return uniform(0.3, 2.5, *shape)


def away_from_zero(*shape: int) -> Tensor:
    """Either sign, at least 0.3 from 0: for poles and kinks there."""
    return Tensor(
        lambda rng: _rounded(rng.choice([-1.0, 1.0], size=shape) * rng.uniform(0.3, 2.0, size=shape))
    )


def distinct(*shape: int) -> Tensor:
    """Values at least 0.1 apart, in random order: no ties, and none within a difference step."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        count = int(np.prod(shape))
        return _rounded((rng.permutation(count) - count / 2 + 0.4) * 0.137).reshape(shape)

    return Tensor(draw)


def exactly(values: Any, *, fed: bool = True) -> Tensor:
    """A given float64 array as a graph input, or as an initializer."""
    return Tensor(lambda rng: np.asarray(values, dtype=np.float64), fed)


def constant(values: Any, dtype: Any = np.int64) -> Tensor:
    """An initializer that is not differentiated: axes, indices, pads."""
    return Tensor(lambda rng: np.asarray(values, dtype=dtype), fed=False)


def run_time(values: Any, dtype: Any = np.int64) -> Tensor:
    """The same as a graph input: the rule sees no content."""
    return Tensor(lambda rng: np.asarray(values, dtype=dtype), fed=True)


# ---- the row -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One use of an operator.

    Attributes:
        type: Operator type.
        inputs: Its inputs; None for one that is left out.
        attributes: Its attributes.
        note: What the row is there for; part of its name.
        outputs: Number of outputs, or their names with "" for one that is left out.
        of: Positions of the outputs that are differentiated; by default all floating-point ones.
        wrt: Positions of the inputs to differentiate; by default all floating-point ones that are fed.
        opset: Version of the default domain.
        domain: Operator domain.
        forward: An independent forward, arrays in and arrays out, where no runtime is right in float64.
        gradient_dtype: "float32" where the gradient's operators exist in no float64 evaluator.
        second_order: False, with the reason in `note`, where the derivative has none.
        expected: For points where no difference exists (kinks, ties): the gradient of each input, by the
            documented convention, for a cotangent of ones.
        symbolic: False, with the reason in a comment, where the forward model itself needs static dims.
        fan_out: False where feeding one value to both inputs leaves the operator's domain.
    """

    type: str
    inputs: Sequence[Tensor | None]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    outputs: int | Sequence[str] = 1
    of: Sequence[int] | None = None
    wrt: Sequence[int] | None = None
    opset: int = 18
    domain: str = ""
    forward: Callable[..., Any] | None = None
    gradient_dtype: str = "float64"
    second_order: bool = True
    expected: Sequence[Any] | None = None
    symbolic: bool = True
    fan_out: bool = True

    @property
    def id(self) -> str:
        attributes = "-".join(f"{k}={v}" for k, v in self.attributes.items())
        shapes = ",".join(
            "_" if t is None else "x".join(map(str, self.arrays()[k].shape)) or "0d"
            for k, t in enumerate(self.inputs)
        )
        return "-".join(part for part in [self.type, shapes, attributes, self.note.replace(" ", "_")] if part)

    def arrays(self) -> list[Any]:
        seed = zlib.crc32(
            f"{self.type}{sorted(self.attributes.items())}{self.note}{len(self.inputs)}".encode()
        )
        rng = np.random.default_rng(seed)
        return [None if tensor is None else tensor.draw(rng) for tensor in self.inputs]

    @property
    def output_names(self) -> list[str]:
        if isinstance(self.outputs, int):
            return [f"y{k}" for k in range(self.outputs)]
        return list(self.outputs)

    @property
    def wrt_positions(self) -> list[int]:
        if self.wrt is not None:
            return list(self.wrt)
        return [
            k
            for k, (tensor, array) in enumerate(zip(self.inputs, self.arrays(), strict=True))
            if tensor is not None and tensor.fed and array.dtype == np.float64
        ]


# ---- models ------------------------------------------------------------------------------------------

_CHOSEN = {np.dtype(np.float64): TensorProto.DOUBLE, np.dtype(np.float32): TensorProto.FLOAT}


def build(
    case: Case, *, symbolic: bool = False, dtype: str = "float64", shared: bool = False
) -> onnx.ModelProto:
    """The row's model: inputs `x0`, `x1`, ..., outputs `y0`, ...

    Args:
        case: The row.
        symbolic: Every dim of every graph input is a symbol of its own.
        dtype: Element type in place of float64.
        shared: Input 1 is input 0 again.
    """
    inputs, initializers, names = [], [], []
    for k, (tensor, array) in enumerate(zip(case.inputs, case.arrays(), strict=True)):
        if tensor is None:
            names.append("")
            continue
        if shared and k == 1:
            names.append("x0")
            continue
        name = f"x{k}"
        names.append(name)
        if array.dtype == np.float64:
            array = array.astype(dtype)
        if tensor.fed:
            dims = [f"{name}_{axis}" for axis in range(array.ndim)] if symbolic else list(array.shape)
            element = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(name, element, dims))
        else:
            initializers.append(numpy_helper.from_array(array, name))
    while names and not names[-1]:
        names.pop()
    attributes = dict(case.attributes)
    if case.type == "Cast" and attributes.get("to") == TensorProto.DOUBLE and dtype == "float32":
        attributes["to"] = TensorProto.FLOAT
    node = helper.make_node(
        case.type, names, case.output_names, name="node", domain=case.domain, **attributes
    )
    opsets = [helper.make_opsetid("", case.opset)]
    if case.domain:
        opsets.append(helper.make_opsetid(case.domain, 1))
    outputs = [onnx.ValueInfoProto(name=name) for name in case.output_names if name]
    graph = helper.make_graph([node], "row", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    model = onnx.shape_inference.infer_shapes(model, data_prop=True, strict_mode=False)
    return _with_ranks(model, feeds(case, dtype, shared))


def _with_ranks(model: onnx.ModelProto, point: Arrays) -> onnx.ModelProto:
    """The model with element type and rank of each output: inference does not know all of them."""
    unknown = [output for output in model.graph.output if not output.type.tensor_type.HasField("shape")]
    if not unknown:
        return model
    untyped = any(not output.type.tensor_type.elem_type for output in unknown)
    found = (on_reference if untyped else runner)(model)(point)
    for output in unknown:
        array, declared = found[output.name], output.type.tensor_type
        declared.elem_type = helper.np_dtype_to_tensor_dtype(array.dtype)
        declared.shape.SetInParent()
        for axis in range(array.ndim):
            declared.shape.dim.add().dim_param = f"{output.name}_{axis}"
    return model


def feeds(case: Case, dtype: str = "float64", shared: bool = False) -> Arrays:
    """The row's graph inputs."""
    result: Arrays = {}
    for k, (tensor, array) in enumerate(zip(case.inputs, case.arrays(), strict=True)):
        if tensor is not None and tensor.fed and not (shared and k == 1):
            result[f"x{k}"] = array.astype(dtype) if array.dtype == np.float64 else array
    return result


# ---- running -----------------------------------------------------------------------------------------

Runner = Callable[[Arrays], Arrays]

# What ONNX Runtime says where it lacks a kernel; LRN's takes odd windows only.
_ABSENT_KERNELS = ("NOT_IMPLEMENTED", "size_ % 2 == 1 was false")


def on_onnxruntime(model: onnx.ModelProto) -> Runner | None:
    """A runner, or None where ONNX Runtime lacks a kernel for an element type."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        if any(sign in str(error) for sign in _ABSENT_KERNELS):
            return None
        raise
    names = [output.name for output in session.get_outputs()]
    return lambda arrays: dict(zip(names, session.run(None, arrays), strict=True))


def on_reference(model: onnx.ModelProto) -> Runner:
    """A runner on the standard's reference evaluator."""
    evaluator = ReferenceEvaluator(model, new_ops=list(OPERATORS))
    names = [output.name for output in model.graph.output]
    return lambda arrays: dict(zip(names, map(np.asarray, evaluator.run(None, arrays)), strict=True))


def runner(model: onnx.ModelProto) -> Runner:
    """ONNX Runtime where it has the kernels, else the reference evaluator."""
    return on_onnxruntime(model) or on_reference(model)


def forward_runner(case: Case, model: onnx.ModelProto) -> Runner:
    """The row's independent forward, in float64."""
    if case.forward is None:
        return runner(model)
    arrays = case.arrays()

    def run(given: Arrays) -> Arrays:
        operands = [None if array is None else given.get(f"x{k}", array) for k, array in enumerate(arrays)]
        results = case.forward(*operands)  # type: ignore[misc]
        results = results if isinstance(results, tuple) else (results,)
        names = [name for name in case.output_names if name]
        return dict(zip(names, map(np.asarray, results), strict=True))

    return run


# ---- differences -------------------------------------------------------------------------------------


def central_differences(run: Runner, point: Arrays, cotangents: Arrays, names: Sequence[str]) -> Arrays:
    """Gradient of sum(output * cotangent) by central differences with Richardson's extrapolation."""

    def objective(arrays: Arrays) -> float:
        outputs = run(arrays)
        return float(sum((np.asarray(outputs[name], np.float64) * c).sum() for name, c in cotangents.items()))

    def difference(name: str, index: tuple[int, ...], step: float) -> float:
        low, high = point[name].copy(), point[name].copy()
        high[index] += step
        low[index] -= step
        return (objective({**point, name: high}) - objective({**point, name: low})) / (
            high[index] - low[index]
        )

    result: Arrays = {}
    for name in names:
        gradient = np.zeros_like(point[name])
        step = 2e-3
        for index in np.ndindex(*gradient.shape):
            coarse, fine = difference(name, index, step), difference(name, index, step / 2)
            gradient[index] = (4 * fine - coarse) / 3
        result[name] = gradient
    return result


def random_cotangents(case: Case, outputs: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
    """Short random decimals of each output's shape."""
    rng = np.random.default_rng(zlib.crc32(case.type.encode()) + 1)
    return {name: _rounded(rng.normal(size=outputs[name].shape)) for name in names}


def targets(case: Case, outputs: Mapping[str, np.ndarray]) -> list[str]:
    """Names of the outputs that the row differentiates."""
    if case.of is not None:
        return [case.output_names[k] for k in case.of]
    return [name for name in case.output_names if name and outputs[name].dtype.kind == "f"]


def gradient_model(model: onnx.ModelProto, wrt: Sequence[str], of: Sequence[str], **options: Any) -> Gradient:
    """The gradient model with its cotangents as inputs."""
    return differentiate(model, wrt=wrt, of=of, cotangent="input", **options)


def run_gradient(gradient: Gradient, point: Arrays, cotangents: Arrays, dtype: str) -> Arrays:
    """Run a gradient model; the gradients by the names in wrt."""
    proto = ir.to_proto(gradient.model)
    assert isinstance(proto, onnx.ModelProto)
    try:
        onnx.checker.check_model(proto, full_check=True)
    except onnx.checker.ValidationError as error:
        # GroupNormalization of opsets 18 to 20 is: models have it, and ONNX Runtime runs it.
        if "is deprecated in domain_version" not in str(error):
            raise
    run = runner(proto)
    given = {gradient.seeds[name]: cotangent.astype(dtype) for name, cotangent in cotangents.items()}
    needed = {value.name for value in proto.graph.input}
    outputs = run({name: array for name, array in {**point, **given}.items() if name in needed})
    return {name: outputs[output] for name, output in gradient.outputs.items()}


def disagreement(want: np.ndarray, got: np.ndarray, tolerance: float) -> str:
    """ "" where the two agree, else a line saying where they do not."""
    if got.shape != want.shape:
        return f"shape {got.shape} instead of {want.shape}"
    if not got.size:
        return ""
    scale = np.maximum(1.0, np.abs(want))
    error = np.abs(got.astype(np.float64) - want) / scale
    error = np.where(np.isfinite(got.astype(np.float64)), error, np.inf)
    worst = np.unravel_index(int(np.argmax(error)), error.shape)
    if error[worst] <= tolerance:
        return ""
    return f"element {tuple(map(int, worst))}: {got[worst]} instead of {want[worst]}"
