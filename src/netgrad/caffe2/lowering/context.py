"""What a lowering sees of the operator that it writes in ONNX."""

from __future__ import annotations

from typing import Any, TypeVar

import onnx_ir as ir

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import OperatorDef, TensorProto
from netgrad.core import UnsupportedOperatorError
from netgrad.core.errors import MissingRule
from netgrad.onnx.builder import Builder, Value

_T = TypeVar("_T", int, float, str, bool)

ELEMENT_TYPES: dict[int, ir.DataType] = {
    TensorProto.FLOAT: ir.DataType.FLOAT,
    TensorProto.INT32: ir.DataType.INT32,
    TensorProto.BYTE: ir.DataType.UINT8,
    TensorProto.STRING: ir.DataType.STRING,
    TensorProto.BOOL: ir.DataType.BOOL,
    TensorProto.UINT8: ir.DataType.UINT8,
    TensorProto.INT8: ir.DataType.INT8,
    TensorProto.UINT16: ir.DataType.UINT16,
    TensorProto.INT16: ir.DataType.INT16,
    TensorProto.INT64: ir.DataType.INT64,
    TensorProto.FLOAT16: ir.DataType.FLOAT16,
    TensorProto.DOUBLE: ir.DataType.DOUBLE,
}
"""Caffe2's element types in ONNX."""


class StaticShapeNeededError(Exception):
    """A lowering needs dims that are unknown before the net runs; the net is lowered again with all dims."""


class Context:
    """One operator that is being lowered.

    Attributes:
        definition: The operator.
        b: The builder that it is written with.
    """

    def __init__(self, definition: OperatorDef, builder: Builder) -> None:
        self.definition = definition
        self.b = builder
        self._arguments = {argument.name: value_of(argument) for argument in definition.arg}

    @property
    def outputs(self) -> int:
        """How many outputs the operator has."""
        return len(self.definition.output)

    def has(self, name: str) -> bool:
        """Whether an argument is given."""
        return name in self._arguments

    def argument(self, name: str, default: _T) -> _T:
        """The value of an argument, which must be of the kind of ``default``.

        Raises:
            UnsupportedOperatorError: It is of another kind.
        """
        if name not in self._arguments:
            return default
        value = self._arguments[name]
        if isinstance(default, bool):
            value = bool(value) if isinstance(value, int) else value
        elif isinstance(default, str) and isinstance(value, bytes):
            value = value.decode()
        if type(value) is not type(default):
            raise self.refused(f"argument '{name}' is {value!r}, and {type(default).__name__} is needed")
        found: _T = value
        return found

    def numbers(self, name: str) -> tuple[Any, ...]:
        """The values of a repeated argument; empty if it isn't given.

        Raises:
            UnsupportedOperatorError: It is a single value, which the original takes as if it weren't there.
        """
        value = self._arguments.get(name, ())
        if not isinstance(value, tuple):
            kind = "a text" if isinstance(value, bytes) else "a number"
            raise self.refused(f"the argument '{name}' is {kind}, and a list is needed")
        return value

    def integers(self, name: str) -> list[int]:
        """The values of a repeated argument that are whole numbers; empty if it isn't given.

        Raises:
            UnsupportedOperatorError: It is a single value, or lists others.
        """
        values = self.numbers(name)
        if not all(isinstance(value, int) for value in values):
            raise self.refused(f"the argument '{name}' is {list(values)!r}, and a list of integers is needed")
        return list(values)

    def single(self, name: str) -> Any:
        """The value, of any kind, of an argument that is given.

        Raises:
            UnsupportedOperatorError: It is a list.
        """
        value = self._arguments[name]
        if isinstance(value, tuple):
            raise self.refused(f"the argument '{name}' is {list(value)!r}, and a single value is needed")
        return value

    def static(self, x: Value, axis: int) -> int:
        """A dim that must be known.

        Raises:
            StaticShapeNeededError: It is unknown.
        """
        dim = x.dim(axis)
        if not isinstance(dim, int):
            raise StaticShapeNeededError
        return dim

    def static_shape(self, x: Value) -> tuple[int, ...]:
        """A shape that must be known.

        Raises:
            StaticShapeNeededError: A dim is unknown.
        """
        if x.static_shape is None:
            raise StaticShapeNeededError
        return x.static_shape

    def rank(self, x: Value) -> int:
        """The rank of an operand, which is known of every blob."""
        if x.rank is None:
            raise StaticShapeNeededError
        return x.rank

    def same_ranks(self, first: Value, *others: Value) -> None:
        """See that operands which have one shape do not differ in rank, as far as known: none is broadcast.

        Raises:
            UnsupportedOperatorError: They do.
        """
        ranks = [x.rank for x in (first, *others) if x.rank is not None]
        if len(set(ranks)) > 1:
            raise self.refused(f"its inputs need one shape, and they have {ranks} dims")

    def axis(self, x: Value, axis: int) -> int:
        """An axis counted from the front."""
        return axis + self.rank(x) if axis < 0 else axis

    def flattened(self, x: Value, axis: int) -> Value:
        """``x`` as a matrix: dims before ``axis`` become rows, the others columns."""
        if self.rank(x) == 2 and axis == 1:
            return x
        return self.b.op("Flatten", x, axis=axis)

    def refused(self, reason: str) -> UnsupportedOperatorError:
        """The error that says why this form of the operator has no lowering."""
        from netgrad.caffe2.definitions import to_operator

        operator = to_operator(self.definition)
        return UnsupportedOperatorError(
            f"{operator} can't run on ONNX Runtime: {reason}", [MissingRule(operator, 0, reason, ())]
        )


Outputs = "Value | Sequence[Value | None]"
