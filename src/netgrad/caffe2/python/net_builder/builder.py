"""A net builder: collects nets and further builders, which run in order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.context import Managed
from netgrad.caffe2.python.core import net_names


class NetBuilder(Managed):
    """Collects what runs in order: nets, and builders of loops and conditions inside.

    Inside its block ``ops`` adds to it. `core.to_execution_step` makes a step of it.

    Attributes:
        name: Its name, behind that of the builder around it; nets that are made inside have it in front.
    """

    def __init__(
        self,
        name: str | None = None,
        initial_scope: Iterable[Any] | None = None,
        _stop_blob_required: bool = False,
        _stop_blob: core.BlobReference | None = None,
        _fullname: str | None = None,
        _use_control_ops: bool = False,
    ) -> None:
        """Start empty.

        Args:
            name: Its name.
            initial_scope: Blobs that are there besides those of the builder around it.
            _stop_blob_required: Whether it has to be stopped by something inside, as a loop.
            _stop_blob: The blob that stops it.
            _fullname: Its whole name, instead of ``name``.
            _use_control_ops: Whether it becomes one net, with operators that hold nets, and no steps.
        """
        assert not (_fullname and name), "a builder has a name or a full name, not both"
        assert not (_use_control_ops and (_stop_blob_required or _stop_blob)), (
            "Stop blobs are not used with control operators"
        )
        around: NetBuilder | None = NetBuilder.current(required=False)
        self.name: str = _fullname or "/".join(filter(None, [around.name if around else None, name]))
        self._use_control_ops = _use_control_ops
        self._stop_blob = _stop_blob
        self._stop_blob_required = _stop_blob_required
        self._frozen = False
        self._current_net: core.Net | None = None
        self._children: list[Any] = []
        self._scope_around = set(around.lexical_scope()) if around else set()
        self._scope_around |= {str(blob) for blob in initial_scope or ()}

    def __str__(self) -> str:
        return self.name or "Un-named NetBuilder"

    def lexical_scope(self) -> set[str]:
        """The names of the blobs that are there behind what it has now."""
        scope = set(self._scope_around)
        for child in self._children:
            if isinstance(child, core.Net):
                scope |= child.UsedBlobNames()
            elif isinstance(child, NetBuilder) and child._use_control_ops:
                scope |= child.lexical_scope()
        return scope

    # ---- what it has -------------------------------------------------------------------------------

    def add(self, child: Any) -> Any:
        """Add a net, a step, a builder or a group of tasks; operators go into a net that was just added.

        Raises:
            AssertionError: It has been built already; or it is to become a net, and ``child`` doesn't.
        """
        self._assert_mutable()
        if self._use_control_ops:
            assert isinstance(child, core.Net) or (
                isinstance(child, NetBuilder) and child._use_control_ops
            ), f"inside IfNet and WhileNet there are nets and such builders, no {type(child).__name__}"
        self._current_net = child if isinstance(child, core.Net) else None
        self._children.append(child)
        return child

    def current_net(self, name: str | None = None) -> core.Net:
        """The net that operators go into; a new one if ``name`` is given or there is none."""
        self._assert_mutable()
        if self._current_net is None or name is not None:
            self._current_net = self.add(core.Net(name))
        assert self._current_net is not None
        return self._current_net

    def freeze(self) -> None:
        """Nothing is added any more, to it and the builders inside."""
        for child in self._children:
            if isinstance(child, NetBuilder):
                child.freeze()
        self._current_net = None
        self._frozen = True

    def get(self) -> list[Any]:
        """What it has; nothing is added any more."""
        self.freeze()
        return self._children

    def _assert_mutable(self) -> None:
        assert not self._frozen, f"This NetBuilder ({self}) has been built already."

    # ---- stopping ----------------------------------------------------------------------------------

    @property
    def step_stop_blob(self) -> core.BlobReference | None:
        """The blob that stops it, or None."""
        return self._stop_blob

    def stop_blob(self) -> core.BlobReference:
        """The blob that stops it, which is made if there is none."""
        assert not self._use_control_ops, "Stop blobs are not used with control operators"
        if self._stop_blob is None:
            net = self.current_net()
            self._stop_blob = core.BlobReference(net.NextName("stop_blob"), net)
            net.Const(False, blob_out=self._stop_blob)
            if net is not self._children[0]:  # it is looked at behind the first net already
                first = core.Net("stop_blob_init")
                first.Const(False, blob_out=self._stop_blob)
                self._children.insert(0, first)
        return self._stop_blob

    def stop_if(self, blob: Any) -> None:
        """Leave out what follows in the builder if a truth value holds."""
        stop = self.stop_blob()
        self.current_net().Or([stop, blob], [stop])
        self._current_net = None

    # ---- its block ---------------------------------------------------------------------------------

    def __exit__(self, kind: Any = None, value: Any = None, traceback: Any = None) -> None:
        try:
            if kind is None:
                self._finish()
        finally:
            super().__exit__(kind, value, traceback)
            self.freeze()

    def _finish(self) -> None:
        """What is done at the end of its block, while it is still the active one."""
        if self._use_control_ops and self._children:
            self._children = [self._merged()]
        assert self._stop_blob is not None or not self._stop_blob_required, (
            f"This NetBuilder ({self}) requires a stop condition to be set with `stop` or `stop_if`"
        )

    def _merged(self) -> core.Net | None:
        """The nets that it has and those of the builders inside, as one; it has none any more.

        Of their external outputs those stay that are blobs of the builder around it: what one child writes
        for another one is no output of the whole.
        """
        children, self._children, self._current_net = self._children, [], None
        merged: core.Net | None = None
        for child in children:
            net = child.get()[0] if isinstance(child, NetBuilder) else child
            merged = net if merged is None else merged.AppendNet(net)
        if merged is not None:
            outputs = merged.Proto().external_output
            kept = [blob for blob in outputs if blob in self._scope_around]
            del outputs[:]
            outputs.extend(kept)
        return merged


def _prefix() -> str:
    builder = NetBuilder.current(required=False)
    return builder.name if builder else ""


net_names.prefixes.append(_prefix)
