"""Gradient rule of BatchNormalization: X of shape (N, C, D1, ..., Dk), statistics per channel.

With xhat = (X - mean) / (var + epsilon)^(1/2), Y = scale xhat + B. Sums run over N, D1, ..., Dk and have m
terms. Source: Ioffe and Szegedy, "Batch normalization", https://arxiv.org/abs/1502.03167, section 3.

Half precision is computed in float32, as the forward operator's statistics are.
"""

from __future__ import annotations

from dataclasses import dataclass

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule
from netgrad.onnx.rules.norm import element_count
from netgrad.onnx.rules.precision import filled, widened
from netgrad.onnx.rules.unranked import images


@dataclass(frozen=True)
class _Batch:
    """The operands in the type of the computation, and what does not depend on the mode."""

    builder: Builder
    x: Value
    scale: Value
    mean: Value
    var: Value
    epsilon: float
    axes: tuple[int, ...]  # all but the channels
    rank: int

    def normalize(self, x: Value, scale: Value, mean: Value, var: Value) -> Value:
        """``scale (x - mean) / (var + epsilon)^(1/2)`` as one operator."""
        shift = filled(self.builder, self.scale, 0.0)
        result = self.builder.op("BatchNormalization", x, scale, shift, mean, var, epsilon=self.epsilon)
        return self.builder.assume_like(result, self.x)

    def channel_sum(self, x: Value) -> Value:
        """The sum over all but the channels, of shape (C,). A tensor of rank 1 has one channel."""
        return self.builder.reduce_sum(x, self.axes, keepdims=self.rank == 1)

    def per_channel(self, value: Value) -> Value:
        """A value of shape (C,) such that it broadcasts to X."""
        return self.builder.unsqueeze(value, list(range(1, self.rank - 1)))


@rule("BatchNormalization", attributes=("epsilon", "momentum", "training_mode"))
def batch_normalization(op: RuleContext, *cotangents: Value | None) -> list[Value | None]:
    """Y = scale xhat + B, where mean and var are inputs (inference) or those of the batch (training).

    Inference: dX = scale (var + epsilon)^(-1/2) dY, dscale = sum dY xhat, dB = sum dY,
    dmean = -dB scale (var + epsilon)^(-1/2), dvar = -dscale scale / (2 (var + epsilon)).
    Five operators serve X, scale and B: both affine maps are BatchNormalization itself, with other
    coefficients. Composed from elementwise operators, the same takes eleven, and 0.9 to 1.1 times the time
    (forward and backward, three shapes, ONNX Runtime 1.32, 1 and 2 threads; benchmarks/normalization.py).

    Training: dX = scale (var + epsilon)^(-1/2) (dY - sum dY / m - xhat sum dY xhat / m). The outputs
    running_mean = momentum input_mean + (1 - momentum) mean and running_var, likewise, add
    (1 - momentum) (drunning_mean + 2 (X - mean) drunning_var) / m to it, and
    dinput_mean = momentum drunning_mean, dinput_var = momentum drunning_var.
    The mean is subtracted before anything is multiplied or squared, so that a large mean costs digits once,
    as in the forward operator, and not squared.
    """
    builder = op.builder
    x = widened(builder, op.input)  # the other inputs may be of other types
    scale, mean, var = (builder.cast(op.required(k), op.floating(x)) for k in (1, 3, 4))
    whole, rank = x, x.rank
    given = [None if dy is None else builder.cast(dy, op.floating(x)) for dy in cotangents]
    if rank is None:
        rank, x = 3, images(builder, x)
        given[0] = None if given[0] is None else images(builder, given[0])
    axes = tuple(axis for axis in range(rank) if axis != 1)
    batch = _Batch(builder, x, scale, mean, var, op.attribute("epsilon"), axes, rank)
    if op.attribute("training_mode"):
        answer = _training(op, batch, [*given, None, None][:3])
    else:
        dy = given[0]
        assert dy is not None, "in inference mode there is one output"
        answer = _inference(op, batch, dy)
    dx = answer[0]
    return [None if dx is None else builder.reshape_like(dx, whole), *answer[1:]]


def _inference(op: RuleContext, batch: _Batch, dy: Value) -> list[Value | None]:
    scale, var = batch.scale, batch.var
    shape_like = batch.scale
    zero, one = filled(op.builder, shape_like, 0.0), filled(op.builder, shape_like, 1.0)
    dx = batch.normalize(dy, scale, zero, var) if op.wants(0) else None
    dscale = dbias = dmean = dvar = None
    if op.wants(1) or op.wants(4):
        dscale = batch.channel_sum(dy * batch.normalize(batch.x, one, batch.mean, var))
    if op.wants(2) or op.wants(3):
        dbias = batch.channel_sum(dy)
    variance = var + batch.epsilon
    if op.wants(3) and dbias is not None:
        dmean = -(dbias * scale) / op.emit("Sqrt", variance)
    if op.wants(4) and dscale is not None:
        dvar = -(dscale * scale) / (variance + variance)
    return [dx, dscale, dbias, dmean, dvar]


def _training(op: RuleContext, batch: _Batch, cotangents: list[Value | None]) -> list[Value | None]:
    """The gradients in training mode, 17 operators where shapes are static.

    The last map, scale (var + epsilon)^(-1/2) (G - sum dY / m), is BatchNormalization in inference mode.
    Forward and backward take 0.72 to 1.06 times the time of the same affine map in elementwise operators,
    and 0.54 to 0.82 times that of the textbook form through xhat (benchmarks/normalization.py: three
    shapes, ONNX Runtime 1.32, 1 and 2 threads). Training mode itself, which would give the statistics in
    one operator, is not used: ONNX Runtime lets its outputs overwrite its inputs, and is wrong where the
    two running statistics are one tensor.
    """
    builder, x, scale = batch.builder, batch.x, batch.scale
    dy, drunning_mean, drunning_var = cotangents
    size = element_count(builder, x, batch.axes)
    centred = x - builder.reduce_mean(x, batch.axes, keepdims=True)
    dx: Value | None = None
    dscale = dbias = None
    if dy is not None:
        var = builder.reduce_mean(centred * centred, batch.axes, keepdims=batch.rank == 1)
        variance = var + batch.epsilon
        moment = batch.channel_sum(dy * centred)
        dbias = batch.channel_sum(dy)
        slope = batch.per_channel(moment / (variance * size))
        dx = batch.normalize(dy - centred * slope, scale, dbias / size, var)
        dscale = moment / op.emit("Sqrt", variance)
    fresh = 1.0 - op.attribute("momentum")
    terms = [] if dx is None else [dx]
    if drunning_mean is not None:
        terms.append(batch.per_channel(drunning_mean * fresh / size))
    if drunning_var is not None:
        terms.append(centred * batch.per_channel(drunning_var * (2.0 * fresh) / size))
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    momentum = op.attribute("momentum")
    return [
        builder.expand_like(total, x),
        filled(builder, scale, 0.0) if dscale is None else dscale,
        filled(builder, scale, 0.0) if dbias is None else dbias,
        filled(builder, batch.mean, 0.0) if drunning_mean is None else drunning_mean * momentum,
        filled(builder, batch.var, 0.0) if drunning_var is None else drunning_var * momentum,
    ]
