"""What is known of a parameter."""

from __future__ import annotations

from typing import Any

import numpy as np


class ParameterTags:
    """What a parameter is for."""

    BIAS = "BIAS"
    WEIGHT = "WEIGHT"
    COMPUTED_PARAM = "COMPUTED_PARAM"


class ParameterInfo:
    """A parameter, its shape and its gradient.

    Attributes:
        param_id: Its number.
        blob: The blob; also called ``param`` and ``parameter``.
        key: The blob of row numbers, for tables.
        grad: Its gradient, once there is one.
        shape: Its shape.
        length: Its number of rows.
        blob_copy: Copies in other precisions, by element type.
    """

    def __init__(
        self,
        param_id: int | None,
        param: Any,
        key: Any = None,
        shape: Any = None,
        length: int | None = None,
        grad: Any = None,
        blob_copy: dict[int, Any] | None = None,
    ) -> None:
        self.param_id = param_id
        self.name = str(param)
        self.blob = param
        self.key = key
        self.shape = shape
        self.size = _elements(shape)
        self.length = max(1, length if length is not None else 1)
        self.grad = grad
        self.blob_copy = blob_copy
        self._optimizer: Any = None

    @property
    def param(self) -> Any:
        """The blob."""
        return self.blob

    parameter = param

    @property
    def optimizer(self) -> Any:
        """The optimizer that is chosen for this parameter, or None."""
        return self._optimizer

    @optimizer.setter
    def optimizer(self, value: Any) -> None:
        assert self._optimizer is None, "the optimizer of a parameter is set once"
        self._optimizer = value

    def __str__(self) -> str:
        return self.name


def _elements(shape: Any) -> int | None:
    """How many elements a tensor has; None if that isn't known: some programs give an argument of a fill."""
    if shape is None:
        return None
    count = np.prod(shape)
    return int(count) if isinstance(count, int | float | np.number) else None
