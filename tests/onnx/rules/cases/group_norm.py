"""Rows of InstanceNormalization and GroupNormalization."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, exactly, normal


def _group_normalization(groups: int, per_group: bool, epsilon: float = 1e-5) -> Any:
    """In float64; the standard's function rounds to float32 on the way (stash_type = 1)."""

    def forward(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
        view = x.reshape(x.shape[0], groups, -1)
        mean, var = view.mean(2, keepdims=True), view.var(2, keepdims=True)
        xhat = ((view - mean) / np.sqrt(var + np.float32(epsilon))).reshape(x.shape)
        repeats = x.shape[1] // groups if per_group else 1
        column = [-1, *[1] * (x.ndim - 2)]
        return xhat * scale.repeat(repeats).reshape(column) + bias.repeat(repeats).reshape(column)

    return forward


def _group(groups: int, *shape: int, opset: int, note: str = "", **more: Any) -> Case:
    per_group = opset < 21
    width = groups if per_group else shape[1]
    return Case(
        "GroupNormalization",
        [normal(*shape), normal(width), normal(width)],
        {"num_groups": groups, **more},
        opset=opset,
        note=f"opset {opset}{note}",
        forward=_group_normalization(groups, per_group, more.get("epsilon", 1e-5)),
        fan_out=False,
    )


CASES = [
    *(
        Case("InstanceNormalization", [normal(*shape), normal(3), normal(3)], fan_out=False)
        for shape in [(2, 3, 2), (1, 3, 2, 2), (1, 3, 2, 1, 2)]
    ),
    Case("InstanceNormalization", [normal(1, 3, 4), normal(3), normal(3)], {"epsilon": 0.25}, fan_out=False),
    Case(
        "InstanceNormalization",
        [normal(1, 3, 4), normal(3), normal(3)],
        opset=22,
        note="opset 22",
        fan_out=False,
    ),
    Case(
        "InstanceNormalization",
        [
            exactly(100 + np.round(np.sin(np.arange(8.0) * 1.7) * 256).reshape(1, 2, 4) / 1024),
            normal(2),
            normal(2),
        ],
        {"epsilon": 1e-3},
        note="large mean",
        fan_out=False,
    ),
    # Scale and bias of a group before opset 21, of a channel from there on; one group, as many as channels.
    *(
        _group(groups, *shape, opset=opset)
        for opset in (18, 21)
        for groups, shape in [
            (2, (2, 4, 3)),
            (1, (2, 3, 2)),
            (3, (2, 3, 2, 2)),
            (2, (2, 6, 2)),
            (3, (2, 6, 1, 2, 1)),
        ]
    ),
    _group(2, 2, 4, 3, opset=18, epsilon=0.25),
    _group(2, 2, 4, 3, opset=21, epsilon=0.25),
]
