"""What the arguments of a ``RecurrentNetwork`` say, and what it keeps for its gradient."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf import text_format

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.core import InvalidModelError

FORWARD, GRADIENT = "RecurrentNetwork", "RecurrentNetworkGradient"


@dataclass(frozen=True, slots=True)
class Link:
    """In step t a blob of the step net is a row, or several rows, of a sequence.

    Attributes:
        internal: The blob of the step net.
        external: The sequence.
        offset: Its first row is row t + ``offset``.
        window: How many rows it has.
    """

    internal: str
    external: str
    offset: int
    window: int = 1


@dataclass(frozen=True, slots=True)
class Alias:
    """An output that is the rows of a state from ``offset`` on; a negative one counts from the end."""

    state: str
    output: str
    offset: int


class Recurrence:
    """The arguments of a ``RecurrentNetwork`` or its gradient, which has the same ones.

    Attributes:
        definition: The operator.
    """

    def __init__(self, definition: OperatorDef) -> None:
        self.definition = definition
        self._values = {argument.name: value_of(argument) for argument in definition.arg}
        for name in ("step_net", "recurrent_states", "initial_recurrent_state_ids", "link_internal"):
            if name not in self._values:
                raise InvalidModelError(
                    f"{definition.type} {list(definition.output)} has no argument '{name}'"
                )

    def _list(self, name: str) -> tuple[Any, ...]:
        value = self._values.get(name, ())
        return value if isinstance(value, tuple) else (value,)

    def _names(self, name: str) -> tuple[str, ...]:
        return tuple(value.decode() for value in self._list(name))

    def _net(self, name: str) -> NetDef | None:
        """A net that an argument holds: as a message, or as early ones did as text or bytes."""
        value = self._values.get(name)
        if not value or isinstance(value, NetDef):
            return value or None
        net = NetDef()
        try:
            text_format.Parse(value, net)
        except (text_format.ParseError, UnicodeDecodeError):
            net = NetDef.FromString(value)
        return net

    def _links(self, prefix: str) -> tuple[Link, ...]:
        internal, external = self._names(f"{prefix}_internal"), self._names(f"{prefix}_external")
        offsets = self._list(f"{prefix}_offset")
        windows = self._list(f"{prefix}_window") or (1,) * len(internal)
        return tuple(Link(*found) for found in zip(internal, external, offsets, windows, strict=True))

    @cached_property
    def step_net(self) -> NetDef:
        """The net of one step."""
        found = self._net("step_net")
        return NetDef() if found is None else with_kept_net(found)

    @cached_property
    def backward_step_net(self) -> NetDef | None:
        """The net of one step of the gradient, perhaps without operators; None where there is no gradient."""
        if not self.backward_links:
            return None
        return with_kept_net(self._net("backward_step_net") or NetDef())

    @property
    def timestep(self) -> str:
        """The blob with the number of the step."""
        value: bytes = self._values.get("timestep", b"timestep")
        return value.decode()

    @property
    def states(self) -> tuple[str, ...]:
        """The sequences of states, each with its initial rows in front."""
        return self._names("recurrent_states")

    @property
    def initial(self) -> tuple[int, ...]:
        """For each state the index of the input that holds its initial rows."""
        return self._list("initial_recurrent_state_ids")

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """The links of the step net."""
        return self._links("link")

    @cached_property
    def backward_links(self) -> tuple[Link, ...]:
        """The links of the gradient's step net."""
        return self._links("backward_link")

    @cached_property
    def aliases(self) -> tuple[Alias, ...]:
        """The outputs, in order. A state may stand among them itself, with all of its rows."""
        names, outputs = self._names("alias_src"), self._names("alias_dst")
        found = [Alias(*one) for one in zip(names, outputs, self._list("alias_offset"), strict=True)]
        definition = self.definition
        operands = list(definition.output if definition.type == FORWARD else definition.input)
        whole = [
            Alias(state, state, 0) for state in self.states if state in operands and state not in outputs
        ]
        if whole:
            places = {name: at for at, name in enumerate(operands)}
            found = sorted([*found, *whole], key=lambda alias: places.get(alias.output, -1))
        return tuple(found)

    @property
    def params(self) -> tuple[int, ...]:
        """The indices of further inputs that have a gradient."""
        return self._list("param")

    @property
    def param_grads(self) -> tuple[str, ...]:
        """The blobs of the gradient's step net with the parameters' gradients."""
        return self._names("param_grads")

    @property
    def outputs_with_grads(self) -> tuple[int, ...]:
        """The indices of the outputs whose gradients the gradient operator is given, in order."""
        return self._list("outputs_with_grads")

    def initial_length(self, state: str) -> int:
        """How many initial rows a state has: its new row comes behind them, and has the highest offset."""
        return max((link.offset for link in self.links if link.external == state), default=0)

    def new_row(self, state: str) -> str | None:
        """The blob of the step net that is a state's new row; None if no link says so."""
        length, written = self.initial_length(state), {blob for op in self.step_net.op for blob in op.output}
        found = [
            link.internal
            for link in self.links
            if (link.external, link.offset, link.window) == (state, length, 1)
        ]
        found = [blob for blob in found if blob in written] or found  # others read it
        return found[0] if len(found) == 1 else None

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The blobs of the step net that the gradient reads and no sequence holds."""
        if self.backward_step_net is None:
            return ()
        written = {blob for op in self.step_net.op for blob in op.output}
        in_states = {self.new_row(state) for state in self.states}
        reads = undefined(self.backward_step_net)
        return tuple(blob for blob in reads if blob in written and blob not in in_states)

    @property
    def read_around(self) -> tuple[str, ...]:
        """What the step net reads that neither a link nor an input of the operator gives, nor ever itself."""
        given = {self.timestep, *(link.internal for link in self.links), *self.definition.input}
        given.update(blob for op in self.step_net.op for blob in op.output)
        return tuple(blob for blob in undefined(self.step_net) if blob not in given)

    @cached_property
    def hidden_states(self) -> tuple[str, ...]:
        """The states that the gradient reads and no output shows in full."""
        if self.backward_step_net is None:
            return ()
        shown = {alias.state for alias in self.aliases if alias.offset == self.initial_length(alias.state)}
        return tuple(state for state in self.states if state not in shown)

    def kept_blobs(self, workspaces: str) -> tuple[str, ...]:
        """Where what the gradient needs is kept, next to the blob of the step workspaces."""
        return tuple(f"{workspaces}/{name}" for name in (*self.kept, *self.hidden_states))


def undefined(net: NetDef) -> list[str]:
    """The blobs that a net reads before it writes them, in order."""
    written: set[str] = set()
    found: dict[str, None] = {}
    for op in net.op:
        found.update(dict.fromkeys(blob for blob in op.input if blob not in written))
        written.update(op.output)
    return list(found)


def with_kept(definitions: Iterable[OperatorDef], *, if_read: bool = False) -> list[OperatorDef]:
    """Operators in which what a recurrent net keeps for its gradient, and all that it reads, is written out.

    The original keeps a workspace for each step, in the last output. Here that is one blob for each blob of
    the step net that the gradient reads, with the steps as a new first axis: more outputs of
    ``RecurrentNetwork`` and more inputs of its gradient. In these workspaces a step net sees the blobs
    around, too, such as what a beam search attends to: here they are more inputs.

    Args:
        definitions: The operators; they aren't changed. What is written out already is left as it is.
        if_read: Whether only that is written out which some gradient among the operators reads.
    """
    found = list(definitions)
    if not any(definition.type in (FORWARD, GRADIENT) for definition in found):
        return found
    read = {definition.input[-1] for definition in found if definition.type == GRADIENT and definition.input}
    result = []
    for definition in found:
        if definition.type not in (FORWARD, GRADIENT):
            result.append(definition)
            continue
        completed = OperatorDef()
        completed.CopyFrom(definition)
        operands = completed.output if definition.type == FORWARD else completed.input
        said = Recurrence(definition)
        if definition.type == FORWARD:
            completed.input.extend(said.read_around)
        count = len(said.kept) + len(said.hidden_states)
        is_complete = len(operands) > count and list(operands[-count:]) == list(
            said.kept_blobs(operands[-count - 1])
        )
        if (
            operands
            and not is_complete
            and (definition.type == GRADIENT or not if_read or operands[-1] in read)
        ):
            operands.extend(said.kept_blobs(operands[-1]))
        result.append(completed)
    return result


def with_kept_net(net: NetDef) -> NetDef:
    """A step net whose own recurrent nets write out what they keep."""
    completed = NetDef()
    completed.CopyFrom(net)
    operators = with_kept(net.op)
    del completed.op[:]
    completed.op.extend(operators)
    return completed
