"""Rows of activation functions."""

import math

import numpy as np

from tests.onnx.rules.table import Case, Tensor, away_from_zero, constant, exactly, normal

erf = np.vectorize(math.erf, otypes=[np.float64])


def clear_of(*kinks: float, shape: tuple[int, ...] = (2, 5)) -> Tensor:
    """Values of both signs up to 5, none within 0.15 of a kink."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        x = rng.uniform(-5.0, 5.0, size=shape)
        for kink in kinks:
            near = np.abs(x - kink) < 0.15
            x = np.where(near, kink + np.where(x < kink, -0.2, 0.2), x)
        return np.asarray(np.round(x, 3), np.float64)

    return Tensor(draw)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def shrink(x: np.ndarray, bias: float = 0.0, lambd: float = 0.5) -> np.ndarray:
    """ONNX Runtime computes it in float32 whatever the input."""
    return np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, 0.0))


SMOOTH = [
    Case("Softplus", [normal(2, 3)]),
    Case("Softsign", [away_from_zero(2, 3)]),
    Case("Mish", [normal(2, 3)]),
    Case("Gelu", [normal(2, 3)], opset=20, forward=lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    Case(
        "Gelu",
        [normal(2, 3)],
        {"approximate": "none"},
        opset=20,
        forward=lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    ),
    Case(
        "Gelu",
        [normal(2, 3)],
        {"approximate": "tanh"},
        opset=20,
        forward=lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    ),
    Case("Swish", [normal(2, 3)], opset=24, forward=lambda x: x * sigmoid(x)),
    Case("Swish", [normal(2, 3)], {"alpha": 1.5}, opset=24, forward=lambda x: x * sigmoid(1.5 * x)),
]

CASES = [
    *SMOOTH,
    Case("Relu", [away_from_zero(2, 3)]),
    Case("Relu", [exactly(0.7)]),
    Case("Relu", [normal(0, 3)], note="empty"),
    *(Case("LeakyRelu", [away_from_zero(2, 3)], {"alpha": alpha}) for alpha in (0.25, 0.0, -0.5, 1.5)),
    Case("LeakyRelu", [away_from_zero(2, 3)], note="default alpha"),
    *(
        Case("PRelu", [away_from_zero(2, 3, 3), normal(*slope)], fan_out=False)
        for slope in [(2, 3, 3), (3, 1), (3,), (1,), (1, 1, 1), ()]
    ),
    Case("PRelu", [away_from_zero(2, 3), constant([0.25, -0.5, 1.5], np.float64)], note="constant slope"),
    *(Case("ThresholdedRelu", [clear_of(alpha)], {"alpha": alpha}) for alpha in (1.5, -0.5, 0.0)),
    Case("ThresholdedRelu", [clear_of(1.0)], note="default alpha"),
    Case("Shrink", [clear_of(0.5, -0.5)], note="default", forward=shrink),
    *(
        Case(
            "Shrink",
            [clear_of(lambd, -lambd)],
            {"bias": bias, "lambd": lambd},
            forward=lambda x, b=bias, k=lambd: shrink(x, b, k),
        )
        for bias, lambd in [(1.5, 1.5), (-0.5, 2.0), (0.5, 0.0)]
    ),
    Case("HardSigmoid", [clear_of(2.5, -2.5)], note="default"),
    *(
        Case(
            "HardSigmoid",
            [exactly([[-3.0, -0.9, -0.2, 0.4], [0.9, 1.3, 1.8, 4.1]])],
            {"alpha": alpha, "beta": beta},
        )
        for alpha, beta in [(0.25, 0.125), (-0.5, 0.75)]
    ),
    Case("HardSwish", [clear_of(3.0, -3.0)]),
    Case("Elu", [away_from_zero(2, 3)], note="default alpha"),
    *(Case("Elu", [away_from_zero(2, 3)], {"alpha": alpha}) for alpha in (0.5, 2.0, -0.5)),
    Case("Selu", [away_from_zero(2, 3)], note="default"),
    Case("Selu", [away_from_zero(2, 3)], {"alpha": 0.5, "gamma": 2.0}),
    Case(
        "Celu",
        [away_from_zero(2, 3)],
        note="default alpha",
        forward=lambda x: np.maximum(x, 0) + np.minimum(0, np.exp(x) - 1),
        gradient_dtype="float32",  # the standard has no float64 Celu before opset 28
    ),
    *(
        Case(
            "Celu",
            [away_from_zero(2, 3)],
            {"alpha": alpha},
            forward=lambda x, a=alpha: np.maximum(x, 0) + np.minimum(0, a * (np.exp(x / a) - 1)),
            gradient_dtype="float32",
        )
        for alpha in (0.5, 2.0)
    ),
    # kinks, each by its convention
    Case("Relu", [exactly([-1.0, 0.0, 2.0])], note="kink", expected=[[0, 0, 1]]),
    Case("LeakyRelu", [exactly([-1.0, 0.0, 2.0])], {"alpha": 0.25}, note="kink", expected=[[0.25, 0.25, 1]]),
    Case(
        "PRelu",
        [exactly([-1.0, 0.0, 2.0]), exactly([0.5, 0.25, 3.0])],
        note="kink",
        expected=[[0.5, 0.25, 1], [-1, 0, 0]],
    ),
    Case("ThresholdedRelu", [exactly([0.5, 1.0, 2.0])], note="jump", expected=[[0, 0, 1]]),
    Case("Shrink", [exactly([-2.0, -0.5, 0.0, 0.5, 2.0])], note="jumps", expected=[[1, 0, 0, 0, 1]]),
    Case(
        "HardSigmoid",
        [exactly([-3.0, -1.0, 0.0, 1.0, 3.0])],
        {"alpha": 0.5, "beta": 0.5},
        note="kinks",
        expected=[[0, 0, 0.5, 0, 0]],
    ),
    Case("HardSwish", [exactly([-4.0, -3.0, 0.0, 3.0, 4.0])], note="kinks", expected=[[0, 0, 0.5, 1, 1]]),
    Case("Elu", [exactly([-1e3, 0.0, 1e3])], note="kink and large", expected=[[0, 1, 1]]),
    Case("Elu", [exactly([-1e3, 0.0, 1e3])], {"alpha": 0.5}, note="kink and large", expected=[[0, 0.5, 1]]),
    Case(
        "Selu",
        [exactly([-1e3, 0.0, 1e3])],
        {"alpha": 0.5, "gamma": 2.0},
        note="kink and large",
        expected=[[0, 1, 2]],
    ),
    Case(
        "Celu",
        [exactly([-1e3, 0.0, 1e3])],
        {"alpha": 0.5},
        note="kink and large",
        gradient_dtype="float32",
        expected=[[0, 1, 1]],
    ),
    Case("Softplus", [exactly([-1e3, 0.0, 1e3])], note="large", expected=[[0, 0.5, 1]]),
    Case("Softsign", [exactly([-1e100, 0.0, 1e100])], note="large", expected=[[0, 1, 0]]),
    Case("Mish", [exactly([-1e3, 0.0, 1e2])], note="large", expected=[[0, 0.6, 1]]),
    Case("Gelu", [exactly([-1e3, 0.0, 1e3])], note="large", opset=20, expected=[[0, 0.5, 1]]),
]
