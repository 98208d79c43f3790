"""Optimizers: pairs of pure functions (init, update) that write one step of descent with the node builder.

A `Transform` turns gradients into a direction; `chain` puts several behind one another, and the training step
ends with ``parameter - learning_rate * direction``. `sgd`, `adam` and `adamw` are such chains; own ones are
made the same way:

    chain(clip_by_global_norm(1.0), adam(1e-3))
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.names import NameAuthority

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Direction:
    """A direction of descent, ``scale * value``.

    The scale is kept apart so that it costs no pass over a tensor.

    Attributes:
        value: Tensor of the parameter's shape.
        scale: 0-d factor, or None for 1.
    """

    value: Value
    scale: Value | None = None

    @property
    def total(self) -> Value:
        """The direction as one tensor."""
        return self.value if self.scale is None else self.value * self.scale


@dataclass(frozen=True)
class Context:
    """What an update may look at besides gradients, state and parameters.

    Attributes:
        op: Writes the operators.
        step: Number of this step, 0-d int64, 1 for the first.
    """

    op: Builder
    step: Value

    def power(self, base: float) -> Value:
        """``base ** step``, 0-d float64.

        Not in float32, because ``1 - base ** step`` cancels: in the first steps the relative error of the
        difference would be a thousand times that of 0.999 as a float32.
        """
        return self.op.op(
            "Pow", self.op.constant(np.asarray(base, np.float64)), self.op.cast(self.step, ir.DataType.DOUBLE)
        )


Slots: TypeAlias = Mapping[str, Value]
"""Optimizer state of one parameter by slot name, such as ``momentum``."""

Init: TypeAlias = Callable[[Array], dict[str, Array]]
"""From a parameter's value to the first values of its state."""

Update: TypeAlias = Callable[
    [Context, Mapping[str, Direction], Mapping[str, Slots], Mapping[str, Value]],
    tuple[dict[str, Direction], dict[str, dict[str, Value]]],
]
"""From (context, directions, state, parameters), by parameter name, to new directions and new state."""


@dataclass(frozen=True)
class Transform:
    """One step of an optimizer, as a pair of pure functions.

    Attributes:
        name: How it was made, such as ``sgd(lr=0.1)``: part of what a checkpoint has to agree with.
        init: Gives the first state of one parameter: arrays by slot name.
        update: Writes the operators that turn directions into new directions and state into new state.
        learning_rate: The default learning rate, or None for a transform that is no whole optimizer.
    """

    name: str
    init: Init
    update: Update
    learning_rate: float | None = None

    def __repr__(self) -> str:
        return self.name


Optimizer: TypeAlias = Transform
"""A transform with a learning rate."""


# ---- building blocks --------------------------------------------------------------------------------------


def chain(*transforms: Transform) -> Transform:
    """Several transforms one after another, the first next to the gradient.

    Args:
        transforms: At least one. Slot names that several of them use get a numbered suffix.

    Raises:
        InvalidArgumentError: Nothing was given, or more than one whole optimizer.
    """
    if not transforms:
        raise InvalidArgumentError("`chain` needs at least one transform")
    rates = [each.learning_rate for each in transforms if each.learning_rate is not None]
    if len(rates) > 1:
        raise InvalidArgumentError(
            f"`chain` got {len(rates)} optimizers with a learning rate of their own, and one is possible: "
            f"{', '.join(each.name for each in transforms if each.learning_rate is not None)}"
        )
    if len(transforms) == 1:
        return transforms[0]

    names: list[dict[str, str]] = []  # for each transform: own slot name -> name in the chain
    free = NameAuthority(())
    for transform in transforms:
        renamed = {}
        for slot in transform.init(np.zeros(1)):  # the names don't depend on the parameter
            renamed[slot] = free.unique(slot)
        names.append(renamed)

    def init(parameter: Array) -> dict[str, Array]:
        return {
            names[k][slot]: value
            for k, transform in enumerate(transforms)
            for slot, value in transform.init(parameter).items()
        }

    def update(
        context: Context,
        directions: Mapping[str, Direction],
        state: Mapping[str, Slots],
        parameters: Mapping[str, Value],
    ) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
        current = dict(directions)
        new: dict[str, dict[str, Value]] = {parameter: {} for parameter in parameters}
        for k, transform in enumerate(transforms):
            own = {p: {slot: state[p][name] for slot, name in names[k].items()} for p in parameters}
            current, changed = transform.update(context, current, own, parameters)
            for parameter, values in changed.items():
                new[parameter].update({names[k][slot]: value for slot, value in values.items()})
        return current, new

    title = f"chain({', '.join(each.name for each in transforms)})"
    return Transform(title, init, update, rates[0] if rates else None)


