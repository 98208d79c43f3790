"""Residual nets.

He and others, "Deep residual learning for image recognition" (2015); with groups Xie and others, "Aggregated
residual transformations for deep neural networks" (2016).
"""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import brew
from netgrad.caffe2.python.models.residual_blocks import ResNetBuilder

__all__ = ["ResNetBuilder", "create_resnet50", "create_resnet_32x32", "create_resnext"]

# How many blocks the four stages have, by the number of layers.
_STAGES: dict[int, tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}


def create_resnet_32x32(
    model: Any, data: Any, num_input_channels: int, num_groups: int, num_labels: int, is_test: bool = False
) -> Any:
    """Add a residual net for images of 32 x 32 pixels.

    Args:
        model: The model.
        data: The images.
        num_input_channels: Their channels.
        num_groups: Half the number of blocks in each of the three stages.
        num_labels: Number of classes.
        is_test: Whether batch normalization takes the running averages.

    Returns:
        The probabilities.
    """
    brew.conv(model, data, "conv1", num_input_channels, 16, kernel=3, stride=1)
    brew.spatial_bn(model, "conv1", "conv1_spatbn", 16, epsilon=1e-3, is_test=is_test)
    brew.relu(model, "conv1_spatbn", "relu1")
    builder = ResNetBuilder(model, "relu1", no_bias=0, is_test=is_test)
    channels = 16
    for stage, filters in enumerate((16, 32, 64)):
        for block in range(2 * num_groups):
            builder.add_simple_block(channels, filters, down_sampling=stage > 0 and block == 0)
            channels = filters
    brew.average_pool(model, builder.prev_blob, "final_avg", kernel=8, stride=1)
    brew.fc(model, "final_avg", "last_out", 64, num_labels)
    return brew.softmax(model, "last_out", "softmax")


def create_resnext(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    num_layers: int,
    num_groups: int,
    num_width_per_group: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
    no_bias: Any = 1,
    conv1_kernel: int = 7,
    conv1_stride: int = 2,
    final_avg_kernel: int = 7,
    log: Any = None,
    bn_epsilon: float = 1e-5,
    bn_momentum: float = 0.9,
) -> Any:
    """Add a residual net with groups, for images of 224 x 224 pixels or so.

    Args:
        model: The model.
        data: The images.
        num_input_channels: Their channels.
        num_labels: Number of classes.
        num_layers: 18, 34, 50, 101, 152 or 200. All are built of blocks of three convolutions.
        num_groups: Groups of the blocks' convolutions.
        num_width_per_group: Channels of a group in the first stage.
        label: The labels.
        is_test: Whether batch normalization takes the running averages.
        no_loss: Whether it ends with the scores.
        no_bias: Whether convolutions have no bias.
        conv1_kernel: Kernel of the first convolution.
        conv1_stride: Its stride.
        final_avg_kernel: An argument of the last pool, which is over all pixels in any case.
        log: Not used.
        bn_epsilon: An argument of batch normalization.
        bn_momentum: Another one.

    Returns:
        The scores with ``no_loss``; probabilities and loss with labels; the probabilities else.

    Raises:
        ValueError: Another number of layers.
    """
    if num_layers not in _STAGES:
        raise ValueError(f"a net has {', '.join(map(str, _STAGES))} layers, and not {num_layers}")
    filters = (64, 64, 128, 256, 512) if num_layers in (18, 34) else (64, 256, 512, 1024, 2048)
    normalized = {"bn_epsilon": bn_epsilon, "bn_momentum": bn_momentum}
    builder = ResNetBuilder(model, data, no_bias, is_test, **normalized)
    blob = builder.conv(
        data, "conv1", num_input_channels, filters[0], kernel=conv1_kernel, stride=conv1_stride, pad=3
    )
    name = "conv1_spatbn_relu"
    blob = builder.normalize(blob, name, filters[0], epsilon=bn_epsilon, momentum=bn_momentum)
    blob = brew.relu(model, blob, blob)
    builder.prev_blob = brew.max_pool(model, blob, "pool1", kernel=3, stride=2, pad=1)
    inner = num_groups * num_width_per_group
    for stage, blocks in enumerate(_STAGES[num_layers]):
        channels = filters[stage]
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            channels = builder.add_bottleneck(channels, inner, filters[stage + 1], stride, num_groups)
        inner *= 2
    pooled = brew.average_pool(
        model, builder.prev_blob, "final_avg", kernel=final_avg_kernel, stride=1, global_pooling=True
    )
    scores = brew.fc(model, pooled, f"last_out_L{num_labels}", filters[-1], num_labels)
    if no_loss:
        return scores
    if label is None:
        return brew.softmax(model, scores, "softmax")
    return model.net.SoftmaxWithLoss([scores, label], ["softmax", "loss"])


def create_resnet50(
    model: Any,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    label: Any = None,
    is_test: bool = False,
    no_loss: bool = False,
    no_bias: Any = 0,
    conv1_kernel: int = 7,
    conv1_stride: int = 2,
    final_avg_kernel: int = 7,
) -> Any:
    """Add a residual net of 50 layers: `create_resnext` with one group."""
    return create_resnext(
        model,
        data,
        num_input_channels,
        num_labels,
        num_layers=50,
        num_groups=1,
        num_width_per_group=64,
        label=label,
        is_test=is_test,
        no_loss=no_loss,
        no_bias=no_bias,
        conv1_kernel=conv1_kernel,
        conv1_stride=conv1_stride,
        final_avg_kernel=final_avg_kernel,
    )
