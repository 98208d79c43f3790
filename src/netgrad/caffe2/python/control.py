"""Control flow between nets: execution steps that run nets in order, in parallel, in loops or on a condition.

A condition is a net, whose last external output it is and which runs whenever the condition is asked, or a
blob. Where nets are taken, steps can be given too, and lists of either.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from netgrad.caffe2.python import core

Condition: TypeAlias = "core.Net | core.BlobReference | str"

_used_step_names: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(itertools.count)


def _get_next_step_name(control_name: str, base_name: str) -> str:
    number = next(_used_step_names[control_name, base_name])
    return f"{base_name}/{control_name}" + (f"_{number}" if number else "")


def _make_list(nets_or_steps: Any) -> list[Any]:
    """Nets and steps in a flat list.

    Raises:
        ValueError: There are none.
    """
    if not isinstance(nets_or_steps, list | tuple):
        nets_or_steps = [nets_or_steps]
    flat = [one for part in nets_or_steps for one in (part if isinstance(part, list | tuple) else [part])]
    if not flat or any(one is None for one in flat):
        raise ValueError("a step needs nets or steps to run")
    return flat


def _as_step(name: str, nets_or_steps: Any) -> core.ExecutionStep:
    """One step that runs all in order once."""
    parts = _make_list(nets_or_steps)
    if len(parts) == 1 and isinstance(parts[0], core.ExecutionStep):
        return parts[0]
    if not all(isinstance(part, core.Net) for part in parts):
        parts = [
            part
            if isinstance(part, core.ExecutionStep)
            else core.scoped_execution_step(_get_next_step_name("Do", name), part)
            for part in parts
        ]
    return core.scoped_execution_step(_get_next_step_name("Do", name), parts)


def _evaluation(condition: Condition) -> tuple[list[core.Net], core.BlobReference]:
    """The nets that evaluate a condition, and its blob."""
    if isinstance(condition, core.Net):
        return [condition], GetConditionBlobFromNet(condition)
    return [], core.BlobReference(str(condition))


def _stop_if(condition: Condition, negated: bool) -> tuple[list[core.Net], core.BlobReference]:
    """The nets that evaluate a condition, and a blob of its own that says stop if it is so (or is not so)."""
    nets, blob = _evaluation(condition)
    net, stop = NotNet(blob) if negated else _copy_condition_net(blob)
    return [*nets, net], stop


def _copy_condition_net(blob: core.BlobReference) -> tuple[core.Net, core.BlobReference]:
    net = core.Net("copy_condition_blob_net")
    copy = net.Copy([blob])
    net.AddExternalOutput(copy)
    return net, copy


def GetConditionBlobFromNet(condition_net: core.Net) -> core.BlobReference:
    """The condition of a net: its last external output.

    Raises:
        AssertionError: It has none.
    """
    outputs = condition_net.Proto().external_output
    assert outputs, f"condition net {condition_net.Name()} has no external output"
    return core.BlobReference(outputs[-1])


def BoolNet(*blobs_with_bool_value: Any) -> core.Net:
    """A net that writes truth values.

    Args:
        *blobs_with_bool_value: Pairs of a blob and its value, or a list of them.
    """
    pairs = blobs_with_bool_value
    if len(pairs) == 1 and isinstance(pairs[0], list):
        pairs = tuple(pairs[0])
    if not pairs:
        raise ValueError("BoolNet needs pairs of a blob and its value")
    net = core.Net("bool_net")
    for blob, value in pairs:
        assert isinstance(value, bool), f"blob {blob} gets a truth value, not {value!r}"
        net.AddExternalOutput(net.ConstantFill([], [blob], shape=[], value=value, dtype=core.DataType.BOOL))
    return net


def NotNet(condition_blob_or_net: Condition) -> tuple[core.Net, core.BlobReference]:
    """A net that negates a condition, which has been evaluated before; and the blob that it writes."""
    _, blob = _evaluation(condition_blob_or_net)
    net = core.Net("not_net")
    negated = net.Not([blob])
    net.AddExternalOutput(negated)
    return net, negated


def MergeConditionNets(name: str, condition_nets: Any, relation: str) -> Any:
    """One net that evaluates several conditions and combines them.

    Args:
        name: Its name.
        condition_nets: A list of nets; what is no list is returned as it is.
        relation: ``And``, ``Or`` or another operator of two truth values.

    Returns:
        The net, or None without conditions.
    """
    if not isinstance(condition_nets, list):
        return condition_nets
    if len(condition_nets) <= 1:
        return condition_nets[0] if condition_nets else None
    merged = core.Net(name)
    found: Any = None
    for net in condition_nets:
        proto, own = net.Proto(), merged.Proto()
        assert proto.device_option == own.device_option, "the nets of conditions run on one device"
        own.op.extend(proto.op)
        own.external_input.extend(blob for blob in proto.external_input if blob not in own.external_input)
        condition = GetConditionBlobFromNet(net)
        found = condition if found is None else getattr(merged, relation)([found, condition])
    merged.AddExternalOutput(found)
    return merged


def CombineConditions(name: str, condition_nets: Any, relation: str) -> core.Net | None:
    """A net that combines conditions whose nets have run before.

    Args:
        name: Its name.
        condition_nets: The nets of the conditions.
        relation: ``And``, ``Or`` or another operator of two truth values.

    Returns:
        The net, or None without conditions.

    Raises:
        ValueError: ``condition_nets`` is no list.
    """
    if not condition_nets:
        return None
    if not isinstance(condition_nets, list):
        raise ValueError("condition_nets must be a list of nets.")
    blobs = [GetConditionBlobFromNet(net) for net in condition_nets]
    if len(blobs) == 1:
        return _copy_condition_net(blobs[0])[0]
    net = core.Net(name)
    found = blobs[0]
    for blob in blobs[1:]:
        found = getattr(net, relation)([found, blob])
    net.AddExternalOutput(found)
    return net


def Do(name: str, *nets_or_steps: Any) -> core.ExecutionStep:
    """Run all in order, once. A single step is returned as it is.

    Raises:
        ValueError: There is nothing to run.
    """
    return _as_step(name, nets_or_steps)


def DoParallel(name: str, *nets_or_steps: Any) -> core.ExecutionStep:
    """Run all at once. A single step is returned as it is.

    Raises:
        ValueError: There is nothing to run.
    """
    parts = _make_list(nets_or_steps)
    if len(parts) == 1 and isinstance(parts[0], core.ExecutionStep):
        return parts[0]
    return core.scoped_execution_step(
        _get_next_step_name("DoParallel", name),
        [_as_step(name, part) for part in parts],
        concurrent_substeps=True,
    )


def _unless(
    name: str, control: str, stop: tuple[list[core.Net], core.BlobReference], parts: Any
) -> core.ExecutionStep:
    """Run ``parts`` once if the stop blob doesn't say stop, which is found out first."""
    nets, blob = stop
    return core.scoped_execution_step(
        _get_next_step_name(control, name),
        [_as_step(f"{name}/condition", nets), _as_step(name, parts)],
        should_stop_blob=blob,
        only_once=True,
    )


