"""Rows of LayerNormalization, RMSNormalization, LpNormalization and MeanVarianceNormalization."""

from typing import Any

import numpy as np

from tests.onnx.rules.table import Case, away_from_zero, constant, exactly, normal

# The forwards of ONNX Runtime and of the evaluator round the statistics to float32, by the standard
# (stash_type = 1). The derivative is judged against the same formula in float64.


def _layer_normalization(axis: int = -1, epsilon: float = 1e-5) -> Any:
    def forward(x: np.ndarray, scale: np.ndarray, bias: np.ndarray | None = None) -> tuple[np.ndarray, ...]:
        axes = tuple(range(axis % x.ndim, x.ndim))
        mean = x.mean(axes, keepdims=True)
        inverse = 1 / np.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + np.float32(epsilon))
        y = (x - mean) * inverse * scale + (0 if bias is None else bias)
        return y, mean, inverse

    return forward


def _rms_normalization(axis: int = -1, epsilon: float = 1e-5) -> Any:
    def forward(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
        axes = tuple(range(axis % x.ndim, x.ndim))
        return x / np.sqrt((x**2).mean(axes, keepdims=True) + np.float32(epsilon)) * scale

    return forward


def _mean_variance_normalization(axes: tuple[int, ...]) -> Any:
    def forward(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axes, keepdims=True)) / (x.std(axes, keepdims=True) + 1e-9)

    return forward


def _layer(*tensors: Any, note: str = "", outputs: Any = 1, of: Any = None, **attributes: Any) -> Case:
    forward = _layer_normalization(attributes.get("axis", -1), attributes.get("epsilon", 1e-5))
    y_only = (lambda *arrays: forward(*arrays)[0]) if outputs == 1 else forward
    return Case(
        "LayerNormalization",
        tensors,
        attributes,
        note=note,
        outputs=outputs,
        of=of,
        forward=y_only,
        fan_out=False,
    )


def _rms(*tensors: Any, note: str = "", **attributes: Any) -> Case:
    forward = _rms_normalization(attributes.get("axis", -1), attributes.get("epsilon", 1e-5))
    return Case("RMSNormalization", tensors, attributes, note=note, opset=23, forward=forward, fan_out=False)


def _lp_axis_with_zeros() -> Any:
    return exactly([[0.0, 0.0, 0.0], [3.0, -4.0, 0.5]])


def _lp_kink(p: int) -> np.ndarray:
    x = np.array([3.0, -4.0, 0.5])
    n = np.abs(x).sum() if p == 1 else np.sqrt((x**2).sum())
    return np.stack([np.zeros(3), 1 / n - (np.sign(x) if p == 1 else x / n) * x.sum() / n**2])


CASES = [
    # The normalised axes: one, several, all, from either end.
    _layer(normal(2, 4), normal(4), normal(4)),
    _layer(normal(2, 3, 4), normal(4), normal(4)),
    _layer(normal(2, 3, 4), normal(3, 4), normal(3, 4), axis=1),
    _layer(normal(2, 3, 4), normal(3, 4), normal(3, 4), axis=-2),
    _layer(normal(2, 3, 2), normal(2, 3, 2), normal(2, 3, 2), axis=0),
    _layer(normal(2, 3, 4), normal(4), normal(4), axis=2, epsilon=0.25),
    _layer(normal(5), normal(5), normal(5), note="rank 1"),
    _layer(normal(2, 3, 4), normal(4), note="no bias"),
    _layer(
        normal(3, 2),
        constant([0.5, -2.0], np.float64),
        constant([0.5, -1.0], np.float64),
        note="constant scale",
    ),
    _layer(
        exactly(100 + np.round(np.sin(np.arange(8.0) * 1.7) * 256).reshape(2, 4) / 1024),
        normal(4),
        normal(4),
        note="large mean",
        epsilon=1e-3,
    ),
    # A scale or bias that broadcasts.
    _layer(normal(2, 3, 4), normal(1), normal(1), note="scalar scale"),
    _layer(normal(2, 3, 4), normal(3, 4), normal(3, 4), note="a scale for each row"),
    _layer(normal(2, 3, 4), normal(3, 1), normal(2, 1, 4), axis=1),
    Case(
        "LayerNormalization",
        [exactly(np.zeros((0, 3))), normal(3), normal(3)],
        note="no rows",
        expected=[np.zeros((0, 3)), np.zeros(3), np.zeros(3)],
    ),
    # Gradients at the saved statistics, which are float32 by the standard.
    *(
        Case(
            "LayerNormalization",
            [normal(2, 3, 4), normal(4), normal(4)],
            outputs=outputs,
            of=of,
            note=note,
            gradient_dtype="float32",
            forward=None,
            fan_out=False,
        )
        for outputs, of, note in [
            (3, None, "all outputs"),
            (3, [1], "the mean"),
            (3, [2], "the inverse deviation"),
            (3, [1, 2], "both statistics"),
            (2, None, "no inverse deviation"),
            (["y", "", "s"], None, "no mean"),
        ]
    ),
    _rms(normal(2, 3, 4), normal(4)),
    _rms(normal(2, 3, 4), normal(3, 4), axis=1),
    _rms(normal(2, 3, 4), normal(4), axis=-2, epsilon=0.25),
    _rms(normal(2, 3), normal(2, 3), axis=0),
    _rms(normal(2, 3, 4), normal(1), note="scalar scale"),
    _rms(normal(2, 3), constant([0.5, -2.0, 1.5], np.float64), note="constant scale"),
    *(
        Case("LpNormalization", [away_from_zero(2, 3, 2)], {"p": p, "axis": axis}, opset=opset)
        for p, axis, opset in [(1, 0, 18), (1, -1, 22), (2, 0, 22), (2, 1, 18), (2, -1, 18)]
    ),
    Case("LpNormalization", [normal(3, 2)], note="defaults"),
    *(
        Case("LpNormalization", [_lp_axis_with_zeros()], {"p": p}, note="zero vector", expected=[_lp_kink(p)])
        for p in (1, 2)
    ),
    # ONNX Runtime has no float64 kernel, and the function body mixes float64 with float32. The default axes
    # are not here: the checker of onnx 1.23 refuses a node that leaves `axes` out.
    *(
        Case(
            "MeanVarianceNormalization",
            [normal(*shape)],
            {"axes": list(axes)},
            gradient_dtype="float32",
            forward=_mean_variance_normalization(axes),
            note="float32",
        )
        for shape, axes in [((2, 3, 2, 2), (0, 2, 3)), ((3, 2, 3, 2), (0, 1)), ((2, 1, 3, 2), (-1, 2))]
    ),
]
