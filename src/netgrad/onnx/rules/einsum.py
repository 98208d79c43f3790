"""The gradient rule of Einsum."""

from __future__ import annotations

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from netgrad.onnx.builder import Builder, Value
from netgrad.onnx.rules.context import RuleContext
from netgrad.onnx.rules.declaration import rule

_ELLIPSIS = "..."

Term = tuple[str, ...]
"""The labels of one operand or of the output, in order; ``...`` counts as one."""


@dataclass(frozen=True)
class Equation:
    """An Einsum equation.

    Attributes:
        terms: One term per operand.
        output: The output's term, written out if the equation leaves it implicit.
        implicit: Whether it was left implicit.
    """

    terms: tuple[Term, ...]
    output: Term
    implicit: bool


def parse(equation: str) -> Equation:
    """Read an equation such as ``"bij,bjk->bik"``.

    An implicit output has the ellipsis first, if there is one, then the labels that occur once, in
    alphabetical order.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = tuple(_labels(term) for term in left.split(","))
    if arrow:
        return Equation(terms, _labels(right), False)
    counts = Counter(label for term in terms for label in term)
    once = sorted(label for label, count in counts.items() if count == 1 and label != _ELLIPSIS)
    ellipsis = (_ELLIPSIS,) if _ELLIPSIS in counts else ()
    return Equation(terms, (*ellipsis, *once), True)


def _labels(term: str) -> Term:
    head, dots, tail = term.partition(_ELLIPSIS)
    return (*head, *((dots,) if dots else ()), *tail)


def _text(term: Iterable[str]) -> str:
    return "".join(term)


@rule("Einsum", attributes=("equation",), broadcasts=True)
def einsum(op: RuleContext, dy: Value) -> list[Value | None]:
    """Y[out] = sum over all other labels of X0[t0] X1[t1] ...; dXk[tk] = Einsum of dY and the other X.

    A label that only Xk has was summed away: its gradient is repeated along it. A label that Xk has twice
    reads a diagonal: its gradient is put on the diagonal of zeros.
    """
    equation = parse(op.attribute("equation"))
    _check(op, equation)
    spelt = equation
    if _ELLIPSIS in equation.output:
        spelt = _spelt_out(equation, op.rank(op.output) - (len(equation.output) - 1))
        if not _is_broadcast(op, equation):
            equation = spelt
    return [
        _operand_gradient(op, dy, equation, spelt, k) if op.wants(k) else None for k in range(len(op.inputs))
    ]


def _check(op: RuleContext, equation: Equation) -> None:
    if len(equation.terms) != len(op.inputs):
        raise op.refuse(f"its equation has {len(equation.terms)} operands, it has {len(op.inputs)} inputs")
    if any(_ELLIPSIS in term for term in equation.terms) and _ELLIPSIS not in equation.output:
        raise op.refuse("its operands have an ellipsis and its output has none", "sum with ReduceSum instead")
    if len(set(equation.output)) != len(equation.output):
        raise op.refuse("its output has a label twice")
    letters = _text(label for label in equation.output if label != _ELLIPSIS)
    if equation.implicit and letters and not (letters.islower() or letters.isupper()):
        raise op.refuse(
            "its implicit output has small and capital letters, which are not ordered alike everywhere",
            "write the output after '->'",
        )


def _spelt_out(equation: Equation, count: int) -> Equation:
    """The equation with ``count`` letters of their own in place of each ellipsis."""
    used = {label for term in equation.terms for label in term}
    letters = [letter for letter in string.ascii_letters if letter not in used][:count]

    def spell(term: Term) -> Term:
        return tuple(letter for label in term for letter in (letters if label == _ELLIPSIS else (label,)))

    return Equation(tuple(map(spell, equation.terms)), spell(equation.output), equation.implicit)


def _is_broadcast(op: RuleContext, equation: Equation) -> bool:
    """Whether the ellipsis may stand for size 1 in one operand and more in another.

    Only then has it to remain an ellipsis: letters are summed and ordered in the Einsum itself, but ONNX
    Runtime's memory plan takes all axes of one letter to have the size of the first.
    """
    shapes = []
    for value, term in zip(op.inputs, equation.terms, strict=True):
        if _ELLIPSIS in term:
            shape = None if value is None else value.shape
            if shape is None or None in shape:
                return True
            begin = term.index(_ELLIPSIS)
            shapes.append(shape[begin : begin + len(shape) - (len(term) - 1)])
    return any(shape != shapes[0] for shape in shapes)


def _operand_gradient(op: RuleContext, dy: Value, equation: Equation, spelt: Equation, k: int) -> Value:
    """The gradient of operand ``k``, before axes of size 1 that were broadcast are summed."""
    build, x, term = op.builder, op.required(k), equation.terms[k]
    available = set(equation.output).union(*(t for j, t in enumerate(equation.terms) if j != k))
    target = tuple(label for label in dict.fromkeys(term) if label in available)
    lacks_ellipsis = _ELLIPSIS in equation.output and _ELLIPSIS not in term
    written = (_ELLIPSIS, *target) if lacks_ellipsis else target
    result = dy
    if len(op.inputs) > 1 or written != equation.output:
        # The cotangent takes the operand's place: the order of axes that costs the fewest transpositions.
        terms = [equation.output if j == k else other for j, other in enumerate(equation.terms)]
        operands = [dy if j == k else op.required(j) for j in range(len(terms))]
        text = f"{','.join(map(_text, terms))}->{_text(written)}"
        result = build.op("Einsum", *operands, equation=text)
    if lacks_ellipsis:
        result = build.reduce_sum(result, list(range(len(spelt.output) - len(equation.output) + 1)))
    if target != term:
        available = set(spelt.output).union(*(t for j, t in enumerate(spelt.terms) if j != k))
        result = _restored(build, result, x, spelt.terms[k], available)
    if any(_may_be_repeated(op, spelt, k, axis) for axis in range(len(spelt.terms[k]))):
        result = build.op("Expand", result, build.shape_of(x))
    return result


def _may_be_repeated(op: RuleContext, equation: Equation, k: int, axis: int) -> bool:
    """Whether the axis, which Y lacks, may have size 1 in every other operand and yet more in operand ``k``.

    The product over the others has size 1 there too, then. It does not matter where sizes are known
    numbers: contributions are brought to the shape of their operand later.
    """
    label = equation.terms[k][axis]
    if label in equation.output:
        return False
    own = op.required(k).dim(axis)
    sizes = [
        op.required(j).dim(term.index(label))
        for j, term in enumerate(equation.terms)
        if j != k and label in term
    ]
    known = isinstance(own, int) and all(isinstance(size, int) for size in sizes)
    return bool(sizes) and not known and not any(own is not None and size == own for size in sizes)


def _restored(build: Builder, result: Value, x: Value, term: Term, available: set[str]) -> Value:
    """``result``, which lacks the repeated and the summed labels of ``term``, with the axes of ``x``."""
    positions: dict[str, list[int]] = {}
    for axis, label in enumerate(term):
        positions.setdefault(label, []).append(axis)
    summed = [found[0] for label, found in positions.items() if label not in available]
    repeated = [(first, other) for first, *more in positions.values() for other in more]
    result = build.unsqueeze(result, sorted(summed + [other for _, other in repeated]))
    diagonal: Value | None = None
    for first, other in repeated:
        index = _index_along(build, x, first, first, len(term))
        mask = index.equals(_index_along(build, x, first, other, len(term)))
        diagonal = mask if diagonal is None else build.op("And", diagonal, mask)
    if diagonal is not None:
        result = build.where(diagonal, result, 0.0)
    return _repeated_along(build, result, x, summed, len(term))


def _repeated_along(build: Builder, result: Value, x: Value, axes: Sequence[int], rank: int) -> Value:
    """``result``, of size 1 along ``axes``, repeated to the sizes that ``x`` has there."""
    if not axes:
        return result
    selected = np.isin(np.arange(rank), axes)
    static = x.static_shape
    if static is not None:
        sizes = build.ints([size if here else 1 for size, here in zip(static, selected, strict=True)])
    else:
        sizes = build.where(build.constant(selected), build.shape_of(x), build.constant(1))
    return build.op("Expand", result, sizes)


def _index_along(build: Builder, x: Value, axis: int, along: int, rank: int) -> Value:
    """0, 1, ... along axis ``along`` of a tensor of ``rank`` axes, as many as ``x`` has along ``axis``."""
    size = x.dim(axis)
    shape = [1] * rank
    shape[along] = -1
    if isinstance(size, int):
        return build.constant(np.arange(size, dtype=np.int64).reshape(shape))
    count = build.size_along(x, [axis])
    index = build.op("Range", build.constant(0), count, build.constant(1))
    return build.reshape(index, shape)
