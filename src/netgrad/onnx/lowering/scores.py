"""What classifiers make of their scores, as ONNX Runtime's kernels do it.

The standard names the transforms and does not define them; the definitions are those of
https://github.com/microsoft/onnxruntime/blob/main/onnxruntime/core/providers/cpu/ml/ml_common.h.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError
from netgrad.onnx.lowering.writer import Writer

TRANSFORMS = ("NONE", "LOGISTIC", "PROBIT", "SOFTMAX", "SOFTMAX_ZERO")

_PROBIT_A = np.float32(0.147)  # constants of the approximation of erf^-1, rounded as in the kernel
_PROBIT_PI = np.float32(3.14159)
_ZERO = 1e-7  # SOFTMAX_ZERO takes scores up to this size for zero


def transform_of(w: Writer) -> str:
    """The node's ``post_transform``.

    Raises:
        CannotRewriteError: There is no such transform.
    """
    name = str(w.attribute("post_transform", "NONE"))
    if name not in TRANSFORMS:
        raise CannotRewriteError(f"its post_transform '{name}' is not understood")
    return name


def transformed(w: Writer, scores: onnx_ir.Value, transform: str, classes: int) -> onnx_ir.Value:
    """Scores of shape (batch, classes) after a transform; of a single score only PROBIT changes anything."""
    if transform == "PROBIT":
        return _probit(w, scores)
    if classes == 1 or transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return w.op("Sigmoid", scores)
    if transform == "SOFTMAX":
        return w.op("Softmax", scores, axis=-1)
    return _softmax_zero(w, scores)


def check_two(transform: str, scores: int) -> None:
    """See that a transform can be applied where two classes share a single score.

    Raises:
        CannotRewriteError: It is PROBIT, for which ONNX Runtime leaves the second score undefined.
    """
    if scores == 1 and transform == "PROBIT":
        raise CannotRewriteError("ONNX Runtime leaves the second score undefined with PROBIT and two classes")


def with_opposite(w: Writer, score: onnx_ir.Value, transform: str, *, signed: bool) -> onnx_ir.Value:
    """A score of shape (batch, 1) behind that of the other class.

    With LOGISTIC these are ``sigmoid(-s)`` and ``sigmoid(s)``. With any other transform, which ONNX Runtime
    does not apply here, they are ``-s`` and ``s`` if ``signed``, else ``1 - s`` and ``s``.
    """
    if transform == "LOGISTIC":
        return w.op("Sigmoid", w.op("Concat", w.op("Neg", score), score, axis=1))
    opposite = w.op("Neg", score) if signed else w.op("Sub", w.constant(1.0), score)
    return w.op("Concat", opposite, score, axis=1)


def _probit(w: Writer, scores: onnx_ir.Value) -> onnx_ir.Value:
    """``sqrt(2) erf^-1(2 s - 1)`` by Winitzki's approximation of the inverse error function.

    With ``l = log(1 - x^2)``, ``a = 0.147`` and ``v = 2 / (pi a) + l / 2``:
    ``erf^-1(x) = sign(x) sqrt(sqrt(v^2 - l / a) - v)``.
    """
    one = w.constant(1.0)
    x = w.op("Sub", w.op("Mul", scores, w.constant(2.0)), one)
    logarithm = w.op("Log", w.op("Mul", w.op("Sub", one, x), w.op("Add", one, x)))
    shift = w.constant(np.float32(2.0) / (_PROBIT_PI * _PROBIT_A))
    v = w.op("Add", shift, w.op("Mul", logarithm, w.constant(0.5)))
    under = w.op("Sub", w.op("Mul", v, v), w.op("Mul", logarithm, w.constant(np.float32(1.0) / _PROBIT_A)))
    size = w.op("Sqrt", w.op("Sub", w.op("Sqrt", under), v))
    root = math.sqrt(2.0)
    sign = w.op("Where", w.op("Less", x, w.constant(0.0)), w.constant(-root), w.constant(root))
    return w.op("Mul", sign, size)


def _softmax_zero(w: Writer, scores: onnx_ir.Value) -> onnx_ir.Value:
    """A softmax over the scores that are not zero; the others are divided by the same sum."""
    largest = w.op("ReduceMax", scores, w.ints(-1))
    counts = w.op("Greater", w.op("Abs", scores), w.constant(_ZERO))
    small = w.op("Mul", scores, w.op("Exp", w.op("Neg", largest)))
    exponential = w.op("Exp", w.op("Sub", scores, largest))
    summands = w.op("Where", counts, exponential, w.constant(0.0))
    total = w.op("ReduceSum", summands, w.ints(-1))
    return w.op("Div", w.op("Where", counts, exponential, small), total)


class Labels:
    """The labels of a classifier's classes, integers or texts."""

    def __init__(self, w: Writer, integers: str, texts: str) -> None:
        """Read them from the attributes ``integers`` and ``texts``, of which the second goes first."""
        self._w = w
        self._texts = [str(word) for word in w.attribute(texts, ())]
        self._integers = [int(number) for number in w.attribute(integers, ())]
        self.count = len(self._texts) or len(self._integers)
        self.dtype = onnx_ir.DataType.STRING if self._texts else onnx_ir.DataType.INT64

    def at(self, index: onnx_ir.Value) -> onnx_ir.Value:
        """The labels at ``index``."""
        return self._w.op("Gather", self._tensor(), index, axis=0)

    def by_sign(self, score: onnx_ir.Value) -> onnx_ir.Value:
        """Of a score of shape (batch, 1): the second label where it is above 0, else the first."""
        w = self._w
        above = w.op("Greater", w.op("Squeeze", score, w.ints(1)), w.constant(0.0))
        return self.at(w.op("Cast", above, to=int(onnx_ir.DataType.INT64)))

    def _tensor(self) -> onnx_ir.Value:
        return self._w.texts(self._texts) if self._texts else self._w.constant(self._integers, np.int64)
