"""One call of an operator that runs in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.running.blob import Array, Blob, as_array, fed, is_tensor, is_text
from netgrad.caffe2.running.errors import RunError

if TYPE_CHECKING:
    from netgrad.caffe2.running.workspace import Workspace


class Call:
    """An operator that is being run, with its arguments and blobs.

    Attributes:
        definition: The operator.
        workspace: Where it runs.
        memory: What the operator keeps from call to call, as long as its net is there.
    """

    def __init__(self, definition: OperatorDef, workspace: Workspace, memory: dict[str, Any]) -> None:
        self.definition = definition
        self.workspace = workspace
        self.memory = memory

    def argument(self, name: str, default: Any) -> Any:
        """The value of an argument; texts are decoded where ``default`` is a text."""
        for argument in self.definition.arg:
            if argument.name == name:
                value = value_of(argument)
                if isinstance(default, tuple) and not isinstance(value, tuple):
                    return (value,)
                return value.decode() if isinstance(default, str) and isinstance(value, bytes) else value
        return default

    def net(self, name: str) -> NetDef | None:
        """The net that an argument holds, or None without it.

        Raises:
            RunError: The argument holds something else.
        """
        value = self.argument(name, None)
        if isinstance(value, bytes):
            return NetDef.FromString(value)
        if value is not None and not isinstance(value, NetDef):
            raise self.error(f"argument '{name}' is no net")
        return value

    def blob(self, at: int) -> Blob:
        """The blob of an input."""
        return self.workspace.needed(self.definition.input[at], self.definition)

    def value(self, at: int) -> Any:
        """What the blob of an input holds."""
        return self.workspace.value(self.definition.input[at], self.definition)

    def array(self, at: int) -> Array:
        """The tensor of an input, numbers or texts, to be read only.

        Raises:
            RunError: It is something else.
        """
        value = self.value(at)
        if not is_tensor(value) and not is_text(value):
            raise self.error(f"input '{self.definition.input[at]}' holds no tensor")
        return as_array(value)

    def rows(self, at: int, numbers: Array) -> Array:
        """Rows of the tensor of an input.

        Raises:
            RunError: There is no row of a number.
        """
        table = self.array(at)
        lost = numbers[(numbers < 0) | (numbers >= len(table))]
        if lost.size:
            name = self.definition.input[at]
            raise self.error(f"there is no row {lost.reshape(-1)[0]}: input '{name}' has {len(table)}")
        return table[numbers]

    def scalar(self, at: int) -> Any:
        """The only element of an input."""
        array = self.array(at)
        if array.size != 1:
            raise self.error(f"input '{self.definition.input[at]}' has {array.size} elements, not one")
        return array.reshape(-1)[0].item() if array.dtype != object else array.reshape(-1)[0]

    def write(self, at: int, value: Any) -> None:
        """Write an array or text to an output."""
        self.put(at, fed(value))

    def put(self, at: int, value: Any) -> None:
        """Write a value to an output as it is."""
        self.workspace.create_blob(self.definition.output[at]).value = value

    def random(self) -> np.random.Generator:
        """Random numbers that go on from call to call, from the operator's seed if it has one."""
        if "random" not in self.memory:
            device = self.definition.device_option
            seed = device.random_seed if device.HasField("random_seed") else None
            self.memory["random"] = np.random.default_rng(seed)
        found: np.random.Generator = self.memory["random"]
        return found

    def error(self, reason: str) -> RunError:
        """The error that says why the operator can't run."""
        return RunError(f"{to_operator(self.definition)} can't run: {reason}")
