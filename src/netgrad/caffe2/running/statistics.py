"""Statistics: whole numbers by name."""

from __future__ import annotations


class StatRegistry:
    """Whole numbers by name, which are added up; a name that was there stays.

    Attributes:
        numbers: The numbers.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}

    def add(self, name: bytes, number: int = 1) -> None:
        """Add to a number, which is 0 before."""
        self.numbers[name] = self.numbers.get(name, 0) + number

    def reset(self) -> None:
        """Let all numbers be 0."""
        self.numbers = dict.fromkeys(self.numbers, 0)


everywhere = StatRegistry()
"""The statistics of the process."""
