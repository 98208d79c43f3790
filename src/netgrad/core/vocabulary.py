"""The few operators that the backward pass must write itself, in the words of a dialect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from netgrad.core.operator import GradientSlice, Operator


class Vocabulary(Protocol):
    """What every dialect can say.

    The names that arrive as ``blob``, ``terms`` and the like must reach the operators' inputs as they are
    (the same objects); names written that derive from ``out`` are local, like those of a gradient rule.
    """

    def ones(self, blob: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = ones with the shape and element type of the forward value ``blob``."""
        ...

    def zeros(self, blob: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = zeros with the shape and element type of the forward value ``blob``."""
        ...

    def sum(self, terms: Sequence[str], out: str, device: Any) -> Sequence[Operator]:
        """``out`` = the sum of ``terms``, which have equal shapes, added in their order."""
        ...

    def copy(self, blob: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = ``blob``, on ``device``."""
        ...

    def size_in_bytes(self, blob: str) -> int | None:
        """Size of the forward value ``blob`` in bytes, None where it is unknown before the net runs."""
        ...

    def fold(self, op: Operator, output_index: int, partial: str) -> Operator | None:
        """``op`` with ``partial`` added to one output through an accumulator input that it leaves free.

        Returns:
            The changed operator, with all other inputs where they were, or None if it has no such input.
        """
        ...


@runtime_checkable
class SparseVocabulary(Protocol):
    """What a dialect with sparse gradients says besides."""

    def concat_slices(
        self, slices: Sequence[GradientSlice], out: str, device: Any
    ) -> tuple[Sequence[Operator], GradientSlice]:
        """One slice with the rows of all ``slices`` in their order; repeated indices stay repeated."""
        ...

    def slice_to_dense(self, part: GradientSlice, like: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = zeros with the shape of the forward value ``like``, plus the rows of ``part``."""
        ...


@runtime_checkable
class StructuredVocabulary(Protocol):
    """What a dialect says besides whose values are not all tensors."""

    def sum_like(self, blob: str, terms: Sequence[str], out: str, device: Any) -> Sequence[Operator]:
        """``out`` = the sum of ``terms``, gradients of the forward value ``blob``, added in their order.

        ``blob`` says only what is added; the operators do not read it.
        """
        ...


@runtime_checkable
class DeviceVocabulary(Protocol):
    """What a dialect says whose nets are not in single assignment, or run on several devices."""

    def in_place(self, op: Operator, input_index: int, output_index: int) -> bool:
        """Whether ``op`` may write this output to the very blob that it reads as this input."""
        ...

    def same_device(self, first: Any, second: Any) -> bool:
        """Whether an operator on ``first`` can read what one on ``second`` wrote, without a copy."""
        ...


@runtime_checkable
class WideVocabulary(Protocol):
    """What a dialect says besides that has types in which long sums lose their small terms."""

    def sums_wide(self, blob: str, terms: int) -> bool:
        """Whether so many gradients of the forward value ``blob`` are added in a wider type."""
        ...

    def widened(self, term: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = ``term`` in the wider type."""
        ...

    def narrowed(self, total: str, blob: str, out: str, device: Any) -> Sequence[Operator]:
        """``out`` = ``total``, which is in the wider type, in the type of the forward value ``blob``."""
        ...


@runtime_checkable
class UniformVocabulary(Protocol):
    """What a dialect says besides whose sums of equally many terms differ in names only.

    The core then asks once for each number of terms, which saves much of the time of a sum.
    """

    sums_alike: bool
    """Whether that is so where no devices are named."""


class ClassicVocabulary:
    """The words of the original: ``ConstantFill``, ``Sum``, ``Concat``, ``SparseToDense``, ``Copy``."""

    sums_alike = True

    def ones(self, blob: str, out: str, device: Any) -> list[Operator]:
        """``ConstantFill`` with the value 1.0."""
        return [Operator("ConstantFill", (blob,), (out,), {"value": 1.0}, device=device)]

    def zeros(self, blob: str, out: str, device: Any) -> list[Operator]:
        """``ConstantFill`` with the value 0.0."""
        return [Operator("ConstantFill", (blob,), (out,), {"value": 0.0}, device=device)]

    def sum(self, terms: Sequence[str], out: str, device: Any) -> list[Operator]:
        """One n-ary ``Sum``."""
        return [Operator("Sum", tuple(terms), (out,), device=device)]

    def copy(self, blob: str, out: str, device: Any) -> list[Operator]:
        """One ``Copy``."""
        return [Operator("Copy", (blob,), (out,), device=device)]

    def size_in_bytes(self, blob: str) -> int | None:
        """Unknown: the classic form has no shapes."""
        return None

    def fold(self, op: Operator, output_index: int, partial: str) -> Operator | None:
        """None: no classic gradient operator has an accumulator input."""
        return None

    def concat_slices(
        self, slices: Sequence[GradientSlice], out: str, device: Any
    ) -> tuple[list[Operator], GradientSlice]:
        """One ``Concat`` of the indices and one of the values, along axis 0."""
        indices, values = f"{out}_indices_concat", f"{out}_values_concat"
        operators = [
            Operator("Concat", terms, (joined, f"{joined}_split"), {"axis": 0}, device=device)
            for terms, joined in (
                (tuple(part.indices for part in slices), indices),
                (tuple(part.values for part in slices), values),
            )
        ]
        return operators, GradientSlice(indices, values)

    def slice_to_dense(self, part: GradientSlice, like: str, out: str, device: Any) -> list[Operator]:
        """``SparseToDense``, which adds up repeated rows."""
        return [Operator("SparseToDense", (part.indices, part.values, like), (out,), device=device)]

    def in_place(self, op: Operator, input_index: int, output_index: int) -> bool:
        """``Sum`` works in place on its first operand only; other operators are taken to permit it."""
        return op.type != "Sum" or input_index == 0

    def same_device(self, first: Any, second: Any) -> bool:
        """Equality."""
        return bool(first == second)
