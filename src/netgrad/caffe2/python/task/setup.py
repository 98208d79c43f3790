"""What runs before and after a task or a group: objects with ``setup`` and ``exit``, noted in nets.

A net gets such an object as an attribute under a key that says when it is asked: ``Task.TASK_SETUP``,
``Task.TASK_INSTANCE_SETUP`` or ``TaskGroup.LOCAL_SETUP``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from netgrad.caffe2.python import core


class SetupNets:
    """Nets that run at the start and at the end of a task or a group.

    Attributes:
        init_nets: Those at the start.
        exit_nets: Those at the end.
    """

    def __init__(self, init_nets: Any = None, exit_nets: Any = None) -> None:
        self.init_nets = init_nets
        self.exit_nets = exit_nets

    def setup(self, init_net: core.Net) -> Any:
        """What runs at the start."""
        return self.init_nets

    def exit(self, exit_net: core.Net) -> Any:
        """What runs at the end."""
        return self.exit_nets

    def __repr__(self) -> str:
        return f"SetupNets(init_nets={self.init_nets}, exit_nets={self.exit_nets})"


def get_setup_nets(key: str, steps_or_nets: Iterable[Any], target: Any) -> tuple[list[Any], list[Any]]:
    """What the objects under a key say is to run before and after.

    Each object is asked once, so that one which several nets share runs once. It may add operators to the net
    that it is given, and return nets or steps.

    Args:
        key: The key of the attributes.
        steps_or_nets: Where they are looked for.
        target: The task or group that asks; an object with ``_setup_target`` answers that one only.

    Returns:
        What runs before, and what runs after.

    Raises:
        TypeError: An object returns something else.
    """
    init_net, exit_net = core.Net(f"{key}/init"), core.Net(f"{key}/exit")
    before: list[Any] = []
    after: list[Any] = []
    for one in _attributes(key, steps_or_nets):
        if getattr(one, "_setup_used", False) or getattr(one, "_setup_target", target) != target:
            continue
        for name, net, parts in (("setup", init_net, before), ("exit", exit_net, after)):
            ask: Callable[[core.Net], Any] | None = getattr(one, name, None)
            if ask is not None:
                parts.extend(_listed(ask(net), f"{type(one).__name__}.{name}"))
                one._setup_used = True
    if init_net.Proto().op:
        before.insert(0, init_net)
    if exit_net.Proto().op:
        after.insert(0, exit_net)
    return before, after


def _attributes(key: str, steps_or_nets: Iterable[Any]) -> list[Any]:
    found: list[Any] = []
    for one in steps_or_nets:
        found += one.get_attributes(key) if isinstance(one, core.Net) else one.get_all_attributes(key)
    return found


def _listed(parts: Any, what: str) -> list[Any]:
    if parts is None:
        return []
    if isinstance(parts, list | tuple):
        return list(parts)
    if isinstance(parts, core.Net | core.ExecutionStep):
        return [parts]
    raise TypeError(f"{what} returns nets or steps, not {type(parts).__name__}")


def add_setup_steps(
    step: core.ExecutionStep, init_nets: list[Any], exit_nets: list[Any], name: str
) -> core.ExecutionStep:
    """A step that runs ``init_nets``, ``step`` and ``exit_nets``; ``step`` itself if there are none."""
    if not init_nets and not exit_nets:
        return step
    steps = [core.execution_step(f"{name}:init", init_nets)] if init_nets else []
    steps.append(step)
    if exit_nets:
        steps.append(core.execution_step(f"{name}:exit", exit_nets))
    return core.execution_step(name, steps)
