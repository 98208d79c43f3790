"""Parameters of layers."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.running.blob import is_tensor, shape_of
from netgrad.caffe2.running.workspace import Workspace

_logger = logging.getLogger(__name__)


class LayerPsParam(NamedTuple):
    """What a parameter server is told of a table.

    Attributes:
        sparse_key: The blob of row numbers.
        average_length: How many of them an example has on average.
    """

    sparse_key: Any
    average_length: Any


class LayerParameter:
    """A parameter, and what is done with it.

    Attributes:
        parameter: A reference to its blob.
        optimizer: What updates it; None for the model's default.
        ps_param: A `LayerPsParam`, of tables.
        regularizer: What limits it, or None.
    """

    def __init__(
        self,
        parameter: Any = None,
        optimizer: Any = None,
        initializer: OperatorDef | None = None,
        ps_param: LayerPsParam | None = None,
        regularizer: Any = None,
    ) -> None:
        assert isinstance(parameter, core.BlobReference), f"a parameter is a reference, not {parameter!r}"
        self._shape: list[int] | None = None
        self._initializer: OperatorDef | None = None
        self.parameter = parameter
        self.optimizer = optimizer
        self.initializer = initializer
        self.ps_param = ps_param
        self.regularizer = regularizer

    @property
    def initializer(self) -> OperatorDef | None:
        """The operator that writes it first; None if others do."""
        return self._initializer

    @initializer.setter
    def initializer(self, op: OperatorDef | None) -> None:
        assert op is None or core.IsOperator(getattr(op, "type", "")), (
            f"an operator fills {self.parameter}, not {op!r}"
        )
        self._initializer = op
        if op is not None:
            self.shape = _shape_from(op)

    @property
    def shape(self) -> list[int] | None:
        """Its shape; None if its initializer doesn't tell. Once known it can't be set to another one."""
        return self._shape

    @shape.setter
    def shape(self, shape: list[int] | None) -> None:
        assert self._shape is None or self._shape == shape, (
            f"the shape of {self.parameter} is {self._shape} already, and can't become {shape}"
        )
        self._shape = shape

    def __str__(self) -> str:
        return str(self.parameter)


def _shape_from(op: OperatorDef) -> list[int] | None:
    """The shape of what an operator without inputs writes, as it says, or else does; None for no tensor."""
    for argument in op.arg:
        if argument.name == "shape":
            return list(argument.ints)
    blobs = Workspace()
    try:
        blobs.run(NetDef(name="shape_checker", op=[op]))
    except RuntimeError as error:
        _logger.warning("the shape of '%s' can't be told from its %s: %s", op.output[0], op.type, error)
        return None
    value = blobs.needed(op.output[0]).value
    return [int(dim) for dim in shape_of(value)] if is_tensor(value) else None
