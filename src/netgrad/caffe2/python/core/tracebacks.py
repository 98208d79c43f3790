"""Where the operators of nets were created."""

from __future__ import annotations

import sys
from collections import defaultdict
from pathlib import Path
from typing import TextIO

_OURS = str(Path(__file__).parents[2])
_DEPTH = 20

Place = tuple[str, int, str]
"""File, line and function of a call."""

operator_tracebacks: defaultdict[str, dict[int, list[Place]]] = defaultdict(dict)
"""By net and index of the operator: the calls of the script, the innermost first."""


def remember(net: str, index: int) -> None:
    """Note the calls that have led here for an operator of a net."""
    places: list[Place] = []
    frame = sys._getframe(1)
    while frame is not None and len(places) < _DEPTH:
        code = frame.f_code
        if not code.co_filename.startswith(_OURS):
            places.append((code.co_filename, frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    operator_tracebacks[net][index] = places


def show(net: str, index: int, file: TextIO) -> None:
    """Print where an operator of a net was created, if that is known."""
    places = operator_tracebacks.get(net, {}).get(index)
    if not places:
        return
    print(
        f"Original python traceback for operator {index} in network `{net}` in exception above "
        "(most recent call last):",
        file=file,
    )
    for name, line, function in reversed(places):
        print(f'  File "{name}", line {line}, in {function}', file=file)
