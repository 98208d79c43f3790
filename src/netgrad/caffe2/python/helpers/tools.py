"""Readers of data, as layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def image_input(
    model: Any,
    blob_in: Any,
    blob_out: Sequence[Any],
    order: str = "NCHW",
    use_gpu_transform: bool = False,
    **kwargs: Any,
) -> Any:
    """``ImageInput`` from a reader: images and labels.

    It reads images with the channels last. In the order NCHW they go to ``<images>_nhwc`` and are turned,
    unless it is said to do that itself (``use_gpu_transform``).
    """
    if order != "NCHW":
        return model.net.ImageInput(blob_in, blob_out, **kwargs)
    if use_gpu_transform:
        return model.net.ImageInput(blob_in, blob_out, use_gpu_transform=1, **kwargs)
    images, *others = blob_out
    read, *rest = model.net.ImageInput(blob_in, [f"{images}_nhwc", *others], **kwargs)
    return (model.net.NHWC2NCHW(read, images), *rest)


def video_input(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """``VideoInput`` from a reader."""
    return model.net.VideoInput(blob_in, blob_out, **kwargs)
