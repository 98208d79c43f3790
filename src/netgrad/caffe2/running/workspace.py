"""Workspaces: blobs and nets by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import ExecutionStep, NetDef, OperatorDef, PlanDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.running.blob import Blob
from netgrad.caffe2.running.errors import RunError, UnknownBlobError, WrongKindError
from netgrad.caffe2.running.net import CreatedNet, operators_net
from netgrad.core.errors import nearest


class Workspace:
    """Blobs and nets by name.

    A workspace may stand on another one, whose blobs it sees; or be bound to single blobs of another one
    under names of its own.
    """

    def __init__(self, parent: Workspace | None = None, root_folder: str = ".") -> None:
        """Start empty.

        Args:
            parent: A workspace whose blobs are seen here where there is none of the name.
            root_folder: The folder that relative paths of files start from.
        """
        self.root_folder = root_folder
        self._parent = parent
        self._blobs: dict[str, Blob] = {}
        self._changes = 0
        self._nets: dict[str, CreatedNet] = {}

    # ---- blobs ---------------------------------------------------------------------------------------

    @property
    def blobs(self) -> dict[str, Blob]:
        """The blobs by name."""
        return {name: blob for name in self.names() if (blob := self.find(name)) is not None}

    def names(self) -> list[str]:
        """The names of all blobs, sorted."""
        return sorted({*self._blobs, *(self._parent.names() if self._parent else ())})

    def local_names(self) -> list[str]:
        """The names of the blobs of its own."""
        return sorted(self._blobs)

    def find(self, name: str) -> Blob | None:
        """A blob, or None."""
        found = self._blobs.get(name)
        return self._parent.find(name) if found is None and self._parent is not None else found

    @property
    def changes(self) -> int:
        """How often names have been given to other blobs or forgotten; new names don't count."""
        return self._changes if self._parent is None else self._changes + self._parent.changes

    def has_blob(self, name: Any) -> bool:
        """Whether there is a blob of that name."""
        return self.find(str(name)) is not None

    def create_blob(self, name: Any) -> Blob:
        """The blob of that name; a new one if there is none."""
        found = self.find(str(name))
        if found is None:
            found = self._blobs[str(name)] = Blob()
        return found

    def needed(self, name: str, reader: OperatorDef | None = None) -> Blob:
        """The blob of that name.

        Raises:
            UnknownBlobError: There is none.
        """
        found = self.find(name)
        if found is None:
            by = f"{to_operator(reader)} reads it" if reader is not None else ""
            raise UnknownBlobError(
                f"Can't find blob: {name}{nearest(name, self.names())}",
                hint=f"{by}; feed it or run the net that writes it".removeprefix("; "),
            )
        return found

    def value(self, name: str, reader: OperatorDef) -> Any:
        """What a blob holds.

        Raises:
            UnknownBlobError: There is no such blob.
            RunError: It holds nothing.
        """
        value = self.needed(name, reader).value
        if value is None:
            raise RunError(
                f"{to_operator(reader)} reads blob '{name}', which nothing has been written to",
                hint="feed it or run the net that writes it",
            )
        return value

    def bind(self, blobs: Mapping[str, Blob]) -> None:
        """Let names stand for blobs of another workspace."""
        self._changes += 1
        self._blobs.update(blobs)

    def feed_blob(self, name: Any, arr: Any, device_option: Any = None) -> bool:
        """Write an array, a ``TensorProto`` or a text to a blob."""
        return self.create_blob(name).feed(arr, device_option)

    def fetch_blob(self, name: Any) -> Any:
        """A copy of a blob's array or text, or a description of anything else.

        Raises:
            UnknownBlobError: There is no such blob.
        """
        blob = self.needed(str(name))
        value = blob.fetch()
        return blob.description(str(name)) if not blob.is_tensor() and blob.content is not value else value

    def remove_blob(self, name: Any) -> bool:
        """Forget a blob of its own; whether there was one."""
        self._changes += 1
        return self._blobs.pop(str(name), None) is not None

    def reset(self, root_folder: str | None = None) -> None:
        """Forget all blobs and nets."""
        self._changes += 1
        self._blobs.clear()
        self._nets.clear()
        self.root_folder = root_folder or "."

    # ---- nets ----------------------------------------------------------------------------------------

    @property
    def nets(self) -> dict[str, CreatedNet]:
        """The nets by name."""
        return dict(self._nets)

    def create_net(self, net: Any, overwrite: bool = False) -> CreatedNet:
        """Keep a net.

        Raises:
            RunError: There is one of its name, or it can't be created (see `CreatedNet`).
        """
        definition = message_of(net, NetDef)
        if definition.name in self._nets and not overwrite:
            raise RunError(
                f"Cannot create duplicate net: there is a net '{definition.name}' already",
                hint="pass overwrite=True to replace it",
            )
        self._nets.pop(definition.name, None)
        created = CreatedNet(definition, self)
        self._nets[definition.name] = created
        return created

    def net(self, name: str) -> CreatedNet:
        """A net that was created.

        Raises:
            RunError: There is none of that name.
        """
        if name not in self._nets:
            raise RunError(
                f"Can't find net: {name}{nearest(name, self._nets)}", hint="create it by CreateNet"
            )
        return self._nets[name]

    def delete_net(self, name: str) -> None:
        """Forget a net."""
        self._nets.pop(name, None)

    def run(self, runnable: Any) -> bool:
        """Run an operator, a net or a plan (object or message) once, without keeping it."""
        message = runnable.Proto() if hasattr(runnable, "Proto") else runnable
        if isinstance(message, OperatorDef):
            return self.run_operators([message])
        if isinstance(message, NetDef):
            return CreatedNet(message, self).run()
        if isinstance(message, ExecutionStep):
            raise RunError("an execution step runs in a plan: pass core.Plan(step)")
        if isinstance(message, PlanDef):
            return self.run_plan(message)
        raise RunError(f"what runs is an operator, a net or a plan, not {type(runnable).__name__}")

    def run_operators(self, operators: Any) -> bool:
        """Run operators, one after the other."""
        return all(CreatedNet(operators_net([message_of(op, OperatorDef)]), self).run() for op in operators)

    def run_plan(self, plan: Any) -> bool:
        """Run a plan; see `netgrad.caffe2.running.plan`."""
        from netgrad.caffe2.running.plan import run_plan

        return run_plan(message_of(plan, PlanDef), self)


def message_of(thing: Any, kind: Any) -> Any:
    """The message of an object with ``Proto()``, of serialized bytes, or itself.

    Raises:
        WrongKindError: It is of another kind.
    """
    message = thing.Proto() if hasattr(thing, "Proto") else thing
    if isinstance(message, bytes):
        return kind.FromString(message)
    if not isinstance(message, kind):
        raise WrongKindError(f"a {kind.__name__} is needed, not {type(thing).__name__}")
    return message
