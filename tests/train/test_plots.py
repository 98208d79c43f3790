"""Pictures of a training."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from netgrad.core.errors import InvalidArgumentError, NetgradError
from netgrad.train.plots import learning_curve
from netgrad.train.report import EpochRecord


def history(validation: bool) -> list[EpochRecord]:
    return [
        EpochRecord(
            epoch=k,
            step=10 * k,
            samples=50,
            seconds=0.1,
            learning_rate=0.1,
            training={"loss": 1.0 / k, "accuracy": 1 - 0.5 / k},
            validation={"loss": 1.1 / k, "accuracy": 1 - 0.6 / k} if validation else None,
        )
        for k in (1, 2, 3)
    ]


@pytest.mark.parametrize("validation", [False, True])
def test_a_picture_is_written(validation: bool, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    learning_curve(history(validation), tmp_path / "curve.png")
    content = (tmp_path / "curve.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 5000
    assert [each.name for each in tmp_path.iterdir()] == ["curve.png"]
    with pytest.raises(NetgradError, match="cannot write"):
        learning_curve(history(validation), tmp_path / "no" / "curve.png")


def test_nothing_to_draw() -> None:
    with pytest.raises(InvalidArgumentError, match="no epoch"):
        learning_curve([], "curve.png")


def test_without_matplotlib_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NetgradError, match=r"needs matplotlib(?s:.*)netgrad\[plot\]"):
        learning_curve(history(False), tmp_path / "curve.png")
