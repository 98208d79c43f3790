"""A test case that compares results of nets and models."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class TestCase(unittest.TestCase):
    """Draws the same random numbers in each test."""

    def setUp(self) -> None:
        """Seed NumPy's random numbers."""
        np.random.seed(seed=0)

    def assertSameOutputs(self, outputs1: Sequence[Any], outputs2: Sequence[Any], decimal: int = 7) -> None:
        """Check that arrays have the same element types, and the same values but for rounding."""
        assert len(outputs1) == len(outputs2), f"{len(outputs1)} outputs and {len(outputs2)}"
        for first, second in zip(outputs1, outputs2, strict=True):
            assert first.dtype == second.dtype, f"{first.dtype} and {second.dtype}"
            np.testing.assert_almost_equal(first, second, decimal=decimal)

    def add_test_case(self, name: str, test_func: Callable[..., Any]) -> None:
        """Add a test.

        Raises:
            ValueError: The name is taken, or doesn't begin with ``test_``.
        """
        if not name.startswith("test_"):
            raise ValueError(f"the name of a test begins with test_, and this is '{name}'")
        if hasattr(self, name):
            raise ValueError(f"there is a test '{name}' already")
        setattr(self, name, test_func)
