"""The core: operators on named blobs, and the algorithm that writes their backward pass."""

from netgrad.core.errors import (
    AccumulationError,
    InvalidArgumentError,
    InvalidModelError,
    MissingRule,
    NetgradError,
    OverwrittenBlobError,
    RuleError,
    RuntimeFailureError,
    UnsupportedOperatorError,
)
from netgrad.core.operator import Gradient, GradientSlice, Operator

__all__ = [
    "AccumulationError",
    "Gradient",
    "GradientSlice",
    "InvalidArgumentError",
    "InvalidModelError",
    "MissingRule",
    "NetgradError",
    "Operator",
    "OverwrittenBlobError",
    "RuleError",
    "RuntimeFailureError",
    "UnsupportedOperatorError",
]
