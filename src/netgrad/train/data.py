"""Data as batches: arrays that are shuffled by a seed, or whatever yields batches itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from netgrad.core.errors import InvalidArgumentError

Array: TypeAlias = npt.NDArray[Any]
Batch: TypeAlias = Mapping[str, Any]
Data: TypeAlias = (
    "Batches | Mapping[str, Any] | tuple[Any, ...] | Iterable[Batch] | Callable[[int], Iterable[Batch]]"
)
"""What `fit` and `evaluate` take: arrays by input name; a tuple of arrays in the order of the inputs;
something that gives batches each time it is iterated; a function from the epoch (0 for the first) to such
a thing."""


class Batches(ABC):
    """Batches that can be gone through once per epoch, from any batch on."""

    @abstractmethod
    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch.

        Args:
            epoch: Number of the epoch, from 0.
            start: Number of batches to leave out, so that an epoch can be continued.
        """

    @property
    @abstractmethod
    def count(self) -> int | None:
        """Batches per epoch, None where unknown."""


class ArrayBatches(Batches):
    """Arrays with one sample per entry of the first axis, cut into batches.

    The order of epoch e is a permutation by NumPy's PCG64 seeded with (seed, e): it depends on nothing
    else, so a training that is resumed goes on with the same batches.
    """

    def __init__(
        self,
        arrays: Mapping[str, Any],
        batch_size: int,
        *,
        seed: int | None = None,
        drop_last: bool = False,
    ) -> None:
        """Cut ``arrays`` into batches.

        Args:
            arrays: By input name; all of the same length on axis 0.
            batch_size: Samples per batch, at least 1.
            seed: Seed of the order, or None for the order of the arrays.
            drop_last: Whether to leave out a last batch that is smaller than the others.

        Raises:
            InvalidArgumentError: Arrays of different lengths, without a first axis, or shorter than a
                batch that has to be full.
        """
        if batch_size < 1:
            raise InvalidArgumentError(f"`batch_size` is {batch_size}; it is at least 1")
        self._arrays: dict[str, Array] = {name: np.asarray(array) for name, array in arrays.items()}
        if not self._arrays:
            raise InvalidArgumentError("the data has no arrays")
        scalars = [name for name, array in self._arrays.items() if array.ndim == 0]
        if scalars:
            raise InvalidArgumentError(
                f"'{scalars[0]}' is one number; data has one sample per entry of axis 0"
            )
        lengths = {name: len(array) for name, array in self._arrays.items()}
        if len(set(lengths.values())) > 1:
            raise InvalidArgumentError(
                "the data's arrays have different numbers of samples: "
                + ", ".join(f"'{name}' {length}" for name, length in lengths.items())
            )
        self._samples = next(iter(lengths.values()))
        self._size, self._seed, self._drop_last = batch_size, seed, drop_last
        if not self.count:
            raise InvalidArgumentError(
                f"the data has {self._samples} samples, which is not enough for one batch of {batch_size}"
                if drop_last
                else "the data has no samples"
            )

    @property
    def count(self) -> int:
        """Batches per epoch."""
        full, rest = divmod(self._samples, self._size)
        return full + (1 if rest and not self._drop_last else 0)

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch (see `Batches.epoch`)."""
        order = None
        if self._seed is not None:
            order = np.random.Generator(np.random.PCG64([self._seed, epoch])).permutation(self._samples)
        for index in range(start, self.count):
            begin, end = index * self._size, min((index + 1) * self._size, self._samples)
            chosen: Any = slice(begin, end) if order is None else order[begin:end]
            yield {name: array[chosen] for name, array in self._arrays.items()}


class IteratedBatches(Batches):
    """Batches that something else makes; to continue an epoch, those done are gone through once more."""

    def __init__(self, source: Iterable[Batch] | Callable[[int], Iterable[Batch]]) -> None:
        self._source = source
        self._used = False

    @property
    def count(self) -> int | None:
        """Batches per epoch, if the source knows."""
        try:
            return len(self._source)  # type: ignore[arg-type]
        except TypeError:
            return None

    def epoch(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch (see `Batches.epoch`)."""
        source = self._source(epoch) if callable(self._source) else self._source
        if isinstance(source, Iterator) and not callable(self._source):
            if self._used:
                raise InvalidArgumentError(
                    "the data is an iterator, which gives its batches once, but is needed for another epoch",
                    hint="give a list, an object that can be iterated again, or a function of the epoch",
                )
            self._used = True
        return islice(iter(source), start, None)


def as_batches(
    data: Data,
    inputs: Sequence[str],
    batch_size: int,
    *,
    seed: int | None = None,
    drop_last: bool = False,
) -> Batches:
    """``data`` as batches.

    Args:
        data: See `Data`.
        inputs: The names that the arrays of a tuple belong to.
        batch_size: Samples per batch, for arrays.
        seed: Seed of the order, or None for the order of the arrays.
        drop_last: Whether to leave out a last batch that is smaller, for arrays.

    Raises:
        InvalidArgumentError: Data of another kind, or arrays that don't fit each other.
    """
    if isinstance(data, Batches):
        return data
    if isinstance(data, tuple):
        if len(data) != len(inputs):
            raise InvalidArgumentError(
                f"the data is a tuple of {len(data)} arrays, but the step has {len(inputs)} batch inputs: "
                f"{', '.join(inputs)}"
            )
        data = dict(zip(inputs, data, strict=True))
    if isinstance(data, Mapping):
        return ArrayBatches(data, batch_size, seed=seed, drop_last=drop_last)
    if callable(data) or isinstance(data, Iterable):
        return IteratedBatches(data)
    raise InvalidArgumentError(
        f"data is {type(data).__name__}; it can be arrays by name, a tuple of arrays, or an iterable of "
        "batches"
    )


def samples_in(batch: Batch) -> int:
    """Number of samples: length of the first axis of the first array that has one, else 1."""
    for array in batch.values():
        shape = np.shape(array)
        if shape:
            return int(shape[0])
    return 1