def clip_by_global_norm(max_norm: float) -> Transform:
    """Scale all gradients together so that their common Euclidean norm is at most ``max_norm``.

    ``g <- g * min(1, max_norm / ||g||)``, the norm over the elements of all parameters (Pascanu et al. 2013,
    arXiv:1211.5063).

    Args:
        max_norm: Above 0.

    Raises:
        InvalidArgumentError: ``max_norm`` is not above 0.
    """
    if not max_norm > 0:
        raise InvalidArgumentError(f"`max_norm` is {max_norm}; it is above 0")

    def update(
        context: Context,
        directions: Mapping[str, Direction],
        state: Mapping[str, Slots],
        parameters: Mapping[str, Value],
    ) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
        op = context.op
        given = {parameter: direction.total for parameter, direction in directions.items()}
        widest = _widest([_dtype(value) for value in given.values()])
        squares = [op.cast(op.op("ReduceSumSquare", value, keepdims=0), widest) for value in given.values()]
        norm = op.op("Sqrt", squares[0] if len(squares) == 1 else op.op("Sum", *squares))
        # max_norm / max(||g||, max_norm) is min(1, max_norm / ||g||) without a division by zero
        limit = op.scalar(max_norm, norm)
        scale = limit / op.op("Max", norm, limit)
        return {
            parameter: Direction(value, op.cast(scale, _dtype(value))) for parameter, value in given.items()
        }, {}

    return Transform(f"clip_by_global_norm({max_norm:g})", _no_state, update)


def add_decayed_weights(weight_decay: float) -> Transform:
    """Weight decay: ``d <- d + weight_decay * p``.

    Before the momentum or the moments it is the gradient of ``weight_decay / 2 * ||p||^2`` (coupled),
    after them it is decoupled from the gradient's statistics (Loshchilov and Hutter 2019, arXiv:1711.05101).

    Args:
        weight_decay: At least 0.

    Raises:
        InvalidArgumentError: ``weight_decay`` is below 0.
    """
    _not_negative("weight_decay", weight_decay)

    def update(
        context: Context,
        directions: Mapping[str, Direction],
        state: Mapping[str, Slots],
        parameters: Mapping[str, Value],
    ) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
        return {
            parameter: Direction(direction.total + parameters[parameter] * weight_decay)
            for parameter, direction in directions.items()
        }, {}

    return Transform(f"add_decayed_weights({weight_decay:g})", _no_state, update)


def trace(momentum: float, *, nesterov: bool = False) -> Transform:
    """Momentum: ``m <- momentum * m + d``, and m is the new direction; with Nesterov ``d + momentum * m``.

    Sources: Polyak 1964; Sutskever et al. 2013, "On the importance of initialization and momentum in deep
    learning". The first step has ``m = d``.

    Args:
        momentum: In [0, 1).
        nesterov: Whether to look ahead by one step.

    Raises:
        InvalidArgumentError: ``momentum`` is outside its range.
    """
    _fraction("momentum", momentum)

    def update(
        context: Context,
        directions: Mapping[str, Direction],
        state: Mapping[str, Slots],
        parameters: Mapping[str, Value],
    ) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
        new_directions: dict[str, Direction] = {}
        new_state: dict[str, dict[str, Value]] = {}
        for parameter, direction in directions.items():
            d = direction.total
            m = state[parameter]["momentum"] * momentum + d
            new_directions[parameter] = Direction(d + m * momentum if nesterov else m)
            new_state[parameter] = {"momentum": m}
        return new_directions, new_state

    title = f"trace({momentum:g}{', nesterov' if nesterov else ''})"
    return Transform(title, lambda parameter: {"momentum": np.zeros_like(parameter)}, update)


def scale_by_adam(beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8) -> Transform:
    """Adam's direction (Kingma and Ba 2015, arXiv:1412.6980, algorithm 1), with bias correction.

    ``m <- beta1 m + (1 - beta1) d``; ``v <- beta2 v + (1 - beta2) d^2``; the direction is
    ``(m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)`` at step t = 1, 2, ...

    Args:
        beta1: In [0, 1).
        beta2: In [0, 1).
        epsilon: At least 0; added to the root.

    Raises:
        InvalidArgumentError: A value outside its range.
    """
    _fraction("beta1", beta1)
    _fraction("beta2", beta2)
    _not_negative("epsilon", epsilon)

    def update(
        context: Context,
        directions: Mapping[str, Direction],
        state: Mapping[str, Slots],
        parameters: Mapping[str, Value],
    ) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
        op = context.op
        new_directions: dict[str, Direction] = {}
        new_state: dict[str, dict[str, Value]] = {}
        for parameter, direction in directions.items():
            d, slots = direction.total, state[parameter]
            m = slots["first_moment"] * beta1 + d * (1.0 - beta1)
            v = slots["second_moment"] * beta2 + d * d * (1.0 - beta2)
            # both bias corrections are moved to scalars: with r = sqrt(1 - beta2^t) the direction is
            # m / (sqrt(v) + epsilon r) * (r / (1 - beta1^t)), two passes over the tensor fewer
            root = op.op("Sqrt", 1.0 - context.power(beta2))
            scale = root / (1.0 - context.power(beta1))
            small = op.cast(root * epsilon, _dtype(d))
            new_directions[parameter] = Direction(m / (op.op("Sqrt", v) + small), op.cast(scale, _dtype(d)))
            new_state[parameter] = {"first_moment": m, "second_moment": v}
        return new_directions, new_state

    def init(parameter: Array) -> dict[str, Array]:
        return {"first_moment": np.zeros_like(parameter), "second_moment": np.zeros_like(parameter)}

    return Transform(f"scale_by_adam({beta1:g}, {beta2:g}, {epsilon:g})", init, update)


