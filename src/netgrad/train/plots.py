"""Pictures of a training."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path

from netgrad.core.errors import InvalidArgumentError, NetgradError
from netgrad.onnx.files import replacing
from netgrad.train.report import EpochRecord


def learning_curve(
    history: Sequence[EpochRecord], path: str | os.PathLike[str], *, title: str = "Learning curve"
) -> None:
    """Draw loss and metrics over the epochs into a PNG file, one panel per figure.

    Args:
        history: The records that `Trainer.fit` returns.
        path: The file; written whole or not at all.
        title: Stands above the panels.

    Raises:
        InvalidArgumentError: There are no records.
        NetgradError: matplotlib is not installed, or the file cannot be written.
    """
    if not history:
        raise InvalidArgumentError("there is nothing to draw: no epoch is done")
    try:
        from matplotlib.figure import Figure
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise NetgradError(
            "drawing a learning curve needs matplotlib, which is not installed",
            hint="pip install 'netgrad[plot]'",
        ) from None
    names = list(history[0].training)
    epochs = [record.epoch for record in history]
    figure = Figure(figsize=(5.5 * len(names), 4.0), layout="constrained")
    for column, name in enumerate(names, 1):
        axes = figure.add_subplot(1, len(names), column)
        axes.plot(epochs, [record.training[name] for record in history], marker="o", label="training")
        checked = [(r.epoch, r.validation[name]) for r in history if r.validation and name in r.validation]
        if checked:
            axes.plot(*zip(*checked, strict=True), marker="s", linestyle="--", label="validation")
        axes.set_xlabel("epoch")
        axes.set_ylabel(name)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(alpha=0.3)
        axes.legend()
    figure.suptitle(title)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    try:
        with replacing(Path(os.path.realpath(path))) as file:
            file.write(buffer.getvalue())
    except OSError as error:
        raise NetgradError(f"cannot write '{path}': {error.strerror or error}") from error
