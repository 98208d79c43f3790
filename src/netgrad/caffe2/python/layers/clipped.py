"""Parameters that are clipped to a range before they are used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def clip_arguments(clip_param: Sequence[float | None] | None) -> dict[str, float] | None:
    """The arguments of ``Clip`` for a pair of bounds, either of which may be None; None if there is no pair.

    Raises:
        AssertionError: It is no pair, has no bound, or the lower bound is not below the upper one.
    """
    if clip_param is None:
        return None
    assert len(clip_param) == 2, f"clip_param is a smallest and a largest value, not {clip_param!r}"
    low, high = clip_param
    assert low is not None or high is not None, "clip_param has no bound: both are None"
    assert low is None or high is None or low < high, (
        f"the bounds of clip_param are in the wrong order: {low}, {high}"
    )
    return {key: bound for key, bound in (("min", low), ("max", high)) if bound is not None}


def clipped(net: Any, params: Sequence[Any], arguments: dict[str, float] | None) -> list[Any]:
    """The parameters themselves without arguments, else clipped copies."""
    if arguments is None:
        return list(params)
    return [net.Clip([param], [net.NextScopedBlob(f"clipped_{param}")], **arguments) for param in params]
