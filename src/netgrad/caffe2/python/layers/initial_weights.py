"""How the weights of layers start, where nothing else is said."""

from __future__ import annotations

import math
from typing import Any


def uniform(inputs: float, numerator: float = 1.0) -> tuple[str, dict[str, Any]]:
    """Uniform between plus and minus the root of ``numerator / inputs``."""
    scale = math.sqrt(numerator / inputs)
    return ("UniformFill", {"min": -scale, "max": scale})
