"""Rows of BatchNormalization."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, Tensor, exactly, normal, positive


def _inputs(*shape: int, x: Tensor | None = None) -> list[Tensor]:
    channels = shape[1] if len(shape) > 1 else 1
    return [x or normal(*shape), normal(channels), normal(channels), normal(channels), positive(channels)]


def _training(**more: Any) -> dict[str, Any]:
    return {"training_mode": 1, **more}


# A mean of hundreds of deviations: in float32, a difference of squares would be wrong by some per cent. The
# elements are multiples of 2^-10, exact in float32, so that only the computation is judged.
FAR = exactly(100 + np.round(np.sin(np.arange(12.0) * 1.7) * 256).reshape(2, 2, 3) / 1024)
NO_IMAGE = exactly(np.zeros((0, 2, 3)))

CASES = [
    *(
        Case("BatchNormalization", _inputs(*shape))
        for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 2), (1, 2, 2, 1, 3)]
    ),
    Case("BatchNormalization", _inputs(5), note="rank 1"),
    Case("BatchNormalization", _inputs(2, 3, 4), {"epsilon": 0.125}),
    Case("BatchNormalization", _inputs(2, 3, 4), {"momentum": 0.5}, note="without effect"),
    Case(
        "BatchNormalization",
        [NO_IMAGE, normal(2), normal(2), normal(2), positive(2)],
        note="empty batch",
        expected=[np.zeros((0, 2, 3)), *[np.zeros(2)] * 4],
    ),
    # Training mode: gradients through the statistics of the batch, and at the running ones.
    *(
        Case(
            "BatchNormalization", _inputs(*shape), _training(), outputs=3, of=[0], note="batch", wrt=[0, 1, 2]
        )
        for shape in [(4, 3), (2, 3, 4), (2, 3, 2, 2), (2, 2, 2, 1, 3)]
    ),
    Case(
        "BatchNormalization",
        _inputs(2, 3, 4),
        _training(momentum=0.25, epsilon=0.5),
        outputs=3,
        note="all outputs",
    ),
    Case(
        "BatchNormalization",
        _inputs(2, 3, 4),
        _training(),
        outputs=3,
        of=[1],
        note="running mean",
        wrt=[0, 3],
    ),
    Case(
        "BatchNormalization", _inputs(2, 3, 4), _training(), outputs=3, of=[2], note="running var", wrt=[0, 4]
    ),
    Case("BatchNormalization", _inputs(2, 3), _training(), outputs=3, of=[0], note="stored are wanted"),
    Case(
        "BatchNormalization",
        [FAR, normal(2), normal(2), normal(2), positive(2)],
        _training(epsilon=1e-3),
        outputs=3,
        of=[0],
        note="large mean",
        wrt=[0, 1, 2],
    ),
]
