"""The backward pass over operator definitions, in Caffe2's own operators."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.definitions import to_definition, to_operator
from netgrad.caffe2.devices import Device, same_device
from netgrad.caffe2.makers.registry import Makers, ends_gradients
from netgrad.core import (
    BackwardPass,
    ClassicVocabulary,
    Gradient,
    GradientSlice,
    InvalidArgumentError,
    Operator,
    RuleSource,
    UnsupportedOperatorError,
    backward_pass,
)

ADDITION = "is_auto_gen_sum_ops"
ONLY_ADDITION = "only_keep_is_auto_gen_sum_ops_tag"


class Words(ClassicVocabulary):
    """The core's own operators as Caffe2 names them, on Caffe2's devices; additions are marked."""

    def sum(self, terms: Sequence[str], out: str, device: Any) -> list[Operator]:
        """One n-ary ``Sum``."""
        return [Operator("Sum", tuple(terms), (out,), device=_marked(device))]

    def concat_slices(
        self, slices: Sequence[GradientSlice], out: str, device: Any
    ) -> tuple[list[Operator], GradientSlice]:
        """One ``Concat`` of the indices and one of the values, along axis 0."""
        return super().concat_slices(slices, out, _marked(device))

    def same_device(self, first: Any, second: Any) -> bool:
        """Device options that mean the same device; see `netgrad.caffe2.devices.same_device`."""
        return same_device(_option(first), _option(second))


def _marked(device: Device | None) -> Device:
    """The device of an addition, with the note that the backward pass wrote it.

    A device that says so keeps its other notes to itself.
    """
    option = DeviceOption() if device is None else device.option()
    mark = f"{ADDITION}:1"
    if f"{ONLY_ADDITION}:1" in option.extra_info:
        del option.extra_info[:]
    if mark not in option.extra_info:
        option.extra_info.append(mark)
    return Device.of(option)


def _option(device: Device | None) -> Any:
    return None if device is None else device.option()


def differentiate(
    definitions: Sequence[OperatorDef],
    targets: Mapping[str, Gradient | None] | Sequence[str],
    *,
    rules: RuleSource | None = None,
    wrt: Iterable[str] | None = None,
    overwritten: Literal["error", "keep"] = "error",
) -> tuple[list[OperatorDef], BackwardPass]:
    """The gradient operators of a list of operators, as Caffe2 would have written them.

    Args:
        definitions: The forward operators in order; they aren't changed.
        targets: The blobs to differentiate: names, for all-ones start gradients, or a mapping to their start
            gradients.
        rules: Where gradient makers are looked up; None: all of netgrad's.
        wrt: The blobs to differentiate by; None: every blob.
        overwritten: See `netgrad.core.backward_pass`.

    Returns:
        The gradient operators' definitions, and the core's result.

    Raises:
        NetgradError: See `netgrad.core.backward_pass`.
    """
    result = backward_pass(
        [to_operator(definition) for definition in definitions],
        targets,
        Makers() if rules is None else rules,
        wrt=wrt,
        overwritten=overwritten,
        vocabulary=Words(),
    )
    _check_kept(result)
    return [to_definition(operator) for operator in result.operators], result


def _check_kept(result: BackwardPass) -> None:
    """No gradient may end at an ``If`` or ``While`` that has perhaps not written the blob.

    Raises:
        UnsupportedOperatorError: One would.
    """
    if not any(op.type in ("If", "While") for op in result.forward):
        return
    asked = set(result.origins)
    writers: dict[str, list[Operator]] = {}
    version: dict[str, int] = {}
    for index, op in enumerate(result.forward):
        for blob in op.inputs:
            version.setdefault(blob, 0)
        for blob in op.outputs:
            version[blob] = version.get(blob, -1) + 1
            before = writers.setdefault(blob, [])
            lost = (
                op.type in ("If", "While")
                and index in asked
                and blob not in op.inputs
                and before
                and not ends_gradients(before[-1].type)
                and not _always_writes(op, blob)
                and _has_gradient(result, blob, version[blob])
            )
            if lost:
                raise UnsupportedOperatorError(
                    f"{op} may leave '{blob}' as it was, and the gradient would not reach {before[-1]}",
                    hint=f"list '{blob}' among the inputs of the {op.type}",
                )
            before.append(op)


def _always_writes(op: Operator, blob: str) -> bool:
    nets = [op.attributes.get(name) for name in ("then_net", "else_net")]
    return op.type == "If" and all(
        isinstance(net, NetDef) and any(blob in one.output for one in net.op) for net in nets
    )


def _has_gradient(result: BackwardPass, blob: str, version: int) -> bool:
    try:
        return result.gradient_of(blob, version) is not None
    except InvalidArgumentError:  # it had one, which an older version's has overwritten
        return True
