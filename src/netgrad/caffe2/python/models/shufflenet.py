"""Nets of shuffled channels.

Ma and others, "ShuffleNet V2: practical guidelines for efficient CNN architecture design" (2018).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import brew

# The channels behind the first convolution, of the three stages, and behind the last convolution.
SCALE_CHANNELS: dict[str, list[int]] = {
    "0.5x": [24, 48, 96, 192, 1024],
    "1.0x": [24, 116, 232, 464, 1024],
    "1.5x": [24, 176, 352, 704, 1024],
    "2.0x": [24, 244, 488, 976, 2048],
}
STRIDE_1_REPEAT = [3, 7, 3]
STRIDE_2_REPEAT = [1, 1, 1]


class ShuffleNetV2Builder:
    """Adds the layers of a net to a model; see `create_shufflenet`."""

    def __init__(
        self,
        model: Any,
        data: Any,
        num_input_channels: int,
        num_labels: int,
        num_groups: int = 2,
        output_channels: Sequence[int] = SCALE_CHANNELS["1.0x"],
        stride_1_repeat_times: Sequence[int] = STRIDE_1_REPEAT,
        stride_2_repeat_times: Sequence[int] = STRIDE_2_REPEAT,
        is_test: bool = False,
        detection: bool = False,
        use_bn: bool = True,
    ) -> None:
        """Prepare the net.

        Args:
            model: The model.
            data: The images.
            num_input_channels: Their channels.
            num_labels: Number of classes.
            num_groups: Groups between which channels are shuffled.
            output_channels: See `SCALE_CHANNELS`.
            stride_1_repeat_times: How many blocks of stride 1 the three stages have.
            stride_2_repeat_times: How many of stride 2, which come first.
            is_test: Whether batch normalization takes the running averages.
            detection: Whether each block begins with another convolution over 3 x 3 pixels.
            use_bn: Whether the blocks' convolutions are normalized.
        """
        self.model = model
        self.data = data
        self.num_input_channels = num_input_channels
        self.num_labels = num_labels
        self.num_groups = num_groups
        self.output_channels = output_channels
        self.stride_1_repeat_times = stride_1_repeat_times
        self.stride_2_repeat_times = stride_2_repeat_times
        self.is_test = is_test
        self.detection = detection
        self.use_bn = use_bn

    def create(self) -> tuple[Any, int]:
        """Add the net; returns the scores, and the number of classes."""
        first, *stages, last = self.output_channels
        blob = brew.conv(self.model, self.data, "conv_1", self.num_input_channels, first, kernel=3, stride=2)
        blob = brew.max_pool(self.model, blob, "pool_1", kernel=3, stride=2)
        channels = first
        repeats = zip(stages, self.stride_1_repeat_times, self.stride_2_repeat_times, strict=True)
        for stage, (filters, of_stride_1, of_stride_2) in enumerate(repeats, start=2):
            for number in range(1, of_stride_2 + 1):
                name = f"stage_{stage}_stride2_{number}"
                blob, channels = self.add_block_stride_2(name, blob, channels, filters)
            for number in range(1, of_stride_1 + 1):
                name = f"stage_{stage}_stride1_{number}"
                blob, channels = self.add_block_stride_1(name, blob, channels, filters)
        blob = brew.conv(self.model, blob, "conv_5", channels, last, kernel=1)
        blob = brew.average_pool(self.model, blob, "avg_pooled", kernel=7)
        scores = brew.fc(self.model, blob, f"last_out_L{self.num_labels}", last, self.num_labels)
        return scores, self.num_labels

    def add_block_stride_2(self, prefix: str, blob_in: Any, dim_in: int, dim_out: int) -> tuple[Any, int]:
        """Add a block that halves the image, whose two branches read all channels."""
        half = dim_out // 2
        right = left = blob_in
        if self.detection:
            right = self._over_pixels(right, f"{prefix}_right_conv_d", dim_in)
            left = self._over_pixels(left, f"{prefix}_left_conv_d", dim_in)
        right = self._pointwise(right, f"{prefix}_right_conv_1", dim_in, dim_in)
        right = self._over_pixels(right, f"{prefix}_right_dwconv", dim_in, stride=2)
        right = self._pointwise(right, f"{prefix}_right_conv_3", dim_in, half)
        left = self._over_pixels(left, f"{prefix}_left_dwconv", dim_in, stride=2)
        left = self._pointwise(left, f"{prefix}_left_conv_1", dim_in, half)
        return self._shuffled([right, left], prefix), 2 * half

    def add_block_stride_1(self, prefix: str, blob_in: Any, dim_in: int, dim_out: int) -> tuple[Any, int]:
        """Add a block whose left half passes the channels through."""
        inner, half = dim_in // 2, dim_out // 2
        left, right = self.model.net.Split(blob_in, [f"{prefix}_left", f"{prefix}_right"])
        if self.detection:
            right = self._over_pixels(right, f"{prefix}_right_conv_d", inner)
        right = self._pointwise(right, f"{prefix}_right_conv_1", inner, inner)
        right = self._over_pixels(right, f"{prefix}_right_dwcon", inner)
        right = self._pointwise(right, f"{prefix}_right_conv_3", inner, half)
        return self._shuffled([right, left], prefix), 2 * half

    def _pointwise(self, blob: Any, name: str, dim_in: int, dim_out: int) -> Any:
        """A convolution of single pixels, and a Relu in place."""
        blob = brew.conv(self.model, blob, name, dim_in, dim_out, kernel=1)
        blob = self._normalized(blob, dim_out)
        return brew.relu(self.model, blob, blob)

    def _over_pixels(self, blob: Any, name: str, channels: int, stride: int = 1) -> Any:
        """A convolution over 3 x 3 pixels of each channel."""
        blob = brew.conv(
            self.model, blob, name, channels, channels, kernel=3, stride=stride, group=channels, pad=1
        )
        return self._normalized(blob, channels)

    def _normalized(self, blob: Any, channels: int) -> Any:
        if not self.use_bn:
            return blob
        name = f"{blob}_bn".removeprefix(blob.GetNameScope())
        return brew.spatial_bn(self.model, blob, name, channels, epsilon=1e-3, is_test=self.is_test)

    def _shuffled(self, blobs: list[Any], prefix: str) -> Any:
        joined = brew.concat(self.model, blobs, f"{prefix}_concated")
        return self.model.net.ChannelShuffle(joined, f"{prefix}_shuffled", group=self.num_groups, kernel=1)


def create_shufflenet(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
) -> Any:
    """Add a net of shuffled channels, for images of 224 x 224 pixels or so.

    Args:
        model: The model.
        data: The images.
        num_input_channels: Their channels.
        num_labels: Number of classes.
        label: The labels.
        is_test: Whether batch normalization takes the running averages.
        no_loss: Whether it ends with the scores.

    Returns:
        The scores with ``no_loss``; probabilities and loss with labels; the probabilities else.
    """
    builder = ShuffleNetV2Builder(model, data, num_input_channels, num_labels, is_test=is_test)
    scores, _ = builder.create()
    if no_loss:
        return scores
    if label is None:
        return brew.softmax(model, scores, "softmax")
    return model.net.SoftmaxWithLoss([scores, label], ["softmax", "loss"])