def _choose(
    name: str, control: str, condition: Condition, then: Any, otherwise: Any, negated: bool
) -> core.ExecutionStep:
    if not otherwise:
        return _unless(name, control, _stop_if(condition, not negated), then)
    # The condition is asked once, and its value kept, as the first branch may change it.
    nets, blob = _evaluation(condition)
    keep, kept = _copy_condition_net(blob)
    return core.scoped_execution_step(
        _get_next_step_name(control, name),
        [
            _as_step(f"{name}/condition", [*nets, keep]),
            _unless(name, f"{control}-true", _stop_if(kept, not negated), then),
            _unless(name, f"{control}-false", _stop_if(kept, negated), otherwise),
        ],
    )


def If(
    name: str,
    condition_blob_or_net: Condition,
    true_nets_or_steps: Any,
    false_nets_or_steps: Any = None,
) -> core.ExecutionStep:
    """Run one thing if a condition holds, and perhaps another one if it doesn't."""
    return _choose(name, "If", condition_blob_or_net, true_nets_or_steps, false_nets_or_steps, False)


def IfNot(
    name: str,
    condition_blob_or_net: Condition,
    true_nets_or_steps: Any,
    false_nets_or_steps: Any = None,
) -> core.ExecutionStep:
    """Run the first thing if a condition does not hold, and perhaps the second one if it does."""
    return _choose(name, "IfNot", condition_blob_or_net, true_nets_or_steps, false_nets_or_steps, True)


