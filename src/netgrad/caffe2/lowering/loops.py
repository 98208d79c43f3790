"""``While``, a Loop in ONNX: with the gradients of what it has left, a loop backwards."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.control import condition_of, controls, either, needed_net, net_of
from netgrad.caffe2.lowering.held import (
    TRUTH,
    ControlFlowError,
    Element,
    Frame,
    Perhaps,
    Repeated,
    Stack,
    mapped,
    refused,
)
from netgrad.caffe2.lowering.scopes import GraphScope, Scope
from netgrad.caffe2.reads import written_names
from netgrad.core import Operator
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.view import TensorInfo

_COUNT = TensorInfo(ir.DataType.INT64, ())


class _Turn(GraphScope):
    """One turn of a loop.

    Attributes:
        carried: What the loop carries: the value that each blob has when the turn begins.
        counts: The number of workspaces on each stack that the loop takes workspaces off.
        turns: How many turns were made before.
    """

    def __init__(self, outer: Scope, infos: dict[str, TensorInfo], stacks: dict[str, Stack]) -> None:
        super().__init__(outer)
        prefix = self.prefix
        self.turns = self.b.value(f"{prefix}:turn", _COUNT)
        self.condition = self.b.value(f"{prefix}:condition", TRUTH)
        self.carried = {
            name: self.b.value(f"{prefix}:carried:{k}", info) for k, (name, info) in enumerate(infos.items())
        }
        self.blobs.update(self.carried)
        self.counts: dict[str, Value] = {}
        self.before: dict[str, Stack] = {}
        for k, (name, stack) in enumerate(stacks.items()):
            if stack.elements and isinstance(top := stack.elements[-1], Repeated):
                count = self.counts[name] = self.b.value(f"{prefix}:count:{k}", _COUNT)
                stack = Stack((*stack.elements[:-1], Repeated(count, top.frame)))
            self.before[name] = self.blobs[name] = stack


@controls("While")
def _while(scope: Scope, definition: OperatorDef) -> None:
    """The net of the condition runs before the loop, and at the end of each turn."""
    body, test = needed_net(definition, "loop_net"), net_of(definition, "cond_net") or NetDef()
    scope.run(test.op)
    start = condition_of(scope, definition)
    names = written_names([*body.op, *test.op])
    held = {name: scope.find(name) for name in names}
    infos = {name: one.info.plain for name, one in held.items() if isinstance(one, Value)}
    stacks = {name: one for name, one in held.items() if isinstance(one, Stack)}
    while True:
        turn = _Turn(scope, infos, stacks)
        turn.run(body.op)
        turn.run(test.op)
        again = condition_of(turn, definition)
        found = {name: _carried(turn, name, info, definition) for name, info in infos.items()}
        if found == infos:
            break
        infos = found
    loop = _Loop(scope, definition, turn, start, again)
    for name in stacks:
        loop.add_stack(name, stacks[name])
    for name, one in held.items():
        if one is None and name in turn.blobs:
            loop.add_new(name)
    loop.write()


def _carried(turn: _Turn, name: str, before: TensorInfo, definition: OperatorDef) -> TensorInfo:
    """What is known of a blob in all turns, from what was known before one and after it."""
    after = turn.value(name, definition).info.plain
    if after.dtype != before.dtype or after.shape is None or len(after.shape) != len(before.shape or ()):
        raise refused(definition, f"it changes the element type or the rank of '{name}'")
    return either(before, after)


class _Loop:
    """A Loop that is being put together."""

    def __init__(
        self, scope: Scope, definition: OperatorDef, turn: _Turn, start: Value, again: Value
    ) -> None:
        self._scope = scope
        self._definition = definition
        self._turn = turn
        self._start = start
        self._again = again
        self._counts: dict[str, tuple[Value, Value]] = {}
        self._scanned: list[Value] = []
        self._pushed: dict[str, tuple[Stack, Element]] = {}
        self._popped: dict[str, Stack] = {}
        self._new: dict[str, Value | None] = {}

    def add_new(self, name: str) -> None:
        """A blob that isn't there before: it holds what the last turn has written, if there is one."""
        held = self._turn.blobs[name]
        self._new[name] = None
        if not isinstance(held, Value) or not self._scope.all.everything:
            return
        if held.rank is not None and held.dtype not in (None, ir.DataType.STRING):
            self._new[name] = held

    def add_stack(self, name: str, outside: Stack) -> None:
        """What the turns do with a stack: nothing, leave a workspace, or take one off."""
        before, after = self._turn.before[name], self._turn.stack(name, self._definition)
        if before.same(after):
            return
        common = before.common(after)
        old, new = before.elements[common:], after.elements[common:]
        if not old and len(new) == 1 and isinstance(new[0], Frame):
            self._pushed[name] = outside, mapped(new[0], self._scan)
            return
        if len(old) == len(new) == 1:
            first, then = old[0], new[0]
            if isinstance(first, Repeated) and isinstance(then, Repeated) and first.frame is then.frame:
                top = outside.elements[-1]
                assert isinstance(top, Repeated), "as inside"
                self._counts[name] = top.count, then.count
                self._popped[name] = outside
                return
        raise refused(self._definition, f"a turn does more with '{name}' than leave or take one workspace")

    def _scan(self, value: Value) -> Value:
        """What stands for the values of all turns, until the loop is written."""
        self._scanned.append(value)
        shape = None if value.shape is None else (None, *value.shape)
        return self._turn.b.value(f"scanned:{len(self._scanned) - 1}", TensorInfo(value.dtype, shape))

    def write(self) -> None:
        """Write it, and let the blobs hold what it gives."""
        scope, turn, b = self._scope, self._turn, self._scope.b
        names = list(turn.carried)
        counted = list(self._counts)
        new = {name: value for name, value in self._new.items() if value is not None}
        new_infos = [TensorInfo(value.dtype, (None,) * len(value.shape or ())) for value in new.values()]
        one = turn.b.constant(np.asarray(1, np.int64))
        number = turn.b.value(f"{turn.prefix}:number", _COUNT)  # of turns; the loop does not tell it
        outputs = [
            self._again,
            *(turn.value(name, self._definition) for name in names),
            *(self._counts[name][1] for name in counted),
            turn.b.op("Add", number, one),
            *new.values(),
            *self._scanned,
        ]
        inputs = [
            turn.turns,
            turn.condition,
            *turn.carried.values(),
            *(turn.counts[name] for name in counted),
            number,
            *(turn.b.value(f"{turn.prefix}:new:{k}", info) for k, info in enumerate(new_infos)),
        ]
        graph = turn.graph(f"{turn.prefix}:body", self._definition, inputs, outputs)
        zero = b.constant(np.asarray(0, np.int64))
        reads = [
            "",
            self._start.name,
            *(scope.value(name, self._definition).name for name in names),
            *(b.value(self._counts[name][0].name, _COUNT).name for name in counted),
            zero.name,
            *(_nothing(b, info).name for info in new_infos),
        ]
        infos = [turn.carried[name].info for name in names]
        infos += [*[_COUNT] * (len(counted) + 1), *new_infos]
        infos += [
            TensorInfo(value.dtype, None if value.shape is None else (None, *value.shape))
            for value in self._scanned
        ]
        results = b.written(Operator("Loop", tuple(reads), ("",), {"body": graph}), infos)
        for name, value in zip(names, results, strict=False):
            scope.write(name, value)
        counts = dict(zip(counted, results[len(names) :], strict=False))
        turns = results[len(names) + len(counted)]
        behind = len(names) + len(counted) + 1
        last, stacked = results[behind : behind + len(new)], results[behind + len(new) :]
        some = (turns > 0).name if new else ""
        for name, value in zip(new, last, strict=True):
            scope.write(name, Perhaps(self._no_turn(name), some, True, value))
        for name in self._new.keys() - new.keys():
            scope.write(name, Perhaps(self._no_turn(name)))
        for name, (outside, element) in self._pushed.items():
            frame = mapped(element, lambda value: stacked[int(value.name.removeprefix("scanned:"))])
            assert isinstance(frame, Frame), "a frame stays one"
            scope.write(name, Stack((*outside.elements, Repeated(turns, frame))))
        for name, outside in self._popped.items():
            *below, top = outside.elements
            assert isinstance(top, Repeated), "asked before"
            exhausted = not below and self._asks_for(self._counts[name][1])
            rest = () if exhausted else (Repeated(counts[name], top.frame),)
            scope.write(name, Stack((*below, *rest)))

    def _no_turn(self, name: str) -> ControlFlowError:
        return refused(self._definition, f"'{name}' is not written if it makes no turn")

    def _asks_for(self, count: Value) -> bool:
        """Whether the loop goes on as long as there are workspaces of that number."""
        name = self._definition.input[0]
        condition = self._turn.find(name)
        asked = self._scope.all.asked
        return isinstance(condition, Value) and asked.get(condition.name) == count.name


def _nothing(b: Builder, info: TensorInfo) -> Value:
    """A tensor without elements, in place of a value that nobody reads."""
    assert info.dtype is not None, "asked before"
    return b.constant(np.zeros((0,) * len(info.shape or ()), info.dtype.numpy()))
