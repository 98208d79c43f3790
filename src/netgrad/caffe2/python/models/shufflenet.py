"""Nets of shuffled channels.

Ma and others, "ShuffleNet V2: practical guidelines for efficient CNN architecture design" (2018).
"""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import brew

OUTPUT_CHANNELS: dict[str, list[int]] = {
    "0.5x": [24, 48, 96, 192, 1024],
    "1.0x": [24, 116, 232, 464, 1024],
    "1.5x": [24, 176, 352, 704, 1024],
    "2.0x": [24, 244, 488, 976, 2048],
}
"""By width: the channels behind the first convolution, the three stages, and the last convolution."""

_REPEATS = (3, 7, 3)  # blocks of stride 1 in each stage, behind the one of stride 2
_DRAWN: dict[str, Any] = {"weight_init": ("MSRAFill", {})}


class ShuffleNetV2Builder:
    """Adds the layers of a net to a model; see `create_shufflenet`.

    Attributes:
        last_out: The scores, when the net has been added.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        num_input_channels: int,
        num_labels: int,
        num_groups: int = 2,
        width: str = "1.0x",
        is_test: bool = False,
        detection: bool = False,
        bn_epsilon: float = 1e-5,
    ) -> None:
        """Prepare the net.

        Args:
            model: The model.
            data: The images.
            num_input_channels: Their channels.
            num_labels: Number of classes.
            num_groups: Groups between which channels are shuffled.
            width: See `OUTPUT_CHANNELS`.
            is_test: Whether batch normalization takes the running averages.
            detection: Whether each branch begins with another convolution over 3 x 3 pixels, and so sees more
                of the image.
            bn_epsilon: What is added to variances.
        """
        self.model = model
        self.data = data
        self.num_input_channels = num_input_channels
        self.num_labels = num_labels
        self.num_groups = num_groups
        self.output_channels = OUTPUT_CHANNELS[width]
        self.is_test = is_test
        self.detection = detection
        self.bn_epsilon = bn_epsilon
        self.last_out: Any = None

    def create(self) -> None:
        """Add the net."""
        channels, *stages, last = self.output_channels
        blob = self._convolved(
            self.data, "stage1_conv", self.num_input_channels, channels, kernel=3, stride=2
        )
        blob = brew.max_pool(self.model, blob, "stage1_pool", kernel=3, stride=2)
        for stage, (filters, repeats) in enumerate(zip(stages, _REPEATS, strict=True), start=2):
            blob = self._halved(f"stage{stage}_stride2", blob, channels, filters // 2)
            channels = filters
            for number in range(1, repeats + 1):
                blob = self._kept(f"stage{stage}_stride1_repeat{number}", blob, channels // 2)
        blob = brew.conv(self.model, blob, "conv5", channels, last, kernel=1)
        blob = self.model.AveragePool(blob, "avg_pool", kernel=7)
        self.last_out = brew.fc(self.model, blob, f"last_out_L{self.num_labels}", last, self.num_labels)

    def _halved(self, prefix: str, blob: Any, dim_in: int, dim_out: int) -> Any:
        """A block that halves the image, whose two branches read all channels."""
        left = self._wider(blob, f"{prefix}_left", dim_in)
        left = self._over_pixels(left, f"{prefix}left_dwconv", dim_in, stride=2)
        left = self._pointwise(left, f"{prefix}_left_conv1", dim_in, dim_out)
        right = self._wider(blob, f"{prefix}_right", dim_in)
        return self._shuffled([self._right(right, prefix, dim_in, dim_out, stride=2), left], prefix)

    def _kept(self, prefix: str, blob: Any, half: int) -> Any:
        """A block whose left half passes the channels through."""
        left, right = self.model.net.Split(blob, [f"{prefix}_left", f"{prefix}_right"])
        right = self._wider(right, f"{prefix}_right", half)
        return self._shuffled([self._right(right, prefix, half, half, stride=1), left], prefix)

    def _right(self, blob: Any, prefix: str, dim_in: int, dim_out: int, stride: int) -> Any:
        """The convolutions of the right branch: of pixels, of channels, of pixels."""
        blob = self._pointwise(blob, f"{prefix}_right_conv1", dim_in, dim_out)
        blob = self._over_pixels(blob, f"{prefix}_right_dwconv", dim_out, stride)
        return self._pointwise(blob, f"{prefix}_right_conv2", dim_out, dim_out)

    def _wider(self, blob: Any, prefix: str, channels: int) -> Any:
        """The convolution by which detection sees more of the image."""
        if not self.detection:
            return blob
        name = f"{prefix}_detection"
        blob = self._convolved(blob, f"{name}_conv", channels, channels, kernel=3, group=channels, pad=1)
        return self._normalized(blob, f"{name}_bn", channels)

    def _pointwise(self, blob: Any, name: str, dim_in: int, dim_out: int) -> Any:
        """A convolution of single pixels, and a Relu in place."""
        blob = self._convolved(blob, name, dim_in, dim_out, kernel=1)
        blob = self._normalized(blob, f"{name}_bn", dim_out)
        return brew.relu(self.model, blob, blob)

    def _over_pixels(self, blob: Any, name: str, channels: int, stride: int) -> Any:
        """A convolution over 3 x 3 pixels of each channel."""
        blob = self._convolved(blob, name, channels, channels, kernel=3, stride=stride, group=channels, pad=1)
        return self._normalized(blob, f"{name}_bn", channels)

    def _convolved(self, blob: Any, name: str, dim_in: int, dim_out: int, **arguments: Any) -> Any:
        return brew.conv(self.model, blob, name, dim_in, dim_out, **_DRAWN, **arguments)

    def _normalized(self, blob: Any, name: str, channels: int) -> Any:
        return brew.spatial_bn(
            self.model, blob, name, channels, epsilon=self.bn_epsilon, is_test=self.is_test
        )

    def _shuffled(self, blobs: list[Any], prefix: str) -> Any:
        joined = brew.concat(self.model, blobs, f"{prefix}_concat")
        return self.model.net.ChannelShuffle(joined, f"{prefix}_ch_shuffle", group=self.num_groups, kernel=1)


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
        The scores with ``no_loss``; probabilities and loss with labels; else nothing, and the net ends with
        the scores, ``last_out_L<num_labels>``.
    """
    builder = ShuffleNetV2Builder(model, data, num_input_channels, num_labels, is_test=is_test)
    builder.create()
    if no_loss:
        return builder.last_out
    if label is None:
        return None
    return model.net.SoftmaxWithLoss([builder.last_out, label], ["softmax", "loss"])
