"""Operators whose second derivatives are not compared with differences, each with its reason.

The operator reference shows them; a test holds the list against the rows of the table.
"""

from __future__ import annotations

_SINGLE = "the runtimes compute it in float32 only, where differences of a gradient are rounding"

UNMEASURED = {
    "CausalConvWithState": _SINGLE,
    "Celu": _SINGLE,
    "DequantizeLinear": _SINGLE,
    "DynamicQuantizeLinear": _SINGLE,
    "LinearAttention": _SINGLE,
    "MaxRoiPool": _SINGLE,
    "MaxUnpool": _SINGLE,
    "MeanVarianceNormalization": _SINGLE,
    "RotaryEmbedding": _SINGLE,
}
