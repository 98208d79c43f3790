"""Functions of each element."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.helpers.parameters import engine, parameter


def relu(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """``Relu``; in place if the names are the same."""
    return model.net.Relu(blob_in, blob_out, engine=engine(use_cudnn), order=order, **kwargs)


def tanh(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """``Tanh``; in place if the names are the same."""
    return model.net.Tanh(blob_in, blob_out, engine=engine(use_cudnn), order=order, **kwargs)


def prelu(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    num_channels: int = 1,
    slope_init: Any = None,
    **kwargs: Any,
) -> Any:
    """A Relu whose slope ``<out>_slope`` for negative numbers is learned."""
    slope = parameter(
        model,
        f"{blob_out}_slope",
        [num_channels],
        slope_init,
        None,
        ("ConstantFill", {"value": 0.25}),
        None,
    )
    return model.net.PRelu([blob_in, slope], [blob_out])
