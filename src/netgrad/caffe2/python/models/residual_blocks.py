"""The blocks of residual nets."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import brew


class ResNetBuilder:
    """Adds blocks to a model, each to the end of the one before.

    Attributes:
        model: The model.
        prev_blob: What the next block reads.
        comp_count: How many blocks there are.
        comp_idx: The last layer's number in its block.
        is_test: Whether batch normalization takes the running averages.
        no_bias: 1 if convolutions have no bias.
        bn_epsilon: An argument of batch normalization.
        bn_momentum: Another one.
    """

    def __init__(
        self,
        model: Any,
        prev_blob: Any,
        no_bias: Any,
        is_test: Any,
        bn_epsilon: float = 1e-5,
        bn_momentum: float = 0.9,
    ) -> None:
        self.model = model
        self.comp_count = 0
        self.comp_idx = 0
        self.prev_blob = prev_blob
        self.is_test = is_test
        self.bn_epsilon = bn_epsilon
        self.bn_momentum = bn_momentum
        self.no_bias = int(bool(no_bias))

    def add_conv(
        self, in_filters: int, out_filters: int, kernel: int, stride: int = 1, group: int = 1, pad: int = 0
    ) -> Any:
        """Add the block's next convolution; returns its output."""
        self.comp_idx += 1
        name = f"comp_{self.comp_count}_conv_{self.comp_idx}"
        self.prev_blob = self.conv(
            self.prev_blob, name, in_filters, out_filters, kernel=kernel, stride=stride, group=group, pad=pad
        )
        return self.prev_blob

    def add_relu(self) -> Any:
        """Add a Relu in place; returns its output."""
        self.prev_blob = brew.relu(self.model, self.prev_blob, self.prev_blob)
        return self.prev_blob

    def add_spatial_bn(self, num_filters: int) -> Any:
        """Add the batch normalization of the block's last convolution; returns its output."""
        name = f"comp_{self.comp_count}_spatbn_{self.comp_idx}"
        self.prev_blob = self.normalize(
            self.prev_blob, name, num_filters, epsilon=self.bn_epsilon, momentum=self.bn_momentum
        )
        return self.prev_blob

    def add_bottleneck(
        self,
        input_filters: int,
        base_filters: int,
        output_filters: int,
        stride: int = 1,
        group: int = 1,
        spatial_batch_norm: bool = True,
    ) -> int:
        """Add a block of three convolutions: to fewer channels, over 3 x 3 pixels, and to more channels.

        Args:
            input_filters: Channels of what it reads.
            base_filters: Channels inside.
            output_filters: Channels of what it gives.
            stride: Stride of the convolution in the middle, and of the shortcut if that is projected.
            group: Groups of the convolution in the middle.
            spatial_batch_norm: Whether the convolutions are normalized.

        Returns:
            ``output_filters``.
        """
        shortcut = self.prev_blob
        self.comp_idx = 0
        for layer in (
            {"in_filters": input_filters, "kernel": 1},
            {"in_filters": base_filters, "kernel": 3, "stride": stride, "group": group, "pad": 1},
        ):
            self.add_conv(out_filters=base_filters, **layer)
            if spatial_batch_norm:
                self.add_spatial_bn(base_filters)
            self.add_relu()
        last = self.add_conv(base_filters, output_filters, kernel=1)
        if spatial_batch_norm:
            last = self.add_spatial_bn(output_filters)
        if output_filters != input_filters:
            momentum = {"epsilon": self.bn_epsilon, "momentum": self.bn_momentum}
            shortcut = self._projected(
                shortcut, input_filters, output_filters, stride, momentum if spatial_batch_norm else None
            )
        self._add_shortcut(shortcut, last)
        return output_filters

    def add_simple_block(
        self,
        input_filters: int,
        num_filters: int,
        down_sampling: bool = False,
        spatial_batch_norm: bool = True,
    ) -> None:
        """Add a block of two convolutions over 3 x 3 pixels.

        Args:
            input_filters: Channels of what it reads.
            num_filters: Channels inside, and of what it gives.
            down_sampling: Whether the first convolution has stride 2.
            spatial_batch_norm: Whether the convolutions are normalized.
        """
        shortcut = self.prev_blob
        self.comp_idx = 0
        stride = 2 if down_sampling else 1
        self.add_conv(input_filters, num_filters, kernel=3, stride=stride, pad=1)
        if spatial_batch_norm:
            self.add_spatial_bn(num_filters)
        self.add_relu()
        last = self.add_conv(num_filters, num_filters, kernel=3, pad=1)
        if spatial_batch_norm:
            last = self.add_spatial_bn(num_filters)
        if num_filters != input_filters:
            normalized = {"epsilon": 1e-3} if spatial_batch_norm else None
            shortcut = self._projected(shortcut, input_filters, num_filters, stride, normalized)
        self._add_shortcut(shortcut, last)

    def conv(self, blob: Any, name: str, in_filters: int, out_filters: int, **arguments: Any) -> Any:
        """Add a convolution that is in no block."""
        return brew.conv(
            self.model,
            blob,
            name,
            in_filters,
            out_filters,
            weight_init=("MSRAFill", {}),
            no_bias=self.no_bias,
            **arguments,
        )

    def normalize(self, blob: Any, name: str, channels: int, **arguments: Any) -> Any:
        """Add a batch normalization that is in no block."""
        return brew.spatial_bn(self.model, blob, name, channels, is_test=self.is_test, **arguments)

    def _projected(
        self, blob: Any, in_filters: int, out_filters: int, stride: int, normalized: dict[str, float] | None
    ) -> Any:
        """The shortcut with as many channels as the block gives."""
        name = f"shortcut_projection_{self.comp_count}"
        blob = self.conv(blob, name, in_filters, out_filters, kernel=1, stride=stride)
        return (
            blob if normalized is None else self.normalize(blob, f"{name}_spatbn", out_filters, **normalized)
        )

    def _add_shortcut(self, shortcut: Any, last: Any) -> None:
        name = f"comp_{self.comp_count}_sum_{self.comp_idx}"
        self.prev_blob = brew.sum(self.model, [shortcut, last], name)
        self.comp_idx += 1
        self.add_relu()
        self.comp_count += 1
