"""Creating and running nets, operators and plans."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import onnx_ir as ir
from google.protobuf.message import Message
from onnxruntime import OrtValue

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, PlanDef
from netgrad.caffe2.lowering.context import ELEMENT_TYPES
from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.plan import Plan
from netgrad.caffe2.python.core.steps import ExecutionStep
from netgrad.caffe2.python.core.tracebacks import show
from netgrad.caffe2.python.lazy import TriggerLazyImport
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.running.blob import is_tensor, shape_of
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.net import CreatedNet
from netgrad.caffe2.running.shapes import inferred
from netgrad.caffe2.running.turns import stopped_by
from netgrad.caffe2.running.workspace import message_of


def StringifyProto(obj: Any) -> bytes:
    """The serialized bytes of a message, or of an object with ``Proto()``; bytes as they are.

    Raises:
        ValueError: ``obj`` is something else.
    """
    if isinstance(obj, str | bytes):
        return obj.encode() if isinstance(obj, str) else obj
    message = obj if isinstance(obj, Message) else obj.Proto() if hasattr(obj, "Proto") else None
    if message is None:
        raise ValueError(f"a message or an object with Proto() is needed, not {type(obj).__name__}")
    return bytes(message.SerializeToString())


def GetNetName(net: Any) -> str:
    """The name of a net that is given by name, as an object or as a message."""
    if isinstance(net, str):
        return net
    if isinstance(net, Net):
        return net.Name()
    if isinstance(net, NetDef):
        return net.name
    if isinstance(net, bytes):
        return NetDef.FromString(net).name
    raise RunError(f"a net or its name is needed, not {type(net).__name__}")


def StringifyNetName(name: Any) -> str:
    """The name of a net that is given by name or as an object."""
    return name.decode() if isinstance(name, bytes) else GetNetName(name)


def StringifyBlobName(name: Any) -> str:
    """The name of a blob that is given by name or as a reference."""
    assert isinstance(name, str | bytes | BlobReference), f"a blob's name or reference, not {name!r}"
    return name.decode() if isinstance(name, bytes) else str(name)


def CreateNet(net: Any, overwrite: bool = False, input_blobs: Iterable[Any] | None = None) -> bool:
    """Keep a net in the current workspace, under its name.

    Args:
        net: The net, or its message.
        overwrite: Whether a net of the same name is replaced.
        input_blobs: Blobs that are created before, for the net to read them.

    Raises:
        RunError: There is a net of the name; a blob that it reads isn't there; an operator is unknown.
    """
    TriggerLazyImport()
    for blob in input_blobs or ():
        current().create_blob(StringifyBlobName(blob))
    current().create_net(net, overwrite)
    return True


def Nets() -> list[str]:
    """The names of the nets of the current workspace."""
    return list(current().nets)


def RunNet(name: Any, num_iter: int = 1, allow_fail: bool = False) -> bool:
    """Run a net that was created.

    Args:
        name: The net or its name.
        num_iter: How often it runs.
        allow_fail: Whether False is returned instead of an error when it fails.

    Raises:
        RunError: There is no such net, or it can't run.
    """
    net = current().net(StringifyNetName(name))
    try:
        for _ in range(num_iter):
            _run(net)
    except RunError as error:
        if not allow_fail:
            raise
        print(error, file=sys.stderr)
        return False
    return True


def _run(net: CreatedNet) -> bool:
    """Run a net; of an operator that fails it is printed where it was created."""
    try:
        return net.run()
    except Exception:
        if net.failed_at is not None:
            show(net.definition.name, net.failed_at, sys.stderr)
        raise


def RunNetOnce(net: Any) -> bool:
    """Create a net, run it and forget it.

    Raises:
        RunError: It can't be created or run.
    """
    return _run(CreatedNet(message_of(net, NetDef), current()))


def RunOperatorOnce(operator: Any) -> bool:
    """Run one operator.

    Raises:
        RunError: It can't run.
    """
    return current().run_operators([operator])


def RunOperatorsOnce(operators: Iterable[Any]) -> bool:
    """Run operators, one after the other."""
    return current().run_operators(operators)


def RunOperatorMultiple(operator: Any, num_runs: int) -> bool:
    """Run one operator several times."""
    net = NetDef()
    net.op.add().CopyFrom(message_of(operator, OperatorDef))
    created = CreatedNet(net, current())
    return all(created.run() for _ in range(num_runs))


def RunPlan(plan_or_step: Any) -> bool:
    """Run a plan or a step; see `netgrad.caffe2.running.plan.run_plan`.

    Raises:
        RunError: Something in it can't run.
    """
    plan = Plan(plan_or_step) if isinstance(plan_or_step, ExecutionStep) else plan_or_step
    return current().run_plan(plan)


class _BackgroundPlan:
    """A plan that runs in a thread of its own."""

    def __init__(self, future: Future[bool], cancelled: Event) -> None:
        self._future = future
        self._cancelled = cancelled

    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._future.done()

    def is_succeeded(self) -> bool:
        """Whether it has ended without an error."""
        return self._future.done() and self._future.exception() is None

    def cancel(self) -> None:
        """Give it up before the next part of a net; it has not succeeded then."""
        self._cancelled.set()


def RunPlanInBackground(plan_or_step: Any) -> _BackgroundPlan:
    """Run a plan or a step in a thread of its own."""
    plan = Plan(plan_or_step) if isinstance(plan_or_step, ExecutionStep) else plan_or_step
    message, workspace = message_of(plan, PlanDef), current()
    cancelled = Event()

    def run() -> bool:
        with stopped_by(cancelled):
            return workspace.run_plan(message)

    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    return _BackgroundPlan(future, cancelled)


def ClearGlobalNetObserver() -> None:
    """Nothing: nets have observers of their own only."""


def InferShapesAndTypes(
    nets: Iterable[Any],
    blob_dimensions: Mapping[Any, Any] | None = None,
    nets_proto: bool = False,
    blob_types: Mapping[Any, int] | None = None,
) -> tuple[dict[str, list[int]], dict[str, int]]:
    """Shapes and types of the blobs of nets that would run one after the other.

    Args:
        nets: The nets, as objects or messages.
        blob_dimensions: Shapes of the blobs that are there before; without it those of the workspace.
        nets_proto: No difference: messages are taken in any case.
        blob_types: Their types as numbers; float where it says nothing.

    Returns:
        Two dictionaries: the shape of each blob, and its type as a number. What can't be told is left out.
    """
    if blob_dimensions is None:
        known = {}
        for name in current().names():
            value = current().needed(name).value
            if is_tensor(value):
                known[name] = (_dtype(value), shape_of(value))
    else:
        types = {str(name): number for name, number in (blob_types or {}).items()}
        known = {
            str(name): (
                ELEMENT_TYPES.get(types.get(str(name), 1), ir.DataType.FLOAT),
                tuple(int(dim) for dim in shape),
            )
            for name, shape in blob_dimensions.items()
        }
    return inferred([message_of(net, NetDef) for net in nets], known)


def _dtype(value: Any) -> ir.DataType:
    if isinstance(value, OrtValue):
        return ir.DataType(value.element_type())
    return ir.DataType.from_numpy(value.dtype)


def RegisteredOperators() -> list[str]:
    """The names of all operator types."""
    return sorted(registered_types())
