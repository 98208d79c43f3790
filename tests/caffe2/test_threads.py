"""How many threads an operator may use: by flags of the native runtime and by the environment."""

from __future__ import annotations

import pytest

from netgrad.caffe2 import threads
from netgrad.caffe2.python import core


@pytest.fixture(autouse=True)
def _nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_given", [])
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)


@pytest.mark.parametrize(
    ("text", "expected"), [("3", 3), ("4,2", 4), ("0", None), ("", None), ("many", None), (" 2 ", 2)]
)
def test_the_environment(text: str, expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert threads.number() == expected


def test_without_any_it_is_for_onnx_runtime_to_say() -> None:
    assert threads.number() is None


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--caffe2_omp_num_threads=2"], 2),
        (["--caffe2_mkl_num_threads=3"], 3),
        (["--caffe2_omp_num_threads=2", "--caffe2_mkl_num_threads=3"], 3),
        (["--caffe2_omp_num_threads=0"], 5),
        (["--caffe2_log_level=0"], 5),
    ],
)
def test_flags_come_before_the_environment(
    flags: list[str], expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    core.GlobalInit(["program", *flags])
    assert threads.number() == expected
    core.GlobalInit(["program"])
    assert threads.number() == expected
