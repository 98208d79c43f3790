"""How the package was built, as old scripts ask for it."""

from __future__ import annotations

CAFFE2_NO_OPERATOR_SCHEMA = False
"""Whether operators are without schemas: shapes can be inferred, and calls are checked."""

build_options: dict[str, str] = {}
"""Options of a compiler: none, as nothing was compiled."""
