"""What a backward pass gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

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
        versions: Blob to the version to which its entry in ``gradients`` belongs.
        forward: The forward operators, changed only with ``overwritten="keep"``.
    """

    operators: tuple[Operator, ...]
    origins: tuple[int | None, ...]
    gradients: Mapping[str, Gradient]
    versions: Mapping[str, int]
    forward: tuple[Operator, ...]
    _values: Versions = field(repr=False, compare=False)
    _sums: Accumulator = field(repr=False, compare=False)
    _names: Names = field(repr=False, compare=False)

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
    blobs, total, number, held = values.blobs, sums.total, values.number, names.held
    if not values.following:  # every gradient is that of its blob's only version, and held
        gradients = dict(
            zip(
                map(blobs.__getitem__, sums.order),
                names.of_each(list(map(total, sums.order))),
                strict=True,
            )
        )
        versions = dict.fromkeys(gradients, 0)
        return BackwardPass(operators, origins, gradients, versions, forward, values, sums, names)
    gradients, versions = {}, {}
    for value in sums.order:  # newer versions of a blob come before older ones
        blob = blobs[value]
        if blob not in gradients:
            gradient = held(total(value))
            if gradient is not None:
                gradients[blob] = gradient
                versions[blob] = number(value)
    return BackwardPass(operators, origins, gradients, versions, forward, values, sums, names)
