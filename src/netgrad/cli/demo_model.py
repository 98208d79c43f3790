"""The demo's model and data: a small convolutional network, and the handwritten digits it learns to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from netgrad.core.errors import NetgradError

if TYPE_CHECKING:
    import numpy as np
    import onnx

    Arrays = dict[str, np.ndarray[Any, Any]]

CHANNELS = 24
HIDDEN = 96
CLASSES = 10

_GRAPH = f"""
<ir_version: 10, opset_import: ["": 18]>
digits (float[batch, 1, 8, 8] image) => (float[batch, {CLASSES}] scores) {{
    edges = Conv <pads = [1, 1, 1, 1]> (image, edges_weight, edges_bias)
    edges_on = Relu(edges)
    strokes = Conv <pads = [1, 1, 1, 1]> (edges_on, strokes_weight, strokes_bias)
    strokes_on = Relu(strokes)
    both = Add(edges_on, strokes_on)
    pooled = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (both)
    features = Flatten(pooled)
    hidden = Gemm(features, hidden_weight, hidden_bias)
    hidden_on = Relu(hidden)
    scores = Gemm(hidden_on, scores_weight, scores_bias)
}}
"""
# `edges_on` is used twice (the skip connection), so its gradient accumulates.


def untrained_model(seed: int) -> onnx.ModelProto:
    """The model with random weights: He et al. 2015, variance 2 / fan-in."""
    import numpy as np
    from onnx import numpy_helper, parser

    rng = np.random.default_rng(seed)
    model = parser.parse_model(_GRAPH)
    shapes = {
        "edges_weight": (CHANNELS, 1, 3, 3),
        "edges_bias": (CHANNELS,),
        "strokes_weight": (CHANNELS, CHANNELS, 3, 3),
        "strokes_bias": (CHANNELS,),
        "hidden_weight": (CHANNELS * 4 * 4, HIDDEN),
        "hidden_bias": (HIDDEN,),
        "scores_weight": (HIDDEN, CLASSES),
        "scores_bias": (CLASSES,),
    }
    for name, shape in shapes.items():
        if len(shape) == 1:
            values = np.zeros(shape)
        else:
            fan_in = int(np.prod(shape[1:])) if len(shape) == 4 else shape[0]
            values = rng.normal(0.0, np.sqrt(2.0 / fan_in), shape)
        model.graph.initializer.append(numpy_helper.from_array(values.astype(np.float32), name))
    return model


def digits(held_out: float, seed: int) -> tuple[Arrays, Arrays]:
    """The 1,797 handwritten digits of scikit-learn's collection, 8 by 8 pixels of 0 to 1, in two parts.

    Args:
        held_out: Share of the digits in the second part.
        seed: Which digits these are.

    Returns:
        Training and held-out part, each with `image` float32 (n, 1, 8, 8) and `labels` int64 (n,).

    Raises:
        NetgradError: scikit-learn is not installed.
    """
    import numpy as np

    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise NetgradError(
            "the demo reads its digits from scikit-learn, which is not installed",
            hint="pip install 'netgrad[demo]'",
        ) from None
    collection = load_digits()
    images = (collection.images / 16.0).astype(np.float32)[:, None]
    labels = collection.target.astype(np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    second = round(len(order) * held_out)
    parts = [order[second:], order[:second]]
    train, test = ({"image": images[part], "labels": labels[part]} for part in parts)
    return train, test
