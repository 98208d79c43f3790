"""What the original's native module said of operator types: programs ask how many outputs one has."""

from __future__ import annotations

from netgrad.caffe2.makers.types import is_operator
from netgrad.caffe2.schemas import Schema, schema_of


class OpSchema:
    """How many inputs and outputs operators of one type have.

    Attributes:
        inf: What stands for any number.
        doc: A description: there is none.
    """

    inf = 2**31 - 1
    doc = ""

    def __init__(self, schema: Schema) -> None:
        self._inputs, self._outputs = schema.inputs, schema.outputs
        self._in_place = schema.in_place

    @staticmethod
    def get(type_: str) -> OpSchema | None:
        """That of an operator type, or None where there is no such operator."""
        if not is_operator(type_):
            return None
        return OpSchema(schema_of(type_) or Schema.of("0-", "0-"))

    @property
    def min_input(self) -> int:
        """The least number of inputs."""
        return self._inputs.least

    @property
    def max_input(self) -> int:
        """The greatest number of inputs."""
        return self.inf if self._inputs.most is None else self._inputs.most

    @property
    def min_output(self) -> int:
        """The least number of outputs."""
        return self._outputs.least

    @property
    def max_output(self) -> int:
        """The greatest number of outputs."""
        return self.inf if self._outputs.most is None else self._outputs.most

    def CalculateOutput(self, num_input: int) -> int:
        """How many outputs there are if that is always the same number, else -1."""
        return self.min_output if self.min_output == self.max_output else -1

    def num_inputs_allowed(self, count: int) -> bool:
        """Whether there may be so many inputs."""
        return self._inputs.allows(count)

    def num_outputs_allowed(self, count: int) -> bool:
        """Whether there may be so many outputs."""
        return self._outputs.allows(count)

    def num_inputs_outputs_allowed(self, inputs: int, outputs: int) -> bool:
        """Whether there may be so many inputs and so many outputs."""
        return self.num_inputs_allowed(inputs) and self.num_outputs_allowed(outputs)

    def inplace_enforced(self, read: int, written: int) -> bool:
        """Whether an output has to be the same blob as an input."""
        return (read, written) in self._in_place
