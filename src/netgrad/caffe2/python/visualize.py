"""Tensors as pictures: images, filters and channels side by side, drawn with matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isqrt, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def ChannelFirst(arr: Array) -> Array:
    """Images with their channels before height and width."""
    return np.moveaxis(arr, -1, -3)


def ChannelLast(arr: Array) -> Array:
    """Images with their channels after height and width."""
    return np.moveaxis(arr, -3, -1)


class PatchVisualizer:
    """Draws images that are arranged as (height, width) or (height, width, channels)."""

    def __init__(self, gap: int = 1) -> None:
        """Leave ``gap`` pixels between images that are drawn side by side."""
        self.gap = gap

    def ShowSingle(self, patch: Array, cmap: Any = None) -> Array:
        """Draw one image, and return it; a vector is taken as a square.

        Raises:
            ValueError: It has neither one nor three channels.
        """
        if patch.ndim == 1:
            patch = patch.reshape(self.get_patch_shape(patch))
        if patch.ndim > 2 and patch.shape[2] != 3:
            raise ValueError(f"an image has 3 channels if any, and there are {patch.shape[2]}")
        _pyplot().imshow(patch, cmap=_colours(patch.ndim == 2, cmap))
        return patch

    def ShowMultiple(
        self,
        patches: Array,
        ncols: int | None = None,
        cmap: Any = None,
        bg_func: Callable[[Array], Any] = np.mean,
    ) -> Array:
        """Draw images in rows, and return the whole.

        Args:
            patches: The images, one for each entry of the first axis.
            ncols: How many lie in a row: about as many as there are rows without it.
            cmap: The colours of images without channels: grey without it.
            bg_func: What the colour between them is computed by.

        Raises:
            ValueError: They have neither one nor three channels.
        """
        if patches.ndim == 2:
            patches = patches.reshape(len(patches), *self.get_patch_shape(patches[0]))
        if patches.ndim == 4 and patches.shape[3] == 1:
            patches = patches[..., 0]
        if patches.ndim == 4 and patches.shape[3] != 3:
            raise ValueError(f"images have 1 or 3 channels, and these {patches.shape[3]}")
        columns = ncols or ceil(sqrt(len(patches)))
        rows = ceil(len(patches) / columns)
        height, width = (size + self.gap for size in patches.shape[1:3])
        size = (rows * height - self.gap, columns * width - self.gap, *patches.shape[3:])
        whole: Array = np.ones(size) * bg_func(patches)
        for number, patch in enumerate(patches):
            top, left = number // columns * height, number % columns * width
            whole[top : top + patch.shape[0], left : left + patch.shape[1]] = patch
        pyplot = _pyplot()
        pyplot.imshow(whole, cmap=_colours(patches.ndim == 3, cmap), interpolation="nearest")
        pyplot.axis("off")
        return whole

    def ShowImages(self, patches: Array, *args: Any, **kwargs: Any) -> Array:
        """`ShowMultiple` of images whose values are brought between 0 and 1 first."""
        above = patches - patches.min()
        return self.ShowMultiple(above / (above.max() + np.finfo(np.float64).eps), *args, **kwargs)

    def ShowChannels(
        self, patch: Array, cmap: Any = None, bg_func: Callable[[Array], Any] = np.mean
    ) -> Array:
        """`ShowMultiple` of the channels of one image.

        Raises:
            ValueError: It has no channels.
        """
        if patch.ndim != 3:
            raise ValueError(f"an image with channels has 3 dims, and this one {patch.ndim}")
        return self.ShowMultiple(np.moveaxis(patch, 2, 0), cmap=cmap, bg_func=bg_func)

    def get_patch_shape(self, patch: Array) -> tuple[int, ...]:
        """The shape of a square image with these values: without channels, or else with three.

        Raises:
            ValueError: They make no square.
        """
        for size, channels in ((patch.size, ()), (patch.size // 3, (3,))):
            side = isqrt(size)
            if side * side * (3 if channels else 1) == patch.size:
                return (side, side, *channels)
        raise ValueError(f"{patch.size} values make no square image")


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install matplotlib"
        ) from error
    return pyplot


def _colours(is_grey: bool, cmap: Any) -> Any:
    return "gray" if is_grey and cmap is None else cmap


_SHARED = PatchVisualizer()


class NHWC:
    """Draws images whose channels come last. Nothing is returned: notebooks show the drawing alone."""

    @staticmethod
    def ShowSingle(*args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowSingle`."""
        _SHARED.ShowSingle(*args, **kwargs)

    @staticmethod
    def ShowMultiple(*args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowMultiple`."""
        _SHARED.ShowMultiple(*args, **kwargs)

    @staticmethod
    def ShowImages(*args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowImages`."""
        _SHARED.ShowImages(*args, **kwargs)

    @staticmethod
    def ShowChannels(*args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowChannels`."""
        _SHARED.ShowChannels(*args, **kwargs)


class NCHW:
    """Draws images whose channels come before height and width."""

    @staticmethod
    def ShowSingle(patch: Array, *args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowSingle`."""
        _SHARED.ShowSingle(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowMultiple(patch: Array, *args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowMultiple`."""
        _SHARED.ShowMultiple(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowImages(patch: Array, *args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowImages`."""
        _SHARED.ShowImages(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowChannels(patch: Array, *args: Any, **kwargs: Any) -> None:
        """See `PatchVisualizer.ShowChannels`."""
        _SHARED.ShowChannels(ChannelLast(patch), *args, **kwargs)
