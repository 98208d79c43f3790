"""The order of the tests: what takes minutes comes first, so that no worker is left with it at the end."""

from __future__ import annotations

import pytest

LONG = ("tests/transforms/test_zoo.py", "tests/caffe2/test_examples.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long files first; else the order stays."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
