"""Blobs of eight bits."""

from __future__ import annotations

from typing import Any


def fused_8bit_rowwise_quantized_to_float(model: Any, blob_in: Any, blob_out: Any) -> Any:
    """``Fused8BitRowwiseQuantizedToFloat``."""
    return model.net.Fused8BitRowwiseQuantizedToFloat(blob_in, blob_out)
