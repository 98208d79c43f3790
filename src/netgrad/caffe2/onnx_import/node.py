"""One node of an ONNX model that is being written in Caffe2's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.context import ELEMENT_TYPES
from netgrad.core import Operator, UnsupportedOperatorError
from netgrad.core.errors import MissingRule
from netgrad.onnx.view import TensorInfo

Array = np.ndarray[Any, Any]

NUMBERS: dict[ir.DataType, int] = {dtype: number for number, dtype in reversed(ELEMENT_TYPES.items())}
"""Caffe2's numbers of ONNX's element types."""


_COMPUTED = " is computed, and Caffe2 takes an argument in its place"


def computed_arguments(error: UnsupportedOperatorError) -> list[str]:
    """The blobs that have to be known for an error to go away; none where there are other reasons as well."""
    reasons = [one.reason for one in error.operators]
    if not all(reason.endswith(_COMPUTED) for reason in reasons):
        return []
    return list(dict.fromkeys(reason.removesuffix(_COMPUTED).strip("'") for reason in reasons))


class Target:
    """The net that is being written, and the parameters that it reads.

    Attributes:
        net: The net.
        parameters: The parameters by name.
        types: What is known of each value of the model.
    """

    def __init__(self, net: NetDef, types: dict[str, TensorInfo], taken: set[str]) -> None:
        self.net = net
        self.parameters: dict[str, Array] = {}
        self.types = types
        self._taken = taken

    def inner(self, types: Mapping[str, TensorInfo], name: str) -> Target:
        """A net inside of an operator, which reads the same parameters.

        Args:
            types: What is known of the values inside.
            name: What the net is called.
        """
        found = Target(NetDef(name=self.fresh(name)), {**self.types, **types}, self._taken)
        found.parameters = self.parameters
        return found

    def write(self, type_: str, inputs: Sequence[str], output: str, **arguments: Any) -> str:
        """Write an operator that belongs to no node; give its output."""
        definition = OperatorDef(type=type_, name="", input=inputs, output=[output])
        for name, value in arguments.items():
            definition.arg.append(make_argument(name, value))
        self.net.op.append(definition)
        return output

    def fresh(self, wish: str) -> str:
        """A name that nothing has."""
        name, number = wish, 1
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name


class Node:
    """A node that is being written.

    Attributes:
        op: The node.
        opset: The version of its operator set.
        inputs: The blobs that it reads; empty where one is left out.
        outputs: The blobs that it writes; those that nobody reads have names as well.
        target: The net that is being written.
    """

    def __init__(self, op: Operator, opset: int, target: Target, unread: frozenset[str]) -> None:
        self.op = op
        self.opset = opset
        self.inputs = op.inputs
        self.target = target
        self._unread = unread
        self.outputs = tuple(name or self.fresh("unread") for name in op.outputs)

    # ---- what the node says --------------------------------------------------------------------------

    def has(self, at: int) -> bool:
        """Whether an input is given."""
        return at < len(self.inputs) and bool(self.inputs[at])

    def reads_output(self, at: int) -> bool:
        """Whether somebody reads an output."""
        return (
            at < len(self.op.outputs) and bool(self.op.outputs[at]) and self.outputs[at] not in self._unread
        )

    def attribute(self, name: str, default: Any) -> Any:
        """The value of an attribute; texts and lists as Python has them."""
        value = self.op.attributes.get(name, default)
        return list(value) if isinstance(value, tuple) else value

    def info(self, at: int) -> TensorInfo:
        """What is known of an input."""
        return self.target.types.get(self.inputs[at], TensorInfo()) if self.has(at) else TensorInfo()

    def rank(self, at: int = 0) -> int:
        """The rank of an input.

        Raises:
            UnsupportedOperatorError: It is unknown.
        """
        shape = self.info(at).shape
        if shape is None:
            raise self.refused(f"the rank of '{self.inputs[at]}' is not known")
        return len(shape)

    def dim(self, at: int, axis: int) -> int:
        """A dim of an input.

        Raises:
            UnsupportedOperatorError: It is unknown.
        """
        shape = self.info(at).shape
        dim = None if shape is None else shape[axis]
        if not isinstance(dim, int):
            raise self.refused(
                f"dim {axis} of '{self.inputs[at]}' is not known, and has to be written into an argument",
                hint="give the inputs shapes without dims that vary",
            )
        return dim

    def dims(self, at: int = 0) -> tuple[int, ...]:
        """The shape of an input; raises as `dim` does."""
        return tuple(self.dim(at, axis) for axis in range(self.rank(at)))

    def axis(self, axis: int, at: int = 0) -> int:
        """An axis of an input, counted from the front."""
        return axis + self.rank(at) if axis < 0 else axis

    def constant(self, at: int) -> Array:
        """The content of an input.

        Raises:
            UnsupportedOperatorError: It is computed.
        """
        found = self.info(at).constant
        if found is None:
            raise self.refused(f"'{self.inputs[at]}'{_COMPUTED}")
        return found

    def numbers(self, at: int) -> list[int]:
        """The whole numbers that an input holds; raises as `constant` does."""
        return [int(number) for number in self.constant(at).reshape(-1)]

    def axes(self, at: int, size: int | None = None) -> list[int] | None:
        """The axes that an input names, counted from the front, in order; None without one.

        Args:
            at: The input.
            size: The rank that negative ones count from; None for that of input 0.
        """
        if not self.has(at):
            return None
        rank = self.rank() if size is None else size
        return sorted(axis % rank for axis in self.numbers(at))

    def axes_in_order(self, at: int) -> list[int]:
        """The axes that an input names, counted from the front, as they stand."""
        return [axis % self.rank() for axis in self.numbers(at)]

    # ---- writing -------------------------------------------------------------------------------------

    def write(
        self,
        type_: str,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        **arguments: Any,
    ) -> str:
        """Write an operator, on the node's first output and from its first input unless told otherwise.

        Arguments that are None are left out.

        Returns:
            The operator's first output.
        """
        reads = self.inputs[:1] if inputs is None else inputs
        writes = self.outputs[:1] if outputs is None else outputs
        definition = OperatorDef(type=type_, name=self.op.name, input=list(reads), output=list(writes))
        for name, value in arguments.items():
            if value is not None:
                definition.arg.append(make_argument(name, value))
        self.target.net.op.append(definition)
        return str(writes[0])

    def inner(self, types: Mapping[str, TensorInfo], wish: str) -> Target:
        """What a net inside of the operator is written to."""
        first = next((name for name in self.op.outputs if name), self.op.type)
        return self.target.inner(types, f"{first}_{wish}")

    def fresh(self, wish: str) -> str:
        """A name for a blob in between."""
        first = next((name for name in self.op.outputs if name), self.op.type)
        return self.target.fresh(f"{first}_{wish}")

    def step(self, type_: str, inputs: Sequence[str], **arguments: Any) -> str:
        """Write an operator with one output, a blob in between, and give that."""
        return self.write(type_, inputs, [self.fresh(type_.lower())], **arguments)

    def parameter(self, array: Array, wish: str) -> str:
        """A new parameter of the model."""
        name = self.fresh(wish)
        self.target.parameters[name] = array
        self.target.types[name] = TensorInfo(ir.DataType.from_numpy(array.dtype), array.shape, array)
        return name

    def number_of(self, dtype: ir.DataType) -> int:
        """Caffe2's number of an element type.

        Raises:
            UnsupportedOperatorError: Caffe2 has none.
        """
        if dtype not in NUMBERS:
            raise self.refused(f"Caffe2 has no tensors of {dtype.name.lower()}")
        return NUMBERS[dtype]

    def refused(self, reason: str, hint: str | None = None) -> UnsupportedOperatorError:
        """The error that says why Caffe2 can't express this form of the operator."""
        return UnsupportedOperatorError(
            f"{self.op} can't be written in Caffe2's operators: {reason}",
            [MissingRule(self.op, 0, reason, ())],
            hint=hint,
        )
