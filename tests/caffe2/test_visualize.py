"""Tensors as pictures."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pytest

from netgrad.caffe2.python import visualize

mpl.use("Agg")


def test_images_lie_side_by_side() -> None:
    """Three of 2 x 2 in two columns, with the mean of all values between and beside them."""
    images = np.arange(12.0).reshape(3, 2, 2)
    mean = images.mean()
    whole = visualize.PatchVisualizer(gap=1).ShowMultiple(images)
    expected = [
        [0, 1, mean, 4, 5],
        [2, 3, mean, 6, 7],
        [mean] * 5,
        [8, 9, mean, mean, mean],
        [10, 11, mean, mean, mean],
    ]
    np.testing.assert_array_equal(whole, expected)
    flat = visualize.PatchVisualizer().ShowMultiple(images.reshape(3, 4), ncols=3, bg_func=np.min)
    assert flat.shape == (2, 8)
    assert flat[:, 2].tolist() == [0, 0]


def test_channels_and_colours() -> None:
    draws = visualize.PatchVisualizer(gap=0)
    image = np.arange(12.0).reshape(2, 2, 3)
    np.testing.assert_array_equal(draws.ShowSingle(image), image)
    np.testing.assert_array_equal(draws.ShowSingle(np.arange(4.0)), [[0, 1], [2, 3]])
    assert draws.ShowChannels(image)[:2, :2].tolist() == [[0, 3], [6, 9]]
    assert draws.ShowMultiple(image[None]).shape == (2, 2, 3)
    shown = draws.ShowImages(np.array([[[3.0, 5.0], [4.0, 7.0]]]))
    np.testing.assert_allclose(shown, [[0, 0.5], [0.25, 1]])
    assert draws.get_patch_shape(np.zeros(27)) == (3, 3, 3)
    first = visualize.ChannelFirst(image)
    assert first.shape == (3, 2, 2)
    np.testing.assert_array_equal(visualize.ChannelLast(first), image)


def test_both_arrangements() -> None:
    image = np.ones((2, 4, 5, 3))
    for draws, given in ((visualize.NHWC, image), (visualize.NCHW, visualize.ChannelFirst(image))):
        draws.ShowMultiple(given)
        draws.ShowImages(given)
        draws.ShowSingle(given[0])
        draws.ShowChannels(given[0])


@pytest.mark.parametrize(
    ("draw", "shape"),
    [
        ("ShowSingle", (2, 2, 4)),
        ("ShowMultiple", (2, 2, 2, 4)),
        ("ShowChannels", (2, 2)),
        ("ShowSingle", (5,)),
    ],
)
def test_what_is_no_image_is_an_error(draw: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"image"):
        getattr(visualize.PatchVisualizer(), draw)(np.ones(shape))
