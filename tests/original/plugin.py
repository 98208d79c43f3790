"""A plugin for pytest that puts netgrad in the original's place before a test file is imported."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import hypothesis
import pytest

import netgrad.caffe2
from tests.original.files import ROOT

EXAMPLES = "ORIGINAL_EXAMPLES"
"""The environment variable that says how many examples are drawn per test."""

TESTS = "ORIGINAL_TESTS"
"""The environment variable that names a file with the tests that are wanted, ``class::test`` in each line."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what doesn't count: some tests that fail with the original download gigabytes."""
    if TESTS not in os.environ:
        return
    wanted = set(Path(os.environ[TESTS]).read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if _name(item) not in wanted])
    items[:] = [item for item in items if _name(item) in wanted]


def _name(item: pytest.Item) -> str:
    """A test as a report calls it: a function that is in no class by the name of its file."""
    file, _, rest = item.nodeid.partition("::")
    return rest if "::" in rest else f"{Path(file).stem}::{rest}"


class _Settings(hypothesis.settings):
    """Settings that don't mind options which hypothesis has dropped since."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{name: value for name, value in options.items() if name not in _DROPPED})


_DROPPED = ("timeout", "min_satisfying_examples", "use_coverage", "perform_health_check")


def _as_once(strategy: Callable[..., Any]) -> Callable[..., Any]:
    """A strategy that takes the size that is wanted on average, as it once did."""

    def call(*args: Any, average_size: int | None = None, **options: Any) -> Any:
        return strategy(*args, **options)

    return call


def pytest_configure() -> None:
    """Make ``caffe2.python`` importable, and the helpers that stand among the original's tests."""
    netgrad.caffe2.install()
    importlib.import_module("caffe2.python")
    for name in ("operator_test", "test"):
        module = ModuleType(f"caffe2.python.{name}")
        module.__path__ = [str(ROOT / name)]
        sys.modules[module.__name__] = module
        setattr(sys.modules["caffe2.python"], name, module)
    importlib.import_module("caffe2.python.hypothesis_test_util")  # which sets a profile
    # A test that fails is not made smaller, which takes minutes.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    profile = hypothesis.settings(hypothesis.settings(), phases=phases, database=None, deadline=None)
    if EXAMPLES in os.environ:
        profile = hypothesis.settings(profile, max_examples=int(os.environ[EXAMPLES]))
    hypothesis.settings.register_profile("original", profile)
    hypothesis.settings.load_profile("original")
    hypothesis.settings = _Settings  # type: ignore[misc]
    for name in ("lists", "text"):
        setattr(hypothesis.strategies, name, _as_once(getattr(hypothesis.strategies, name)))
