"""Layers that leave elements out at random."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.helpers.parameters import engine


def dropout(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """``Dropout``; ``is_test`` must be said. The mask goes to ``_<out>_mask``."""
    assert "is_test" in kwargs, "dropout needs is_test: whether the model is only run"
    outputs = [blob_out, f"_{blob_out}_mask"]
    return model.net.Dropout(blob_in, outputs, engine=engine(use_cudnn), **kwargs)[0]
