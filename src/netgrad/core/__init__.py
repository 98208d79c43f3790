"""The core: operators on named blobs, and the algorithm that writes their backward pass."""

from netgrad.core.accumulation import Accumulation, Contribution
from netgrad.core.backward import backward_pass
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
from netgrad.core.registry import RuleRegistry, RuleSource
from netgrad.core.result import BackwardPass
from netgrad.core.vocabulary import ClassicVocabulary, Vocabulary

__all__ = [
    "Accumulation",
    "AccumulationError",
    "BackwardPass",
    "ClassicVocabulary",
    "Contribution",
    "Gradient",
    "GradientSlice",
    "InvalidArgumentError",
    "InvalidModelError",
    "MissingRule",
    "NetgradError",
    "Operator",
    "OverwrittenBlobError",
    "RuleError",
    "RuleRegistry",
    "RuleSource",
    "RuntimeFailureError",
    "UnsupportedOperatorError",
    "Vocabulary",
    "backward_pass",
]