def _conditions(conditions: Sequence[Any]) -> list[tuple[Condition, Any]]:
    if len(conditions) == 1 and isinstance(conditions[0], list):
        conditions = conditions[0]
    if not conditions:
        raise ValueError("a switch needs pairs of a condition and what to run")
    return list(conditions)


def Switch(name: str, *conditions: Any) -> core.ExecutionStep:
    """Run everything whose condition holds.

    Args:
        name: Name of the step.
        *conditions: Pairs of a condition and what to run, or a list of them. Each condition is asked once,
            when its turn comes.
    """
    return core.scoped_execution_step(
        _get_next_step_name("Switch", name),
        [If(f"{name}/Switch", condition, parts) for condition, parts in _conditions(conditions)],
    )


def SwitchNot(name: str, *conditions: Any) -> core.ExecutionStep:
    """`Switch` for conditions that do not hold."""
    return core.scoped_execution_step(
        _get_next_step_name("SwitchNot", name),
        [IfNot(f"{name}/SwitchNot", condition, parts) for condition, parts in _conditions(conditions)],
    )


def For(name: str, nets_or_steps: Any, iter_num: int) -> core.ExecutionStep:
    """Run all in order ``iter_num`` times."""
    return core.scoped_execution_step(
        _get_next_step_name("For", name), [_as_step(name, nets_or_steps)], num_iter=iter_num
    )


def _loop(
    name: str, control: str, condition: Condition, parts: Any, negated: bool, first: bool
) -> core.ExecutionStep:
    """Run ``parts`` until a condition holds (or does not); it is asked before each turn, or after it."""
    nets, stop = _stop_if(condition, negated)
    asked, body = _as_step(f"{name}/condition", nets), _as_step(name, parts)
    # The stop blob is looked at after each part, so what runs before the condition is one part with it.
    turn = [asked, body] if first else [_as_step(f"{name}/turn", [body, asked])]
    return core.scoped_execution_step(_get_next_step_name(control, name), turn, should_stop_blob=stop)


def While(name: str, condition_blob_or_net: Condition, nets_or_steps: Any) -> core.ExecutionStep:
    """Run all as long as a condition holds, which is asked before each turn."""
    return _loop(name, "While", condition_blob_or_net, nets_or_steps, True, True)


def Until(name: str, condition_blob_or_net: Condition, nets_or_steps: Any) -> core.ExecutionStep:
    """Run all as long as a condition does not hold, which is asked before each turn."""
    return _loop(name, "Until", condition_blob_or_net, nets_or_steps, False, True)


def DoWhile(name: str, condition_blob_or_net: Condition, nets_or_steps: Any) -> core.ExecutionStep:
    """Run all, and again as long as a condition holds, which is asked after each turn."""
    return _loop(name, "DoWhile", condition_blob_or_net, nets_or_steps, True, False)


def DoUntil(name: str, condition_blob_or_net: Condition, nets_or_steps: Any) -> core.ExecutionStep:
    """Run all, and again as long as a condition does not hold, which is asked after each turn."""
    return _loop(name, "DoUntil", condition_blob_or_net, nets_or_steps, False, False)
