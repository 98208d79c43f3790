"""Builders that become steps: loops, conditions, and parts that can be stopped."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.net_builder.builder import NetBuilder


def active_net() -> core.Net:
    """The net that operators go into now."""
    net: core.Net = NetBuilder.current().current_net()
    return net


class RunOnce(NetBuilder):
    """Runs once, and may be stopped inside."""

    def _finish(self) -> None:
        if self._stop_blob is not None:
            self.stop_if(active_net().Const(True))
        super()._finish()


class StopGuard(RunOnce):
    """Runs once, and knows whether it was stopped before its end."""

    def __init__(self, has_stopped_blob: Any = None, name: str | None = None) -> None:
        super().__init__(name)
        self._stopped = has_stopped_blob
        self._ran = False

    def __enter__(self) -> StopGuard:
        super().__enter__()
        self._stopped = active_net().Const(True, blob_out=self._stopped)
        return self

    def _finish(self) -> None:
        self._ran = True
        active_net().Const(False, blob_out=self._stopped)
        super()._finish()

    def has_stopped(self) -> Any:
        """The truth value that says, once it has run, whether it was stopped.

        Raises:
            AssertionError: Its block hasn't ended.
        """
        assert self._ran, "Context not used yet."
        return self._stopped


class Loop(NetBuilder):
    """Runs until it is stopped, or so many times."""

    def __init__(self, iters: Any = None, name: str | None = None) -> None:
        super().__init__(name, _stop_blob_required=True)
        self._iter: Any = None
        self._num_iters: Any = None
        if iters is not None:
            net = active_net()
            self._one, self._iter = net.Const(1), net.Const(0)
            self._num_iters = iters if isinstance(iters, core.BlobReference) else net.Const(iters)

    def iter(self) -> Any:
        """The number of the iteration, from 0 on.

        Raises:
            AssertionError: The loop doesn't count.
        """
        assert self._iter is not None, "This loop does not have a number of iterations."
        return self._iter

    def __enter__(self) -> Loop:
        super().__enter__()
        if self._iter is not None:
            self.stop_if(active_net().GE([self._iter, self._num_iters]))
        return self

    def _finish(self) -> None:
        if self._iter is not None:
            self.current_net().Add([self._iter, self._one], [self._iter])
        super()._finish()


class RunIf(RunOnce):
    """Runs once if a condition holds, and none of the branches before it in the chain did."""

    def __init__(self, cond_blob: Any = None, name: str | None = None, _already_ran: Any = None) -> None:
        super().__init__(name)
        assert cond_blob is not None or _already_ran is not None, "a branch needs a condition"
        self._is_else = cond_blob is None
        net = active_net()
        otherwise = None if cond_blob is None else net.Not(cond_blob)
        if _already_ran is None:
            self._already_ran = net.Const(False)
            self._skip = otherwise
        else:
            self._already_ran = _already_ran
            self._skip = _already_ran if otherwise is None else net.Or([_already_ran, otherwise])

    def __enter__(self) -> RunIf:
        super().__enter__()
        self.stop_if(self._skip)
        active_net().Const(True, blob_out=self._already_ran)
        return self

    def Elif(self, cond: Any, name: str | None = None) -> RunIf:
        """A branch that runs if this one and those before it didn't, and ``cond`` holds."""
        assert not self._is_else, "Elif not allowed for an Else."
        return self._next(RunIf(cond, name or self.name, self._already_ran))

    def Else(self, name: str | None = None) -> RunIf:
        """A branch that runs if this one and those before it didn't."""
        assert not self._is_else, "Else not allowed for an Else."
        return self._next(RunIf(None, name or self.name, self._already_ran))

    @staticmethod
    def _next(branch: RunIf) -> RunIf:
        NetBuilder.current().add(branch)
        return branch
