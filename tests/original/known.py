"""What of the original's tests netgrad isn't measured by, and which of the others fail, and why."""

from __future__ import annotations

import re

EXCLUDED: dict[str, str] = {
    "ideep/": "operators of MKL-DNN",
    "mkl/": "operators of MKL",
    "trt/": "TensorRT",
}
"""Starts of paths of test files that are left out, with the reason."""

KNOWN: dict[str, str] = {}
"""Patterns of tests, as ``file::class::test``, that pass with the original and fail here, with the reason."""


def reason_for(test: str) -> str | None:
    """Why a test may fail; None where it may not."""
    return next((reason for pattern, reason in KNOWN.items() if re.fullmatch(pattern, test)), None)