# ---- optimizers -------------------------------------------------------------------------------------------


def sgd(
    lr: float = 0.01, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0
) -> Optimizer:
    """Gradient descent: ``d = g + weight_decay p; m <- momentum m + d; p <- p - lr m``.

    With Nesterov's momentum the last is ``p <- p - lr (d + momentum m)``. Without momentum there is no state.

    Args:
        lr: Learning rate, at least 0: the default of the training step's input ``learning_rate``.
        momentum: In [0, 1).
        nesterov: Whether the momentum is Nesterov's.
        weight_decay: Coupled (L2) weight decay, at least 0.

    Raises:
        InvalidArgumentError: A value outside its range, or Nesterov without momentum.
    """
    if nesterov and momentum == 0.0:
        raise InvalidArgumentError("`nesterov` needs a `momentum` above 0")
    parts = []
    if weight_decay:
        parts.append(add_decayed_weights(weight_decay))
    if momentum:
        parts.append(trace(momentum, nesterov=nesterov))
    arguments = {"momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
    return _optimizer("sgd", lr, parts, arguments)


def adam(
    lr: float = 1e-3,
    beta1: float | None = None,
    beta2: float | None = None,
    epsilon: float | None = None,
    weight_decay: float | None = None,
) -> Optimizer:
    """Adam (see `scale_by_adam`) with coupled weight decay: ``d = g + weight_decay p`` goes into the moments.

    Args:
        lr: Learning rate, at least 0: the default of the training step's input ``learning_rate``.
        beta1: Decay of the first moment, in [0, 1); None means 0.9.
        beta2: Decay of the second moment, in [0, 1); None means 0.999.
        epsilon: Added to the root, at least 0; None means 1e-8.
        weight_decay: At least 0; None means 0.

    Raises:
        InvalidArgumentError: A value outside its range.
    """
    b1, b2, small = _or(beta1, 0.9), _or(beta2, 0.999), _or(epsilon, 1e-8)
    decay = _or(weight_decay, 0.0)
    parts = [add_decayed_weights(decay)] if decay else []
    parts.append(scale_by_adam(b1, b2, small))
    arguments = {"beta1": b1, "beta2": b2, "epsilon": small, "weight_decay": decay}
    return _optimizer("adam", lr, parts, arguments)


def adamw(
    lr: float = 1e-3,
    beta1: float | None = None,
    beta2: float | None = None,
    epsilon: float | None = None,
    weight_decay: float | None = None,
) -> Optimizer:
    """Adam with decoupled weight decay: ``p <- p - lr (direction + weight_decay p)`` (arXiv:1711.05101).

    Args:
        lr: Learning rate, at least 0: the default of the training step's input ``learning_rate``.
        beta1: Decay of the first moment, in [0, 1); None means 0.9.
        beta2: Decay of the second moment, in [0, 1); None means 0.999.
        epsilon: Added to the root, at least 0; None means 1e-8.
        weight_decay: At least 0; None means 0.01.

    Raises:
        InvalidArgumentError: A value outside its range.
    """
    b1, b2, small = _or(beta1, 0.9), _or(beta2, 0.999), _or(epsilon, 1e-8)
    decay = _or(weight_decay, 0.01)
    parts = [scale_by_adam(b1, b2, small)]
    if decay:
        parts.append(add_decayed_weights(decay))
    arguments = {"beta1": b1, "beta2": b2, "epsilon": small, "weight_decay": decay}
    return _optimizer("adamw", lr, parts, arguments)


def _optimizer(
    title: str, lr: float, parts: Sequence[Transform], arguments: Mapping[str, float]
) -> Optimizer:
    _not_negative("lr", lr)
    # the learning rate is an input of the step, so it is no part of what the optimizer is
    name = f"{title}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
    whole = chain(*parts) if parts else Transform("identity", _no_state, _unchanged)
    return Transform(name, whole.init, whole.update, float(lr))


def _unchanged(
    context: Context,
    directions: Mapping[str, Direction],
    state: Mapping[str, Slots],
    parameters: Mapping[str, Value],
) -> tuple[dict[str, Direction], dict[str, dict[str, Value]]]:
    return dict(directions), {}


def _no_state(parameter: Array) -> dict[str, Array]:
    return {}


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


def _dtype(value: Value) -> ir.DataType:
    assert value.dtype is not None, f"the element type of {value.name} is known"
    return value.dtype


def _widest(dtypes: Sequence[ir.DataType]) -> ir.DataType:
    """The element type that holds all others."""
    return reduce(lambda a, b: a if a.itemsize >= b.itemsize else b, dtypes)


def _fraction(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise InvalidArgumentError(f"`{name}` is {value}; it is from 0 up to below 1")


def _not_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0.0):
        raise InvalidArgumentError(f"`{name}` is {value}; it is a number of at least 0")
