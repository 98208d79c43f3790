"""Images as arrays of bytes (height, width, channels), colours in the order blue, green, red.

That is how the original holds them. Functions that draw take the generator of the operator.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt

from netgrad.caffe2.running.errors import RunError

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

_LUMA = np.array([0.114, 0.587, 0.299], np.float32)
"""The weights of blue, green and red in a grey value (ITU-R BT.601)."""

_COLOUR_AXES = 255 * np.array(
    [[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]], np.float32
)
_COLOUR_VARIANCES = np.array([0.2175, 0.0188, 0.0045], np.float32)
"""The principal components of ImageNet's colours, rows in the order red, green, blue.

Krizhevsky and others, "ImageNet classification with deep convolutional neural networks" (2012), section 4.1.
"""


def decoded(encoded: bytes, colour: bool) -> Image | None:
    """An encoded image, turned upright; None if it can't be read.

    Raises:
        RunError: The package that reads images is not installed.
    """
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise RunError(
            "images are decoded by the package Pillow, which is not installed: pip install 'netgrad[images]'"
        ) from error
    try:
        with PIL.Image.open(io.BytesIO(encoded)) as image:
            upright = PIL.ImageOps.exif_transpose(image)
            array = np.asarray(upright.convert("RGB" if colour else "L"))
    except (OSError, ValueError, SyntaxError, PIL.Image.DecompressionBombError):
        return None
    return np.ascontiguousarray(array[:, :, ::-1]) if colour else array[:, :, None]


def in_channels(image: Image, channels: int) -> Image:
    """An image in one channel or in three."""
    if image.shape[2] == channels:
        return image
    if channels == 3:
        return np.repeat(image, 3, axis=2)
    grey: Image = np.rint(image @ _LUMA).astype(np.uint8)[:, :, None]
    return grey


def resized(image: Image, height: int, width: int) -> Image:
    """An image in another size: each pixel is the mean of the area that it covers."""
    rows, columns = _shares(image.shape[0], height), _shares(image.shape[1], width)
    wide = np.tensordot(rows, image.astype(np.float32), axes=(1, 0))
    mean = np.einsum("wx,hxc->hwc", columns, wide)
    found: Image = np.rint(mean).clip(0, 255).astype(np.uint8)
    return found


def _shares(before: int, after: int) -> Floats:
    """How much of each of the new cells of a line, (after,), lies in each of the old ones, (before,)."""
    edges = np.arange(after + 1) * (before / after)
    cells = np.arange(before)
    ends = np.minimum(edges[1:, None], cells + 1)
    shares = np.clip(ends - np.maximum(edges[:-1, None], cells), 0, None) * (after / before)
    found: Floats = shares.astype(np.float32)
    return found


def random_part(image: Image, size: int, random: np.random.Generator) -> Image | None:
    """A part of 8 to 100 % of the area with sides of 3:4 to 4:3, as a square; None if ten draws didn't fit.

    Szegedy and others, "Going deeper with convolutions" (2014), section 6.
    """
    height, width = image.shape[:2]
    for _ in range(10):
        area = np.ceil(random.uniform(0.08, 1.0) * height * width)
        ratio = random.uniform(3 / 4, 4 / 3)
        part = int(np.sqrt(area / ratio)), int(np.sqrt(area * ratio))
        if 1 <= part[0] <= height and 1 <= part[1] <= width:
            top = random.integers(height - part[0], endpoint=True)
            left = random.integers(width - part[1], endpoint=True)
            return resized(image[top : top + part[0], left : left + part[1]], size, size)
    return None


def jittered(pixels: Floats, amounts: tuple[float, float, float], random: np.random.Generator) -> Floats:
    """Another saturation, brightness and contrast, in any order.

    Args:
        pixels: The image.
        amounts: By how much each of the three may be larger or smaller; 0.4 makes 60 to 140 % of it.
        random: The generator.
    """
    for change in random.permutation(3):
        factor = np.float32(1 + random.uniform(-1, 1) * amounts[change])
        grey: Floats = (pixels @ _LUMA)[:, :, None]
        neutral = (grey, np.zeros_like(grey), np.full_like(grey, grey.mean()))[change]
        pixels = pixels * factor + neutral * (1 - factor)
    return pixels


def lit(pixels: Floats, deviation: float, random: np.random.Generator) -> Floats:
    """All pixels shifted along the principal components of natural colours."""
    shift = _COLOUR_AXES @ (_COLOUR_VARIANCES * random.normal(0, deviation, 3).astype(np.float32))
    found: Floats = pixels + shift[::-1]
    return found
