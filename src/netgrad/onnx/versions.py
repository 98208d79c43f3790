"""For which versions of each operator set netgrad's rules and expansions were written.

Every statement is in the one table here. An operator that a later version of its set defines anew is refused,
not taken for what it used to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import onnx.defs

REVIEWED = {
    "": 28,
    "ai.onnx.ml": 5,
    "ai.onnx.preview.training": 1,
    "com.microsoft": 1,
}
"""Domain -> the newest version of it whose every operator was read by the authors of the rules."""


@cache
def defined_in(op_type: str, version: int, domain: str = "") -> int | None:
    """The version in which an operator got the definition that it has in ``version``; None: unknown."""
    try:
        return int(onnx.defs.get_schema(op_type, version, domain).since_version)
    except onnx.defs.SchemaError:
        return None


def too_new(op_type: str, domain: str, imports: Mapping[str, int], newest: int | None = None) -> str | None:
    """Why an operator is newer than what netgrad has for it; None if it is not.

    Args:
        op_type: Operator type.
        domain: Operator domain.
        imports: Version of each domain that the model imports.
        newest: The newest version that is understood; None: that of `REVIEWED`, or any for a domain that is
            not there.
    """
    known = REVIEWED.get(domain) if newest is None else newest
    imported = imports.get(domain)
    if known is None or imported is None or imported <= known:
        return None
    defined = defined_in(op_type, imported, domain)
    if defined is not None and defined <= known:
        return None  # not changed since
    if defined is None:
        where = domain or "the standard"
        return f"the model is of version {imported} of {where}, and netgrad knows versions up to {known}"
    return f"version {defined} of its operator set defines it anew, and netgrad knows versions up to {known}"
