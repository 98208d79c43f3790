"""Constants of a model, which all nets that initialize it write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import core, utils

_FILLS = {"i4": "GivenTensorIntFill", "i8": "GivenTensorInt64Fill", "b1": "GivenTensorBoolFill"}


def _fill(blob: Any, array: Any, dtype: Any, initializer: Callable[[Any], OperatorDef] | None) -> OperatorDef:
    """The operator that writes a constant: a fill with an array, or what ``initializer`` gives."""
    if array is None:
        assert initializer is not None, f"an array or an initializer is needed for the constant {blob}"
        return initializer(blob)
    assert initializer is None, f"the constant {blob} has both an array and an initializer"
    values = np.array(array, dtype)
    kind = "GivenTensorStringFill" if values.dtype.kind in "SUO" else "GivenTensorFill"
    operator = _FILLS.get(values.dtype.str[1:], kind)
    return core.CreateOperator(operator, [], blob, shape=values.shape, values=values.flatten().tolist())


class GlobalConstants:
    """A model's part that keeps its constants.

    Attributes:
        global_constants: Name to blob.
        global_constant_initializers: Blob to the operator that writes it.
    """

    net: core.Net

    def _init_global_constants(self) -> None:
        self.global_constants: dict[str, Any] = {}
        self.global_constant_initializers: dict[Any, OperatorDef] = {}
        self.add_global_constant("ONE", 1.0)
        self.add_global_constant("NAN", float("NaN"))
        self.add_global_constant("ZERO", 0.0)
        self.add_global_constant("ZERO_RANGE", [0, 0], dtype="int32")

    def add_global_constant(
        self,
        name: str,
        array: Any = None,
        dtype: Any = None,
        initializer: Callable[[Any], OperatorDef] | None = None,
    ) -> Any:
        """Add a constant.

        Args:
            name: Its name.
            array: Its value. Floats of any width are float32.
            dtype: The value's type; the array's own if None.
            initializer: What gives the operator that writes a blob, instead of a value.

        Returns:
            Its blob.

        Raises:
            AssertionError: There is one of that name, or not exactly one of array and initializer is given.
        """
        assert isinstance(name, str), f"constants are found by texts, not by {name!r}"
        assert name not in self.global_constants, f"there is a constant {name} already"
        blob = self.net.NextBlob(name)
        operator = _fill(blob, array, dtype, initializer)
        self.global_constants[name] = blob
        self.global_constant_initializers[blob] = operator
        return blob

    def maybe_add_global_constant(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """`add_global_constant`, or the blob of the constant that is there with that name and value.

        Raises:
            AssertionError: It has another value.
        """
        if name not in self.global_constants:
            return self.add_global_constant(name, *args, **kwargs)
        blob = self.global_constants[name]
        wanted = _fill(blob, *_arguments(*args, **kwargs))
        known = self.global_constant_initializers[blob]
        assert utils.OpAlmostEqual(wanted, known, "debug_info"), (
            f"the constant {blob} is made by {known} already, and can't be made by {wanted}"
        )
        return blob

    def create_init_net(self, name: str) -> core.Net:
        """A net that writes the constants."""
        net = core.Net(name)
        net.extend_ops(self.global_constant_initializers.values())
        return net


def _arguments(array: Any = None, dtype: Any = None, initializer: Any = None) -> tuple[Any, Any, Any]:
    return array, dtype, initializer
