"""Pools of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python.helpers.parameters import engine


def _pool(operator: str) -> Callable[..., Any]:
    def layer(
        model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
    ) -> Any:
        function = getattr(model.net, operator)
        return function(blob_in, blob_out, engine=engine(use_cudnn), order=order, **kwargs)

    layer.__doc__ = f"``{operator}``."
    return layer


max_pool = _pool("MaxPool")
average_pool = _pool("AveragePool")


def max_pool_with_index(model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", **kwargs: Any) -> Any:
    """``MaxPoolWithIndex``; the second output is ``<out>_index``."""
    return model.net.MaxPoolWithIndex(blob_in, [blob_out, f"{blob_out}_index"], order=order, **kwargs)[0]
