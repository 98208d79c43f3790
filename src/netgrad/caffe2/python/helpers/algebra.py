"""Sums, products and transpositions."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.helpers.parameters import engine


def sum(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Sum``."""
    return model.net.Sum(blob_in, blob_out, **kwargs)


def transpose(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Transpose``."""
    return model.net.Transpose(blob_in, blob_out, engine=engine(use_cudnn), **kwargs)


def batch_mat_mul(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``BatchMatMul``."""
    return model.net.BatchMatMul(blob_in, blob_out, **kwargs)
