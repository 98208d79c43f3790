"""A small NumPy interpreter of the test operators and their gradient operators, and central differences.

Every operator of the tests has a forward function here that its gradient operators are the derivative of, so
that the numbers which a backward pass computes can be compared with differences of the forward net. All
blobs are float64 of shape ROWS x COLUMNS, except indices, which are int64 of shape ROWS.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from netgrad.core import BackwardPass, GradientSlice, Operator, RuleSource, backward_pass
from netgrad.core.verify import check_reads, check_single_assignment, check_untouched

ROWS, COLUMNS = 3, 2
STEP = 1e-5
TOLERANCE = 1e-7  # of a central difference with that step in float64, relative to the sum of magnitudes

Array = np.ndarray[Any, Any]
Kernel = Callable[[Operator, Sequence[Array]], Sequence[Array]]


def _weight(i: int, j: int = 0) -> float:
    """How much input i counts in output j; all different, none symmetric."""
    return 0.3 + 0.17 * i - 0.11 * j


def _direct(op: Operator, x: Sequence[Array]) -> list[Array]:
    return [sum(_weight(i, j) * a for i, a in enumerate(x)) for j in range(len(op.outputs))]


def _direct_gradient(op: Operator, g: Sequence[Array]) -> list[Array]:
    return [sum(_weight(i, j) * a for j, a in enumerate(g)) for i in range(len(op.outputs))]


def _use_input(op: Operator, x: Sequence[Array]) -> list[Array]:
    return _direct(op, [np.sin(a) for a in x])


def _use_input_gradient(op: Operator, both: Sequence[Array]) -> list[Array]:
    x, g = both[: len(op.outputs)], both[len(op.outputs) :]
    return [np.cos(a) * b for a, b in zip(x, _direct_gradient(op, g), strict=True)]


def _use_output(op: Operator, x: Sequence[Array]) -> list[Array]:
    inner = sum(_weight(i) * a for i, a in enumerate(x))
    return [(j + 1.5) * np.tanh(inner) for j in range(len(op.outputs))]


def _use_output_gradient(op: Operator, both: Sequence[Array]) -> list[Array]:
    y, g = both[: len(both) // 2], both[len(both) // 2 :]
    inner = sum((j + 1.5) * (1 - (a / (j + 1.5)) ** 2) * b for j, (a, b) in enumerate(zip(y, g, strict=True)))
    return [_weight(i) * inner for i in range(len(op.outputs))]


def _step(x: Array) -> Array:
    return np.where(x > 0, 0.7, -0.4)  # piecewise constant: no derivative


def _concat(op: Operator, x: Sequence[Array]) -> list[Array]:
    return [np.concatenate(list(x)), np.array([len(a) for a in x])]


def _to_dense(op: Operator, x: Sequence[Array]) -> list[Array]:
    dense = np.zeros_like(x[2])
    np.add.at(dense, x[0], x[1])
    return [dense]


KERNELS: dict[str, Kernel] = {
    "Direct": _direct,
    "DirectGradient": _direct_gradient,
    "UseInput": _use_input,
    "UseInputGradient": _use_input_gradient,
    "UseOutput": _use_output,
    "UseOutputGradient": _use_output_gradient,
    "Pass": lambda op, x: [sum(x)],
    "Nogradient": lambda op, x: [sum(_step(a) for a in x)],
    "StopGradient": lambda op, x: [x[0]],
    "ZeroGradient": lambda op, x: [],
    "First": lambda op, x: [1.2 * x[0] + sum(_step(a) for a in x[1:])],
    "FirstGradient": lambda op, x: [1.2 * x[0]],
    "SparsePass": lambda op, x: [x[0][x[1]]],
    "SparseVal": lambda op, x: [0.8 * x[0][x[1]]],
    "SparseValGradient": lambda op, x: [0.8 * x[0]],
    "SparseLook": lambda op, x: [0.6 * x[0][x[1]]],
    "SparseLookGradient": lambda op, x: [x[0], 0.6 * x[1]],
    "SparseTwice": lambda op, x: [x[0][x[1]] + 0.5 * x[2][x[3]]],
    "SparseTwiceGradient": lambda op, x: [x[0], 0.5 * x[0]],
    "Chain": lambda op, x: [0.9 * x[0] + 1.8 * x[1]],
    "C1": lambda op, x: [0.9 * x[0]],
    "C2": lambda op, x: [2 * x[0]],
    "Shared": lambda op, x: [1.1 * (x[0] + x[1])],
    "SharedGradient": lambda op, x: [1.1 * x[0]],
    "Sum": lambda op, x: [sum(x)],
    "Tanh": lambda op, x: [np.tanh(x[0])],
    "TanhGradient": lambda op, x: [x[1] * (1 - x[0] ** 2)],
    "Negative": lambda op, x: [-x[0]],
    "Scale": lambda op, x: [op.attributes["scale"] * x[0]],
    "Mul": lambda op, x: [x[0] * x[1]],
    "MulGradient": lambda op, x: [x[0] * x[2], x[0] * x[1]],
    "Div": lambda op, x: [x[0] / x[1]],
    "Sqr": lambda op, x: [x[0] ** 2],
    "Cube": lambda op, x: [x[0] ** 3],
    "Sqrt": lambda op, x: [np.sqrt(x[0])],
    "Power": lambda op, x: [x[0] ** x[1]],
    "PowerLog": lambda op, x: [np.log(x[0])],
    "PRelu": lambda op, x: [np.where(x[0] > 0, x[0], x[1] * x[0])],
    "PReluGradient": lambda op, x: [
        np.where(x[0] > 0, x[1], x[2] * x[1]),
        np.where(x[0] > 0, 0, x[0] / x[2] * x[1]),
    ],
    "ConstantFill": lambda op, x: [np.full_like(x[0], op.attributes["value"])],
    "Concat": _concat,
    "SparseToDense": _to_dense,
    "Copy": lambda op, x: [x[0].copy()],
    # What a vocabulary with an accumulator input folds additions into.
    "DirectGradientPlus": lambda op, x: [
        a + x[-1] if i == op.attributes["at"] else a for i, a in enumerate(_direct_gradient(op, x[:-1]))
    ],
}


def run(
    operators: Sequence[Operator], blobs: Mapping[str, Array], stopped: dict[int, Array] | None = None
) -> dict[str, Array]:
    """All blobs after the operators have run.

    Args:
        operators: Operators in order.
        blobs: What is there before.
        stopped: What StopGradient operators gave in the first run with this dictionary; they give it again,
            so that a difference of two runs doesn't see through them.
    """
    values = dict(blobs)
    for index, op in enumerate(operators):
        outputs = KERNELS[op.type](op, [values[name] for name in op.inputs])
        if op.type == "StopGradient" and stopped is not None:
            outputs = [stopped.setdefault(index, outputs[0])]
        values.update(zip(op.outputs, outputs, strict=True))
    return values


@dataclass(frozen=True)
class Feeds:
    """Values for the blobs that a net reads before it writes them."""

    values: Mapping[str, Array]

    @property
    def differentiable(self) -> list[str]:
        return [name for name, value in self.values.items() if value.dtype == np.float64]


def feeds(operators: Sequence[Operator], indices: Sequence[str] = ()) -> Feeds:
    """Random values, the same for the same name: indices with repeats, and numbers between 0.4 and 1.6."""
    written: set[str] = set()
    values: dict[str, Array] = {}
    for op in operators:
        for name in op.inputs:
            if name and name not in written and name not in values:
                generator = np.random.default_rng(zlib.crc32(name.encode()))
                if name in indices:
                    values[name] = generator.integers(0, ROWS, ROWS)
                else:
                    values[name] = np.round(generator.uniform(0.4, 1.6, (ROWS, COLUMNS)), 3)
        written.update(op.outputs)
    return Feeds(values)


def check_numbers(
    forward: Sequence[Operator],
    targets: Mapping[str, Any] | Sequence[str],
    rules: RuleSource,
    *,
    indices: Sequence[str] = (),
    **options: Any,
) -> BackwardPass:
    """Differentiate, run both lists, and compare the gradient of every fed blob with central differences.

    Raises:
        AssertionError: A gradient is wrong, or a check of the lists fails.
    """
    result = backward_pass(forward, targets, rules, **options)
    given = feeds(forward, indices)
    starts = _starts(targets)
    extra = {name: given_value for name, given_value in starts.items() if name not in given.values}
    names = {name for op in forward for name in (*op.inputs, *op.outputs)} | set(given.values)

    check_reads([*result.forward, *result.operators], [*given.values, *extra])
    check_untouched(result.operators, {*names, *extra})
    lies: dict[str, Any] = {}
    for op in result.operators:
        if op.type in ("Sum", "Concat"):
            assert all(lies.get(name, op.device) == op.device for name in op.inputs), f"{op} on {op.device}"
        lies.update(dict.fromkeys(op.outputs, op.device))
        if op.type == "Sum" and op.outputs[0] in op.inputs:
            assert op.inputs.index(op.outputs[0]) == 0, f"{op} is in place on a later operand"
            assert op.inputs.count(op.outputs[0]) == 1, f"{op} overwrites what it still reads"
    if options.get("single_assignment"):
        before = {name for op in result.forward for name in op.outputs} | {*given.values, *extra}
        check_single_assignment(result.operators, before)

    after_forward = run(result.forward, {**given.values, **extra})
    stopped: dict[int, Array] = {}
    plain = run(forward, {**given.values, **extra}, stopped)
    for name in {name for op in forward for name in op.outputs if name}:
        np.testing.assert_array_equal(after_forward[name], plain[name], err_msg=name)
    after = run(result.operators, after_forward)

    weights = _weights(targets, plain)
    wrt = options.get("wrt")
    for name in given.differentiable if wrt is None else sorted(set(wrt) & set(given.differentiable)):
        value = given.values[name]
        gradient = dense(result.gradient_of(name, 0), after, value)
        direction = np.random.default_rng(zlib.crc32(f"{name} direction".encode())).normal(size=value.shape)
        slope = 0.0
        scale = float(np.abs(gradient * direction).sum())
        for sign in (1, -1):
            moved = {**given.values, **extra, name: value + sign * STEP * direction}
            end = run(forward, moved, stopped)
            slope += sign * sum(float((weights[y] * end[y]).sum()) for y in weights) / (2 * STEP)
        assert np.isclose(
            float((gradient * direction).sum()), slope, rtol=0, atol=TOLERANCE * max(1.0, scale)
        ), f"gradient of {name}: {float((gradient * direction).sum())}, difference quotient {slope}"
    return result


def dense(gradient: Any, blobs: Mapping[str, Array], like: Array) -> Array:
    """The numbers of a gradient (None: zeros) as an array like ``like``."""
    if isinstance(gradient, GradientSlice):
        return _to_dense(Operator("SparseToDense"), [blobs[gradient.indices], blobs[gradient.values], like])[
            0
        ]
    return np.zeros_like(like) if gradient is None else blobs[gradient]


def _starts(targets: Mapping[str, Any] | Sequence[str]) -> dict[str, Array]:
    """Values of the caller's start gradients."""
    values: dict[str, Array] = {}
    for gradient in targets.values() if isinstance(targets, Mapping) else ():
        if isinstance(gradient, GradientSlice):
            values[gradient.indices] = np.array([2, 0, 2, 1])
            values[gradient.values] = np.random.default_rng(5).normal(size=(4, COLUMNS))
        elif gradient is not None:
            seed = zlib.crc32(gradient.encode())
            values[gradient] = np.random.default_rng(seed).normal(size=(ROWS, COLUMNS))
    return values


def _weights(targets: Mapping[str, Any] | Sequence[str], blobs: Mapping[str, Array]) -> dict[str, Array]:
    """What each element of each target counts in the objective."""
    given = targets if isinstance(targets, Mapping) else dict.fromkeys(targets)
    return {
        blob: np.ones_like(blobs[blob]) if gradient is None else dense(gradient, blobs, blobs[blob])
        for blob, gradient in given.items()
    }
