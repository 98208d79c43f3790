"""Names for what a conversion adds."""

from __future__ import annotations

from collections.abc import Collection


class DummyName:
    """Gives names, each once."""

    def __init__(self) -> None:
        self.reset()

    def reset(self, used_names: Collection[str] = ()) -> None:
        """Start again, without the names that are used."""
        self._used = set(used_names)
        self._number = 0

    def new_dummy_name(self) -> str:
        """The next name."""
        while True:
            self._number += 1
            name = f"OC2_DUMMY_{self._number}"
            if name not in self._used:
                return name
