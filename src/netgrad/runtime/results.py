"""What one run of ONNX Runtime has given."""

from __future__ import annotations

from typing import Any

import onnxruntime


class Results:
    """The outputs of one run by index; each becomes a value, of its own, when it is asked for first."""

    __slots__ = ("_found", "_values", "_wrap")

    def __init__(self, found: Any, *, wrap: bool = True) -> None:
        self._found = found
        self._wrap = wrap
        self._values: dict[int, onnxruntime.OrtValue] = {}

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, at: int) -> onnxruntime.OrtValue:
        value = self._values.get(at)
        if value is None:
            found = self._found[at]
            value = self._values.setdefault(at, onnxruntime.OrtValue(found) if self._wrap else found)
        return value
