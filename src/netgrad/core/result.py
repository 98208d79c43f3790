"""What a backward pass gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from netgrad.core.accumulation import Accumulation, Accumulator
from netgrad.core.errors import InvalidArgumentError
from netgrad.core.naming import Names
from netgrad.core.operator import Gradient, Operator
from netgrad.core.versions import NONE, Versions


@dataclass(frozen=True)
class BackwardPass:
    """What `backward_pass` returns.

    Attributes:
        operators: The gradient operators in order: start gradients, then for each forward operator, from
            last to first, those of its rule and the additions for the values that it is the first to read.
        origins: For each gradient operator, the index of the forward operator that it belongs to: the one
            whose rule wrote it or, for an addition, the reader whose contribution caused it. None for a
            start gradient.
        gradients: Blob to gradient. A blob that has several versions with a gradient shows the newest whose
            gradient its blob still holds when all operators have run; ``versions`` says which that is. The
            gradients of targets and of blobs in ``wrt`` are always held.
        forward: The forward operators, changed only with ``overwritten="keep"``.
    """

    operators: tuple[Operator, ...]
    origins: tuple[int | None, ...]
    gradients: Mapping[str, Gradient]
    forward: tuple[Operator, ...]
    _values: Versions = field(repr=False, compare=False)
    _sums: Accumulator = field(repr=False, compare=False)
    _names: Names = field(repr=False, compare=False)

    @cached_property
    def versions(self) -> Mapping[str, int]:
        """Blob to the version to which its entry in ``gradients`` belongs."""
        if not self._values.following:
            return dict.fromkeys(self.gradients, 0)
        return {
            self._values.blobs[value]: self._values.number(value)
            for value in _shown(self._values, self._sums, self._names)
        }

    @cached_property
    def accumulations(self) -> tuple[Accumulation, ...]:
        """The values whose gradient was added up from several contributions, in the order of the sums."""
        return self._sums.records(self._names)

    def gradient_of(self, blob: str, version: int | None = None) -> Gradient | None:
        """The gradient of one value, None if no gradient reaches it.

        Args:
            blob: Name of the blob.
            version: Its version, counted as in the forward list; None for the last one.

        Raises:
            InvalidArgumentError: There is no such value, or its gradient is overwritten, while the gradient
                operators run, by that of an older version of the blob.
        """
        value = self._values.value(blob, version)
        if value == NONE:
            if blob not in self._values.last:
                raise InvalidArgumentError(f"the net has no blob '{blob}'")
            newest = self._values.number(self._values.last[blob])
            raise InvalidArgumentError(
                f"blob '{blob}' has no version {version}; its versions are 0 to {newest}"
            )
        total = self._sums.totals[value]
        if total is None:
            return None
        held = self._names.held(total)
        if held is None:
            raise InvalidArgumentError(
                f"the gradient of version {self._values.number(value)} of blob '{blob}' is overwritten by "
                f"that of an older version",
                hint=f"name '{blob}' in wrt, or pass single_assignment=True",
            )
        return held


def make_result(
    operators: tuple[Operator, ...],
    origins: tuple[int | None, ...],
    forward: tuple[Operator, ...],
    values: Versions,
    sums: Accumulator,
    names: Names,
) -> BackwardPass:
    """The result, with the map from blob to gradient."""
    order: Iterable[int] = sums.order
    if values.following:
        order = _shown(values, sums, names)
    totals: list[Any] = list(map(sums.totals.__getitem__, order))  # all are complete
    gradients = names.of_each(totals)
    by_blob = dict(zip(map(values.blobs.__getitem__, order), gradients, strict=True))
    return BackwardPass(operators, origins, by_blob, forward, values, sums, names)


def _shown(values: Versions, sums: Accumulator, names: Names) -> list[int]:
    """Of each blob that has a gradient, the newest version whose gradient is held."""
    shown: dict[str, int] = {}
    for value in sums.order:  # newer versions of a blob come before older ones
        blob = values.blobs[value]
        if blob not in shown and names.held(sums.total(value)) is not None:
            shown[blob] = value
    return list(shown.values())
