"""The blobs that operators see while they are written in ONNX: those of a net, of a branch, of a ``Do``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import onnx

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.lowering.context import Context, StaticShapeNeededError
from netgrad.caffe2.lowering.held import Choice, Held, Perhaps, Ref, Stack, refused
from netgrad.caffe2.lowering.nodes import graph_of, title
from netgrad.caffe2.lowering.registry import lower
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.view import TensorInfo


class Written:
    """What all scopes of one model share.

    Attributes:
        saved: The names that gradients read of what a ``Do`` has left.
        everything: Whether all that is written is wanted, even what is only perhaps written.
        graphs: How many graphs there are inside of the model's.
        asked: Values that say whether a stack has a workspace, to the name of its number of workspaces.
    """

    def __init__(self, definitions: Sequence[OperatorDef], everything: bool) -> None:
        self.saved = _saved(definitions)
        self.everything = everything
        self.graphs = 0
        self.asked: dict[str, str] = {}


def _saved(definitions: Sequence[OperatorDef], inside: bool = False) -> set[str]:
    """What is read in the nets of gradient operators of ``Do``."""
    found: set[str] = set()
    for op in definitions:
        if inside:
            found.update(op.input)
        for argument in op.arg:
            if argument.HasField("n"):
                found |= _saved(argument.n.op, inside or (op.type == "Do" and op.is_gradient_op))
    return found


class Scope:
    """Blobs by name, and the builder that operators are written with.

    Attributes:
        b: The builder.
        owners: For each operator of the builder, the title of the operator that it was written for.
        all: What all scopes share.
    """

    def __init__(self, builder: Builder, shared: Written, owners: list[str] | None = None) -> None:
        self.b = builder
        self.all = shared
        self.owners: list[str] = [] if owners is None else owners

    def find(self, name: str) -> Held | None:
        """What a blob holds; None if nothing is known to be there."""
        raise NotImplementedError

    def write(self, name: str, held: Held) -> None:
        """Let a blob hold something."""
        raise NotImplementedError

    def value(self, name: str, reader: OperatorDef) -> Value:
        """The value of a blob.

        Raises:
            ControlFlowError: It is perhaps not written, or is a stack.
            KeyError: It isn't there.
        """
        found = self.find(name)
        if isinstance(found, Perhaps):
            raise found.error
        if found is None:
            raise KeyError(name)
        if isinstance(found, Stack):
            raise refused(reader, f"'{name}' is a stack of workspaces, which it can't compute with")
        return found

    def stack(self, name: str, reader: OperatorDef) -> Stack:
        """The stack of workspaces that a blob holds.

        Raises:
            ControlFlowError: It holds none.
        """
        found = self.find(name)
        if not isinstance(found, Stack):
            raise refused(reader, f"'{name}' is no stack of workspaces that CreateScope has written here")
        return found

    def run(self, definitions: Sequence[OperatorDef]) -> None:
        """Write operators, one after the other.

        Raises:
            UnsupportedOperatorError: One has no lowering in its form.
            StaticShapeNeededError: A lowering needs dims that are unknown.
            KeyError: One reads a blob that isn't there.
        """
        for definition in definitions:
            writer = CONTROL.get(definition.type)
            try:
                if writer is not None:
                    writer(self, definition)
                else:
                    inputs = [self.value(blob, definition) for blob in definition.input]
                    results = lower(Context(definition, self.b), inputs)
                    for blob, value in zip(definition.output, results, strict=False):
                        if value is not None:
                            self.write(blob, value)
            except StaticShapeNeededError as error:
                raise StaticShapeNeededError(str(error) or title(definition)) from error
            self.owners += [title(definition)] * (len(self.b.operators) - len(self.owners))


class NetScope(Scope):
    """The blobs of the net itself; those that it reads first become inputs of the model.

    Attributes:
        blobs: What was written or read.
        given: The name of the model's input for each blob that was there before.
        written: The blobs that were written, in order.
    """

    def __init__(self, builder: Builder, shared: Written, types: Mapping[str, TensorInfo]) -> None:
        super().__init__(builder, shared)
        self.blobs: dict[str, Held] = {}
        self.given: dict[str, str] = {}
        self.written: dict[str, None] = {}
        self._types = types

    def find(self, name: str) -> Held | None:
        """What a blob holds."""
        if name not in self.blobs and name in self._types:
            self.given[name] = f"in:{len(self.given)}"
            self.blobs[name] = self.b.value(self.given[name], self._types[name].plain)
        return self.blobs.get(name)

    def write(self, name: str, held: Held) -> None:
        """Let a blob hold something."""
        self.blobs[name] = held
        self.written[name] = None


class GraphScope(Scope):
    """The blobs of a graph inside of the model: a branch, or a turn of a loop.

    Attributes:
        blobs: What was written inside.
        prefix: What the names of its values begin with.
    """

    def __init__(self, outer: Scope, condition: str = "", holds: bool = True) -> None:
        """Start with what is outside.

        Args:
            outer: The scope around.
            condition: The condition of a branch: what an ``If`` on it has left is known.
            holds: Whether it holds in this branch.
        """
        outer.all.graphs += 1
        self.prefix = f"g{outer.all.graphs}"
        super().__init__(Builder(outer.b.opset, self.prefix), outer.all)
        self.blobs: dict[str, Held] = {}
        self._outer = outer
        self._condition = condition
        self._holds = holds

    def find(self, name: str) -> Held | None:
        """What a blob holds."""
        if name in self.blobs:
            return self.blobs[name]
        found = self._outer.find(name)
        if isinstance(found, Value):
            return self.b.value(found.name, found.info)
        if isinstance(found, Perhaps):
            known = found.value is not None and found.condition == self._condition
            if known and found.holds == self._holds and found.value is not None:
                return self.b.value(found.value.name, found.value.info)
            return found
        if isinstance(found, Stack) and found.elements and isinstance(found.elements[-1], Choice):
            top = found.elements[-1]
            if top.condition == self._condition:
                return Stack((*found.elements[:-1], *(top.then if self._holds else top.otherwise)))
        return found

    def write(self, name: str, held: Held) -> None:
        """Let a blob hold something."""
        self.blobs[name] = held

    def graph(
        self, name: str, definition: OperatorDef, inputs: Sequence[Value], outputs: Sequence[Value]
    ) -> onnx.GraphProto:
        """The graph that ``definition`` holds, with these inputs and outputs."""
        self.owners += [title(definition)] * (len(self.b.operators) - len(self.owners))
        return graph_of(self.b.operators, self.owners, name, inputs, outputs)


class DoScope(Scope):
    """The blobs of the net of a ``Do``, which is written among the operators around it.

    Attributes:
        blobs: What they hold, or which of the blobs around they are.
    """

    def __init__(self, outer: Scope, blobs: Mapping[str, Held | Ref]) -> None:
        super().__init__(outer.b, outer.all, outer.owners)
        self.blobs: dict[str, Held | Ref] = dict(blobs)
        self._outer = outer

    def find(self, name: str) -> Held | None:
        """What a blob holds."""
        found = self.blobs.get(name)
        if isinstance(found, Ref):
            return self._outer.find(found.blob)
        return self.b.value(found.name, found.info) if isinstance(found, Value) else found

    def write(self, name: str, held: Held) -> None:
        """Let a blob hold something."""
        found = self.blobs.get(name)
        if isinstance(found, Ref):
            self._outer.write(found.blob, held)
        else:
            self.blobs[name] = held


Writer: TypeAlias = "Callable[[Scope, OperatorDef], None]"

CONTROL: dict[str, Writer] = {}
"""What writes the operators that hold nets, and those of their workspaces."""
