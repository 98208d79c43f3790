"""What a training says while it runs: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SECONDS_BETWEEN_LINES = 10.0


@dataclass(frozen=True)
class EpochRecord:
    """What an epoch came to.

    Attributes:
        epoch: Number of the epoch, 1 for the first.
        step: Number of steps done in all.
        samples: Number of samples that the epoch saw.
        seconds: Time that the epoch took, validation included; only the last part of an epoch that was
            resumed.
        learning_rate: Learning rate of the epoch's last step.
        training: Loss and metrics, means over the epoch's samples while the parameters changed.
        validation: Loss and metrics on the validation data after the epoch; None without such data.
    """

    epoch: int
    step: int
    samples: int
    seconds: float
    learning_rate: float
    training: Mapping[str, float]
    validation: Mapping[str, float] | None = None

    def __str__(self) -> str:
        """One line."""
        parts = [f"epoch {self.epoch}", figures(self.training)]
        if self.validation is not None:
            parts.append(f"validation {figures(self.validation)}")
        return "  ".join([*parts, f"{self.seconds:.1f} s"])


def figures(values: Mapping[str, float]) -> str:
    """Named figures in one line."""
    return "  ".join(f"{name} {value:.4g}" for name, value in values.items())


class Reporter(Protocol):
    """Hears of a training's progress."""

    def begin(self, epoch: int, epochs: int, done: int, count: int | None) -> None:
        """An epoch begins: its number from 1, how many there are, batches done and in all."""

    def batch(self, done: int, values: Mapping[str, float]) -> None:
        """A batch is done: how many are, and the means so far."""

    def end(self, record: EpochRecord) -> None:
        """An epoch is done."""

    def close(self) -> None:
        """Nothing more will come."""


class Silent:
    """Says nothing."""

    def begin(self, epoch: int, epochs: int, done: int, count: int | None) -> None:
        """See `Reporter`."""

    def batch(self, done: int, values: Mapping[str, float]) -> None:
        """See `Reporter`."""

    def end(self, record: EpochRecord) -> None:
        """See `Reporter`."""

    def close(self) -> None:
        """See `Reporter`."""


class Lines:
    """A line per epoch on standard error, and one every ten seconds within an epoch."""

    def __init__(self) -> None:
        self._title = ""
        self._count = ""
        self._last = time.monotonic()

    def begin(self, epoch: int, epochs: int, done: int, count: int | None) -> None:
        """See `Reporter`."""
        self._title = f"epoch {epoch}/{epochs}"
        self._count = "" if count is None else f"/{count}"

    def batch(self, done: int, values: Mapping[str, float]) -> None:
        """See `Reporter`."""
        if time.monotonic() - self._last >= _SECONDS_BETWEEN_LINES:
            self._say(f"{self._title}  batch {done}{self._count}  {figures(values)}")

    def end(self, record: EpochRecord) -> None:
        """See `Reporter`."""
        self._say(str(record))

    def close(self) -> None:
        """See `Reporter`."""

    def _say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)
        self._last = time.monotonic()


class Bar:
    """A progress bar for the running epoch and a line for each one that is done, on standard error."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("", figures="", start=True)
        self._progress.start()

    def begin(self, epoch: int, epochs: int, done: int, count: int | None) -> None:
        """See `Reporter`."""
        self._progress.reset(self._task, description=f"epoch {epoch}/{epochs}", total=count, completed=done)

    def batch(self, done: int, values: Mapping[str, float]) -> None:
        """See `Reporter`."""
        self._progress.update(self._task, completed=done, figures=figures(values))

    def end(self, record: EpochRecord) -> None:
        """See `Reporter`."""
        self._progress.console.print(str(record), highlight=False)

    def close(self) -> None:
        """See `Reporter`."""
        self._progress.stop()


def reporter(progress: bool | None) -> Reporter:
    """The reporter for ``progress``: None for a bar on a terminal and lines elsewhere, False for silence."""
    if progress is False:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()
