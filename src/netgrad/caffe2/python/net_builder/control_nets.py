"""Builders that become one net, with the operators ``If`` and ``While``."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.control_ops_util import add_if_op, add_while_op
from netgrad.caffe2.python.net_builder.builder import NetBuilder


class _ControlNet(NetBuilder):
    """A builder that becomes one net."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name, _use_control_ops=True)

    def _become(self, net: core.Net) -> None:
        self._children = [net]


class IfNet(_ControlNet):
    """An ``If`` over the nets inside, and over those of the `ElseNet` behind it."""

    def __init__(self, cond_blob: Any, name: str | None = None) -> None:
        super().__init__(name)
        assert cond_blob is not None, "Conditional blob is not specified for an If net"
        self._cond_blob = cond_blob
        self._then_net = core.Net("empty_then_net")

    def _finish(self) -> None:
        self._then_net = self._merged() or self._then_net
        self._become(self._operator("if_net", None))
        super()._finish()

    def complete(self, else_net: core.Net) -> None:
        """Add the second branch, once its block has ended."""
        self._become(self._operator("if_else_net", else_net))

    def _operator(self, name: str, else_net: core.Net | None) -> core.Net:
        net = core.Net(f"{self.name}/{name}")
        add_if_op(net, self._cond_blob, self._scope_around, self._then_net, else_net)
        return net


class ElseNet(_ControlNet):
    """The second branch of the `IfNet` right before it."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        around: NetBuilder | None = NetBuilder.current(required=False)
        last = around._children[-1] if around is not None and around._children else None
        assert isinstance(last, IfNet), "Invalid use of Else builder: it comes right behind an IfNet"
        self._if = last

    def _finish(self) -> None:
        net = self._merged()
        if net is not None:
            self._if.complete(net)
        super()._finish()


class WhileNet(_ControlNet):
    """A ``While`` over the nets inside; the block of its `Condition` comes first."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.condition: Condition | None = None

    def _finish(self) -> None:
        assert self.condition is not None, "Condition builder must be specified in While op"
        body = self._merged() or core.Net("empty_loop_body_net")
        net = core.Net(f"{self.name}/while_net")
        add_while_op(net, self.condition.blob, self._scope_around, body, self.condition.net)
        self._become(net)
        super()._finish()


class Condition(_ControlNet):
    """What is asked before each turn of a `WhileNet`: the output of the last operator.

    Attributes:
        net: The net, once its block has ended.
        blob: The truth value that it writes.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        around = NetBuilder.current(required=False)
        assert isinstance(around, WhileNet), "Use of Condition outside of WhileNet"
        assert around.condition is None, "Multiple loop condition builders specified"
        assert not around._children, "Condition definition must be specified before the loop's body"
        around.condition = self
        self.net: core.Net | None = None
        self.blob: core.BlobReference | None = None

    def _finish(self) -> None:
        self.net = self._merged()
        assert self.net is not None, "Invalid loop condition specified"
        outputs = self.net.Proto().op[-1].output
        assert len(outputs) == 1, "the last operator of a condition has one output"
        self.blob = core.BlobReference(outputs[0])
        self._become(self.net)
        super()._finish()
