"""The node builder: arithmetic on values writes ONNX operators.

A gradient rule is written with it, so that the rule reads like its formula. Every value knows as much of
its element type, shape and content as can be known before the model runs; with static shapes the short
form of an operation is written, otherwise the form that asks for the shape at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

from netgrad.core.operator import Operator
from netgrad.onnx.attributes import attributes_key
from netgrad.onnx.half import HALF, can_fill, detour, working_type
from netgrad.onnx.infer import infer_node, schema_of
from netgrad.onnx.view import FLOATING, Dim, Structure, TensorInfo

Operand: TypeAlias = "Value | float | int | bool"


class Value:
    """A value in the graph being written: nearly always a tensor.

    Attributes:
        name: Blob name.
        dtype: Element type, None where unknown.
        shape: Dims (integers, symbols, None), or None where the rank is unknown.
        constant: The content where it is a known constant, else None.
        structure: Whether it is a tensor, a sequence of tensors, or an optional; of the latter, ``dtype`` and
            ``shape`` are those of the tensors in them.
        shape_owner: Name of the value that is known to have the same shape, whatever it turns out to be.
    """

    __slots__ = ("_builder", "constant", "dtype", "name", "shape", "shape_owner", "structure")

    def __init__(self, builder: Builder, name: str, info: TensorInfo) -> None:
        self._builder = builder
        self.name = name
        self.dtype = info.dtype
        self.shape = info.shape
        self.constant = info.constant
        self.structure = info.structure
        self.shape_owner = name

    @property
    def info(self) -> TensorInfo:
        """Type, shape and content in one record."""
        return TensorInfo(self.dtype, self.shape, self.constant, self.structure)

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor."""
        return self.structure is Structure.TENSOR

    @property
    def rank(self) -> int | None:
        """Number of dims, None where unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a known integer."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    @property
    def static_shape(self) -> tuple[int, ...] | None:
        """The shape where every dim is a known integer, else None."""
        if self.shape is None:
            return None
        dims = tuple(dim for dim in self.shape if isinstance(dim, int))
        return dims if len(dims) == len(self.shape) else None

    @property
    def is_floating(self) -> bool:
        """Whether the element type is one that a gradient can have."""
        return self.dtype in FLOATING

    def dim(self, axis: int) -> Dim:
        """Dim ``axis`` (negative counts from the end), None where unknown."""
        return None if self.shape is None else self.shape[axis]

    def __add__(self, other: Operand) -> Value:
        return self._builder.binary("Add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return self._builder.binary("Add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return self._builder.binary("Sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return self._builder.binary("Sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return self._builder.binary("Mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return self._builder.binary("Mul", other, self)

    def __truediv__(self, other: Operand) -> Value:
        return self._builder.binary("Div", self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return self._builder.binary("Div", other, self)

    def __pow__(self, other: Operand) -> Value:
        return self._builder.binary("Pow", self, other)

    def __matmul__(self, other: Value) -> Value:
        return self._builder.op("MatMul", self, other)

    def __neg__(self) -> Value:
        return self._builder.op("Neg", self)

    def __lt__(self, other: Operand) -> Value:
        return self._builder.binary("Less", self, other)

    def __gt__(self, other: Operand) -> Value:
        return self._builder.binary("Greater", self, other)

    def __le__(self, other: Operand) -> Value:
        return self._builder.binary("LessOrEqual", self, other)

    def __ge__(self, other: Operand) -> Value:
        return self._builder.binary("GreaterOrEqual", self, other)

    def equals(self, other: Operand) -> Value:
        """Elementwise equality, a boolean tensor."""
        return self._builder.binary("Equal", self, other)

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.dtype}, {self.shape})"


class Builder:
    """Writes operators whose names are local to one rule; the backward pass gives the final ones.

    Attributes:
        opset: Version of the default domain that the model uses.
        operators: What was written so far, in order.
        prefix: What the names of all that is written begin with.
    """

    def __init__(self, opset: int, prefix: str) -> None:
        self.opset = opset
        self.operators: list[Operator] = []
        self.prefix = prefix
        self._count = 0
        self._known: dict[Any, tuple[Value, ...]] = {}

    def inner(self) -> Builder:
        """A builder for a graph inside the operator written next; its names differ from those of this one."""
        return Builder(self.opset, f"{self.prefix}/inner_{len(self.operators)}")

    # ---- values -------------------------------------------------------------------------------------

    def value(self, name: str, info: TensorInfo) -> Value:
        """A value that exists already under ``name``."""
        return Value(self, name, info)

    def _fresh(self, kind: str) -> str:
        self._count += 1
        return f"{self.prefix}/{kind}_{self._count}"

    def constant(self, array: Any, dtype: ir.DataType | None = None) -> Value:
        """A constant tensor; ``dtype`` defaults to the array's own."""
        content = np.asarray(array)
        if dtype is not None:
            content = content.astype(dtype.numpy())
        content = np.asarray(content)
        element = ir.DataType.from_numpy(content.dtype)
        key = ("Constant", element, content.shape, content.tobytes())
        if key not in self._known:
            name = self._fresh("const")
            self.operators.append(Operator("Constant", (), (name,), {"value": ir.Tensor(content)}))
            self._known[key] = (self.value(name, TensorInfo(element, tuple(content.shape), content)),)
        return self._known[key][0]

    def ints(self, values: Sequence[int]) -> Value:
        """A constant 1-D int64 tensor: axes, a shape, pads."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def scalar(self, number: float, like: Value) -> Value:
        """A constant 0-d tensor of the element type of ``like``."""
        assert like.dtype is not None, f"the element type of {like.name} is unknown"
        return self.constant(np.asarray(number), like.dtype)

    def as_value(self, operand: Operand, like: Value) -> Value:
        """``operand`` itself if it is a value, else a constant of the element type of ``like``."""
        return operand if isinstance(operand, Value) else self.scalar(operand, like)

    # ---- operators ----------------------------------------------------------------------------------

    def op(self, op_type: str, *inputs: Value | None, domain: str = "", **attributes: Any) -> Value:
        """Write an operator with one output and return that output.

        Args:
            op_type: Type in ``domain``; it must exist at the model's opset.
            inputs: Operands; None for an optional one that is left out.
            domain: Operator domain.
            attributes: Python values or `onnx_ir.Attr`; None means: leave it at its default.
        """
        return self.ops(op_type, *inputs, outputs=1, domain=domain, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: Value | None, outputs: int, domain: str = "", **attributes: Any
    ) -> tuple[Value, ...]:
        """Write an operator with several outputs; the same operator on the same operands is written once.

        Where the operator does not take a half type at the model's opset, it is written in float32, between
        conversions.
        """
        schema = schema_of(op_type, self.opset, domain)
        assert schema is not None or domain, f"there is no operator {op_type} at opset {self.opset}"
        if any(value is not None and value.dtype in HALF for value in inputs):
            dtypes = tuple(None if value is None else value.dtype for value in inputs)
            by_float32 = detour(op_type, domain, self.opset, dtypes, outputs)
            if by_float32 is not None:
                wide = [
                    self.cast(value, ir.DataType.FLOAT) if k in by_float32.inputs and value else value
                    for k, value in enumerate(inputs)
                ]
                results = self.ops(op_type, *wide, outputs=outputs, domain=domain, **attributes)
                return tuple(
                    result if dtype is None else self.cast(result, dtype)
                    for result, dtype in zip(results, by_float32.outputs, strict=True)
                )
        given = {name: value for name, value in attributes.items() if value is not None}
        names = tuple("" if value is None else value.name for value in inputs)
        while names and not names[-1]:
            names = names[:-1]
        key = (op_type, domain, names, outputs, attributes_key(given))
        if key not in self._known:
            infos = infer_node(
                op_type,
                domain,
                self.opset,
                [None if value is None else value.info for value in inputs[: len(names)]],
                given,
                outputs,
            )
            results = tuple(self.value(self._fresh(op_type), info) for info in infos)
            self.operators.append(
                Operator(op_type, names, tuple(result.name for result in results), given, domain)
            )
            self._known[key] = results
        return self._known[key]

    def binary(self, op_type: str, left: Operand, right: Operand) -> Value:
        """A broadcasting operator with two operands, of which one may be a Python number."""
        like = left if isinstance(left, Value) else right
        assert isinstance(like, Value), "one operand is a value"
        return self.op(op_type, self.as_value(left, like), self.as_value(right, like))

    def written(self, op: Operator, infos: Sequence[TensorInfo]) -> tuple[Value, ...]:
        """Write an operator as it is, apart from the names of its outputs, whose types are given.

        For operators that hold graphs, of which inference knows too little.
        """
        results = tuple(self.value(self._fresh(op.type), info) for info in infos)
        names = tuple(result.name for result in results)
        self.operators.append(Operator(op.type, op.inputs, names, op.attributes, op.domain, name=op.name))
        return results

    def types(self) -> dict[str, TensorInfo]:
        """What is known of everything that was written, by name."""
        return {value.name: value.info for values in self._known.values() for value in values}

    def repeated(self, op: Operator, inputs: Sequence[Value | None]) -> tuple[Value, ...]:
        """Write an operator that another builder has written, on operands of this one."""
        if op.type == "Constant" and not op.domain and set(op.attributes) == {"value"}:
            return (self.constant(op.attributes["value"].numpy()),)
        return self.ops(op.type, *inputs, outputs=len(op.outputs), domain=op.domain, **op.attributes)

    def cast(self, x: Value, dtype: ir.DataType) -> Value:
        """``x`` with elements of type ``dtype``; ``x`` itself if it has them already."""
        return x if x.dtype == dtype else self.op("Cast", x, to=int(dtype))

    def where(self, condition: Value, yes: Operand, no: Operand) -> Value:
        """``yes`` where ``condition`` holds, else ``no``; one of the two is a value."""
        like = yes if isinstance(yes, Value) else no
        assert isinstance(like, Value), "one of the two is a value"
        return self.op("Where", condition, self.as_value(yes, like), self.as_value(no, like))

    # ---- shapes -------------------------------------------------------------------------------------

    def shape_of(self, x: Value) -> Value:
        """The shape of ``x``, int64 of shape (rank,): a constant where it is static."""
        static = x.static_shape
        return self.ints(static) if static is not None else self.op("Shape", x)

    def size_along(self, x: Value, axes: Sequence[int]) -> Value:
        """Number of elements of ``x`` along ``axes``, 0-d int64; a constant where it is static."""
        sizes = [x.dim(axis) for axis in axes]
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) == len(sizes):
            return self.constant(np.asarray(np.prod(known, dtype=np.int64)))
        picked = self.op("Gather", self.op("Shape", x), self.ints(list(axes)), axis=0)
        return self.op("ReduceProd", picked, keepdims=0)

    def assume_shape(self, x: Value, shape: tuple[Dim, ...] | None) -> Value:
        """Record that ``x`` has ``shape`` where the standard's inference could not see it."""
        if shape is not None and (x.shape is None or len(x.shape) == len(shape)):
            old = x.shape or (None,) * len(shape)
            x.shape = tuple(
                was if isinstance(was, int) else (new if new is not None else was)
                for was, new in zip(old, shape, strict=True)
            )
        return x

    def assume_like(self, x: Value, like: Value) -> Value:
        """Record that ``x`` has the shape of ``like``, where that follows from the operator's definition."""
        x.shape_owner = like.shape_owner
        return self.assume_shape(x, like.shape)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """``x`` with constant dims ``shape`` (0 keeps a dim, -1 takes the rest)."""
        if x.shape is not None and tuple(shape) == x.shape:
            return x
        if x.constant is not None and 0 not in shape:
            return self.constant(x.constant.reshape(shape))
        return self.op("Reshape", x, self.ints(shape))

    def reshape_like(self, x: Value, like: Value) -> Value:
        """``x`` with the shape of ``like``; ``x`` itself where the two are known to agree."""
        if same_shape(x, like):
            return x
        rest = _with_one_unknown(like)
        if rest is not None:
            return self.assume_like(self.op("Reshape", x, self.ints(rest)), like)
        result = self.op("Reshape", x, self.shape_of(like), allowzero=1 if _may_be_empty(like) else None)
        return self.assume_like(result, like)

    def expand_like(self, x: Value, like: Value) -> Value:
        """``x`` broadcast to the shape of ``like``; ``x`` itself where the two are known to agree."""
        if same_shape(x, like):
            return x
        if x.dtype is not None and 0 in (like.static_shape or ()):
            # ONNX Runtime's optimizer drops an Expand from size 1 to a constant size 0.
            return self.assume_like(self.fill(self.shape_of(like), 0.0, x.dtype), like)
        result = self.op("Expand", x, self.shape_of(like))
        return self.assume_like(result, like)

    def full_like(self, like: Value, number: float) -> Value:
        """A tensor of ``number`` with the shape and element type of ``like``."""
        if like.static_shape == ():
            return self.scalar(number, like)
        assert like.dtype is not None, f"the element type of {like.name} is unknown"
        return self.assume_like(self.fill(self.shape_of(like), number, like.dtype), like)

    def fill(self, shape: Value, number: float, dtype: ir.DataType) -> Value:
        """A tensor of ``number`` with elements of ``dtype``; ``shape`` is 1-D int64."""
        element = dtype if can_fill(dtype, self.opset) else working_type(dtype)
        content = ir.tensor(np.asarray([number]).astype(element.numpy()))
        return self.cast(self.op("ConstantOfShape", shape, value=content), dtype)

    def zeros_like(self, like: Value) -> Value:
        """Zeros with the shape and element type of ``like``."""
        return self.full_like(like, 0.0)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """``x`` with its axes in the order of ``permutation``."""
        if list(permutation) == list(range(len(permutation))):
            return x
        return self.op("Transpose", x, perm=list(permutation))

    def squeeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` without ``axes``, which have size 1."""
        return self.op("Squeeze", x, self.ints(axes)) if axes else x

    def unsqueeze(self, x: Value, axes: Sequence[int]) -> Value:
        """``x`` with new axes of size 1 at the positions ``axes`` of the result."""
        return self.op("Unsqueeze", x, self.ints(axes)) if axes else x

    def slice(self, x: Value, axis: int, start: int | Value, end: int | Value, step: int = 1) -> Value:
        """``x[start:end:step]`` along one axis; bounds are numbers or 1-element int64 tensors."""
        return self.op(
            "Slice",
            x,
            start if isinstance(start, Value) else self.ints([start]),
            end if isinstance(end, Value) else self.ints([end]),
            self.ints([axis]),
            None if step == 1 else self.ints([step]),
        )

    def concat(self, parts: Sequence[Value], axis: int) -> Value:
        """The parts joined along ``axis``; a single part is returned as it is."""
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=axis)

    # ---- reductions ---------------------------------------------------------------------------------

    def reduce(self, op_type: str, x: Value, axes: Sequence[int] | Value, *, keepdims: bool) -> Value:
        """A reduction over constant ``axes`` or a run-time 1-D int64 tensor of them; none: ``x`` itself."""
        if not isinstance(axes, Value):
            if not axes:
                return x
            return self.op(op_type, x, self.ints(axes), keepdims=int(keepdims))
        return self.op(op_type, x, axes, keepdims=int(keepdims), noop_with_empty_axes=1)

    def reduce_sum(self, x: Value, axes: Sequence[int] | Value, *, keepdims: bool = False) -> Value:
        """Sum over ``axes``."""
        return self.reduce("ReduceSum", x, axes, keepdims=keepdims)

    def reduce_mean(self, x: Value, axes: Sequence[int] | Value, *, keepdims: bool = False) -> Value:
        """Mean over ``axes``."""
        return self.reduce("ReduceMean", x, axes, keepdims=keepdims)


def same_shape(x: Value, y: Value) -> bool:
    """Whether the two shapes are known to agree: by definition, or equal integers or symbols dim by dim."""
    if x.shape_owner == y.shape_owner:
        return True
    if x.shape is None or y.shape is None or len(x.shape) != len(y.shape):
        return False
    if not (x.is_tensor and y.is_tensor):
        return False
    return all(a is not None and a == b for a, b in zip(x.shape, y.shape, strict=True))


def _with_one_unknown(x: Value) -> list[int] | None:
    """The shape of ``x`` with -1 for its only unknown dim; None where that would not determine it."""
    if x.shape is None or x.is_static:
        return None
    dims = [dim if isinstance(dim, int) else -1 for dim in x.shape]
    return dims if dims.count(-1) == 1 and 0 not in dims else None


def _may_be_empty(x: Value) -> bool:
    static = x.static_shape
    return static is None or 0 in static
