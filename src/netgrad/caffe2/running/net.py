"""Nets that have been created in a workspace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.lowering.nodes import title
from netgrad.caffe2.makers.types import is_operator, near_types
from netgrad.caffe2.running import float_exceptions
from netgrad.caffe2.running.errors import RunError, UnknownBlobError
from netgrad.caffe2.running.observers import Observer
from netgrad.caffe2.running.parts import Part, partition
from netgrad.caffe2.running.statistics import everywhere
from netgrad.caffe2.running.turns import check_stopped, turn
from netgrad.caffe2.schemas import schema_problem

if TYPE_CHECKING:
    from netgrad.caffe2.running.blob import Blob
    from netgrad.caffe2.running.workspace import Workspace


class CreatedNet:
    """A net with its operators checked, and its parts ready to be compiled when they run first.

    Attributes:
        definition: The net's message.
        parts: Its operators in parts.
        failed_at: The index of the operator at which its last run has failed, if that is known.
        observers: What is told of each run.
    """

    def __init__(self, definition: NetDef, workspace: Workspace) -> None:
        """Check the net and create the blobs that it writes.

        Raises:
            RunError: An operator's type is unknown, its input has no source, or the net doesn't write an
                output that it declares.
            UnknownBlobError: An operator reads a blob that isn't there.
        """
        self.definition = NetDef()
        self.definition.CopyFrom(definition)
        self.failed_at: int | None = None
        self.observers: list[Observer] = []
        self._workspace = workspace
        _check_declared(self.definition)
        operators = [_on_device(op, self.definition) for op in self.definition.op]
        for op in operators:
            _check_operator(op, workspace)
            for blob in op.output:
                workspace.create_blob(blob)
        self.parts = partition(operators)
        self._singly: list[Part] | None = None
        self._counters = [op.input[1] for op in operators if op.type == "AtomicIter" and len(op.input) > 1]

    def find(self, blob: str) -> Blob | None:
        """A blob of the net's workspace; None if it isn't there."""
        return self._workspace.find(blob)

    def run(self) -> bool:
        """Run it once; True, or an error."""
        self.failed_at = None
        for observer in self.observers:
            observer.start()
        checked = float_exceptions.are_errors()
        for part in self._operator_by_operator() if checked else self.parts:
            check_stopped()
            with turn():
                try:
                    if checked:
                        float_exceptions.run_checked(part, self._workspace)
                    else:
                        part.run(self._workspace)
                except Exception as error:
                    self.failed_at = _place(part, error)
                    raise
        for counter in self._counters:
            everywhere.add(f"atomic_iter/stats/{counter}/num_iter".encode())
        for observer in self.observers:
            observer.stop()
        return True

    def _operator_by_operator(self) -> list[Part]:
        if self._singly is None:
            self._singly = []
            for part in self.parts:
                for place, op in zip(part.places, part.definitions, strict=True):
                    (single,) = partition([op])
                    single.places = [place]
                    self._singly.append(single)
        return self._singly

    def benchmark(self, warmup: int, iterations: int, per_operator: bool) -> list[float]:
        """Mean times in milliseconds: of the net and, if wanted, of each operator run on its own."""
        for _ in range(warmup):
            self.run()
        times = [_mean_time(self.run, iterations)]
        if per_operator:
            for op in self.definition.op:
                (part,) = partition([_on_device(op, self.definition)])
                part.run(self._workspace)  # compiled outside of the measurement
                times.append(_mean_time(lambda part=part: part.run(self._workspace), iterations))
        return times


def _place(part: Part, error: Exception) -> int | None:
    """The index in the net of the operator that an error speaks of."""
    if len(part.definitions) == 1:
        return part.places[0]
    text = str(error)
    named = (at for at, op in enumerate(part.definitions) if any(one in text for one in _titles(op)))
    at = next(named, None)
    return None if at is None else part.places[at]


def _titles(op: OperatorDef) -> Iterator[str]:
    """What an operator and those in its nets are called in messages."""
    yield title(op)
    yield str(to_operator(op))
    for argument in op.arg:
        for inner in argument.n.op:
            yield from _titles(inner)


def _mean_time(call: object, iterations: int) -> float:
    assert callable(call)
    start = perf_counter()
    for _ in range(iterations):
        call()
    return (perf_counter() - start) * 1000 / max(iterations, 1)


def _check_declared(net: NetDef) -> None:
    """What the original checks of a net: sources of inputs where it lists any, and declared outputs."""
    known = set(net.external_input)
    for op in net.op:
        for blob in op.input:
            if net.external_input and blob not in known:
                raise RunError(
                    f"op {op.type}: Source for input {blob} is unknown for net {net.name}; add it to the "
                    "net's external inputs"
                )
        known.update(op.output)
    missing = [blob for blob in net.external_output if blob not in known]
    if missing:
        raise RunError(
            f"net {net.name} declares outputs that none of its operators writes: {', '.join(missing)}"
        )


def _check_operator(op: OperatorDef, workspace: Workspace) -> None:
    if not is_operator(op.type):
        raise RunError(f"Cannot create operator of type '{op.type}': it is unknown{near_types(op.type)}")
    problem = schema_problem(op.type, op.input)
    if problem is not None:
        raise RunError(f"Operator def did not pass schema checking: {problem} ({to_operator(op)})")
    for blob in op.input:
        if not workspace.has_blob(blob):
            raise UnknownBlobError(
                f"op {op.type}: Encountered a non-existing input blob: {blob} ({to_operator(op)}); feed it "
                "or run the net that writes it before this net is created"
            )


def _on_device(op: OperatorDef, net: NetDef) -> OperatorDef:
    """The operator with the net's seed, if it has no device of its own."""
    if op.HasField("device_option") or not net.device_option.HasField("random_seed"):
        return op
    seeded = OperatorDef()
    seeded.CopyFrom(op)
    seeded.device_option.CopyFrom(DeviceOption(random_seed=net.device_option.random_seed))
    return seeded


def operators_net(operators: Iterable[OperatorDef]) -> NetDef:
    """A net of these operators."""
    net = NetDef()
    net.op.extend(operators)
    return net
