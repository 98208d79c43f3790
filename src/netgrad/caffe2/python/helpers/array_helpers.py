"""Joins of blobs."""

from __future__ import annotations

from typing import Any


def concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``Concat``; the sizes go to ``_<out>_concat_dims``."""
    if kwargs.get("order") and kwargs.get("axis"):
        kwargs.pop("order")  # an axis counts more
    return model.net.Concat(blobs_in, [blob_out, f"_{blob_out}_concat_dims"], **kwargs)[0]


def depth_concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """`concat` under its old name."""
    return concat(model, blobs_in, blob_out, **kwargs)
