"""The optimizers of ``ai.onnx.preview.training``: Adagrad, Adam and Momentum.

Each updates any number of tensors. With n of them, the inputs behind the learning rate R and the number of
updates T are all n tensors X, then their n gradients G, then n states of each kind; the outputs are the n new
tensors and then the new states. The formulas are the standard's.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir

from netgrad.onnx.edit import CannotRewriteError
from netgrad.onnx.lowering.writer import Writer

_DOUBLE = onnx_ir.DataType.DOUBLE


def adagrad(w: Writer) -> None:
    """``H' = H + G^2; X' = X - R / (1 + T decay_factor) G / (sqrt(H') + epsilon)``, G regularized."""
    groups = _groups(w, ["X", "G", "H"])
    decay, epsilon = _number(w, "decay_factor", 0.0), _number(w, "epsilon", 1e-6)
    updates = []
    for x, g, h in groups:
        step = _rate(w, x)
        if decay:
            times = w.op("CastLike", w.input(1), x)
            step = w.op("Div", step, _plus(w, _times(w, times, decay, x), 1.0, x))
        g = _regularized(w, x, g)
        new_h = w.op("Add", h, w.op("Mul", g, g))
        size = _plus(w, w.op("Sqrt", new_h), epsilon, x)
        updates.append((w.op("Sub", x, w.op("Div", w.op("Mul", step, g), size)), new_h))
    _finish(w, groups, updates)


def adam(w: Writer) -> None:
    """``V' = alpha V + (1 - alpha) G; H' = beta H + (1 - beta) G^2; X' = X - R' V' / (sqrt(H') + epsilon)``.

    G is regularized; R' is ``R sqrt(1 - beta^T) / (1 - alpha^T)`` if T > 0, else R; in the end X' is scaled
    by ``1 - norm_coefficient_post``.
    """
    groups = _groups(w, ["X", "G", "V", "H"])
    alpha, beta = _number(w, "alpha", 0.9), _number(w, "beta", 0.999)
    epsilon, post = _number(w, "epsilon", 1e-6), _number(w, "norm_coefficient_post", 0.0)
    count = w.op("Cast", w.input(1), to=int(_DOUBLE))
    one = w.constant(1.0, "float64")
    started = w.op("Greater", count, w.constant(0.0, "float64"))
    exponent = w.op("Where", started, count, one)  # at T = 0 the factor is not used, and must not be 0 / 0
    powers = [w.op("Sub", one, w.op("Pow", w.constant(base, "float64"), exponent)) for base in (beta, alpha)]
    factor = w.op("Where", started, w.op("Div", w.op("Sqrt", powers[0]), powers[1]), one)
    updates = []
    for x, g, v, h in groups:
        g = _regularized(w, x, g)
        new_v = w.op("Add", _times(w, v, alpha, x), _times(w, g, 1.0 - alpha, x))
        new_h = w.op("Add", _times(w, h, beta, x), w.op("Mul", _times(w, g, 1.0 - beta, x), g))
        size = _plus(w, w.op("Sqrt", new_h), epsilon, x)
        step = w.op("Mul", _rate(w, x), w.op("CastLike", factor, x))
        new_x = w.op("Sub", x, w.op("Div", w.op("Mul", step, new_v), size))
        updates.append((_times(w, new_x, 1.0 - post, x) if post else new_x, new_v, new_h))
    _finish(w, groups, updates)


def momentum(w: Writer) -> None:
    """``V' = alpha V + beta G; X' = X - R V'``, or with Nesterov's ``X' = X - R (G + alpha V')``.

    G is regularized, and instead of beta there is 1 as long as T is 0.
    """
    groups = _groups(w, ["X", "G", "V"])
    mode = w.attribute("mode")
    if mode not in ("standard", "nesterov"):
        raise CannotRewriteError(f"its mode {mode!r} is not understood")
    missing = [n for n in ("alpha", "beta", "norm_coefficient") if w.attribute(n) is None]
    if missing:
        raise CannotRewriteError(f"its attribute '{missing[0]}' is left out")
    alpha, beta = _number(w, "alpha", 0.0), _number(w, "beta", 0.0)
    started = w.op("Greater", w.input(1), w.constant(0, "int64"))
    updates = []
    for x, g, v in groups:
        g = _regularized(w, x, g)
        scale = w.op("Where", started, _like(w, beta, x), _like(w, 1.0, x))
        new_v = w.op("Add", _times(w, v, alpha, x), w.op("Mul", scale, g))
        direction = w.op("Add", g, _times(w, new_v, alpha, x)) if mode == "nesterov" else new_v
        updates.append((w.op("Sub", x, w.op("Mul", _rate(w, x), direction)), new_v))
    _finish(w, groups, updates)


def _groups(w: Writer, kinds: Sequence[str]) -> list[list[onnx_ir.Value]]:
    """What belongs to each tensor: itself, its gradient, its states."""
    tensors = len(w.node.inputs) - 2
    if tensors < len(kinds) or tensors % len(kinds):
        raise CannotRewriteError(f"its {tensors} tensors are not as many each of {', '.join(kinds)}")
    count = tensors // len(kinds)
    if len(w.node.outputs) > tensors - count:
        raise CannotRewriteError(f"it has {len(w.node.outputs)} outputs for {count} tensors")
    w.input(0), w.input(1)
    return [[w.input(2 + k + count * kind) for kind in range(len(kinds))] for k in range(count)]


def _finish(
    w: Writer, groups: Sequence[Sequence[onnx_ir.Value]], updates: Sequence[Sequence[onnx_ir.Value]]
) -> None:
    for kind in range(len(updates[0])):
        for k, update in enumerate(updates):
            index = kind * len(updates) + k
            if w.is_read(index):
                w.finish(index, update[kind], groups[k][0].dtype, groups[k][0].shape)


def _number(w: Writer, name: str, default: float) -> float:
    return float(w.attribute(name, default))


def _rate(w: Writer, x: onnx_ir.Value) -> onnx_ir.Value:
    """The learning rate, in the element type of the tensor."""
    rate = w.input(0)
    return rate if rate.dtype is not None and rate.dtype == x.dtype else w.op("CastLike", rate, x)


def _regularized(w: Writer, x: onnx_ir.Value, g: onnx_ir.Value) -> onnx_ir.Value:
    """``G + norm_coefficient X``."""
    norm = _number(w, "norm_coefficient", 0.0)
    return w.op("Add", _times(w, x, norm, x), g) if norm else g


def _times(w: Writer, value: onnx_ir.Value, number: float, x: onnx_ir.Value) -> onnx_ir.Value:
    return w.op("Mul", value, _like(w, number, x))


def _plus(w: Writer, value: onnx_ir.Value, number: float, x: onnx_ir.Value) -> onnx_ir.Value:
    return w.op("Add", value, _like(w, number, x))


def _like(w: Writer, number: float, x: onnx_ir.Value) -> onnx_ir.Value:
    """A number in the element type of the tensor."""
    if x.dtype is None:
        return w.op("CastLike", w.constant(number, "float64"), x)
    return w.constant(number, x.dtype.numpy())
