"""A saved model: the net that predicts, and what initializes its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import MetaNetDef, NetDef, OperatorDef, TensorProto
from netgrad.caffe2.execute import Program
from netgrad.caffe2.reads import outside_reads, reads_inside
from netgrad.caffe2.tensors import Array

_RAW_BYTES = "GivenTensorStringFill"

_FILLS = {
    np.dtype(np.float32): "GivenTensorFill",
    np.dtype(np.float64): "GivenTensorDoubleFill",
    np.dtype(np.int32): "GivenTensorIntFill",
    np.dtype(np.int64): "GivenTensorInt64Fill",
    np.dtype(np.bool_): "GivenTensorBoolFill",
}


@dataclass(frozen=True)
class SavedModel:
    """A net with its parameters.

    Attributes:
        predict_net: The forward operators.
        init_net: The operators that write the parameters.
        meta: What a predictor file says besides, if the model came from one.
        stored: Parameters that were stored as tensors rather than written by ``init_net``.
    """

    predict_net: NetDef
    init_net: NetDef
    meta: MetaNetDef | None = None
    stored: dict[str, Array] = field(default_factory=dict)

    @cached_property
    def parameters(self) -> dict[str, Array]:
        """The parameters by name: the blobs that the net reads and ``init_net`` writes.

        Raises:
            UnsupportedOperatorError: An operator of ``init_net`` can't be run.
        """
        wanted = set(self._read) - set(self.inputs)
        found = {name: array for name, array in self.stored.items() if name in wanted}
        rest = [op for op in self.init_net.op if any(name in wanted for name in op.output)]
        given = [op for op in rest if op.type == _RAW_BYTES]
        for op in given:
            found[op.output[0]] = _bytes_of(op)
        found.update(Program([op for op in rest if op.type != _RAW_BYTES]).run({}))
        return found

    @property
    def inputs(self) -> list[str]:
        """The blobs that the net reads and nobody initializes, in the order of its external inputs."""
        known = self._initialized
        read = self._read
        first = [name for name in self.predict_net.external_input if name in read]
        return [name for name in dict.fromkeys((*first, *read)) if name not in known]

    @property
    def outputs(self) -> list[str]:
        """The external outputs; without any, the blobs that are written and never read."""
        if self.predict_net.external_output:
            return list(self.predict_net.external_output)
        read = {name for op in self.predict_net.op for name in op.input}
        written = dict.fromkeys(name for op in self.predict_net.op for name in op.output)
        return [name for name in written if name not in read]

    @property
    def _read(self) -> list[str]:
        operators = self.predict_net.op
        return [*outside_reads(operators), *reads_inside(operators)]

    @property
    def _initialized(self) -> set[str]:
        dummies = {
            name
            for op in self.init_net.op
            for name in op.output
            if op.type in ("GivenTensorFill", "ConstantFill") and _is_dummy(op)
        }
        return {*self.stored, *(name for op in self.init_net.op for name in op.output)} - (
            dummies & set(self.predict_net.external_input[:1])
        )


def _is_dummy(op: OperatorDef) -> bool:
    """Whether a fill only makes a data input exist: one element of value 0 in two dims."""
    shape = next((list(argument.ints) for argument in op.arg if argument.name == "shape"), None)
    values = next((list(argument.floats) for argument in op.arg if argument.name == "values"), [0.0])
    return shape == [1, 1] and values == [0.0]


def _bytes_of(op: OperatorDef) -> Array:
    """The strings of a fill. A tensor of bytes is one string, whose type and shape the file doesn't say."""
    strings = next((list(argument.strings) for argument in op.arg if argument.name == "values"), [])
    shape = next((list(argument.ints) for argument in op.arg if argument.name == "shape"), [len(strings)])
    return np.array(strings, dtype=object).reshape(shape)


def init_net_of(parameters: dict[str, Array], name: str = "init") -> NetDef:
    """A net of fills that writes ``parameters``.

    Half-precision numbers are written as floats and converted; tensors of bytes as one raw string.
    """
    net = NetDef(name=name)
    for blob, value in parameters.items():
        net.op.extend(_fill(blob, np.asarray(value)))
    return net


def _fill(blob: str, array: Array) -> list[OperatorDef]:
    if array.dtype == np.float16:
        wide = _given("GivenTensorFill", blob, array.shape, array.astype(np.float32))
        return [wide, OperatorDef(type="FloatToHalf", name="", input=[blob], output=[blob])]
    if array.dtype in (np.dtype(np.uint8), np.dtype(np.int8)):
        return [_given(_RAW_BYTES, blob, (1,), [array.tobytes()])]
    if array.dtype.kind in "OSU":
        texts = [one if isinstance(one, bytes) else str(one).encode() for one in array.reshape(-1)]
        return [_given(_RAW_BYTES, blob, array.shape, texts)]
    if array.dtype in _FILLS:
        return [_given(_FILLS[array.dtype], blob, array.shape, array)]
    wide = _given("GivenTensorIntFill", blob, array.shape, array.astype(np.int32))
    cast = OperatorDef(type="Cast", name="", input=[blob], output=[blob])
    cast.arg.append(make_argument("to", int(TensorProto.DataType.Value(array.dtype.name.upper()))))
    return [wide, cast]


def _given(type_: str, blob: str, shape: Any, values: Any) -> OperatorDef:
    op = OperatorDef(type=type_, name="", output=[blob])
    op.arg.append(make_argument("shape", [int(dim) for dim in shape]))
    listed = values.reshape(-1).tolist() if isinstance(values, np.ndarray) else values
    op.arg.append(make_argument("values", listed))
    return op
