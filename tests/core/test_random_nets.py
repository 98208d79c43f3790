"""Random operator lists: their gradients agree with central differences, whatever the options."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from netgrad.core import ClassicVocabulary, GradientSlice, Operator
from tests.core.interpreter import check_numbers
from tests.core.weaknesses import numeric_rules

# Type -> numbers of inputs and outputs. "i" in the letters of inputs is an index blob.
SHAPES = {
    "Direct": (["x", "xx", "xxx"], [1, 2]),
    "UseInput": (["x", "xx"], [1, 2]),
    "UseOutput": (["x", "xx"], [1, 2]),
    "Nogradient": (["x"], [1]),
    "StopGradient": (["x"], [1]),
    "Pass": (["x", "xx", "xxx"], [1]),
    "First": (["x", "xx"], [1]),
    "SparsePass": (["xi"], [1]),
    "SparseVal": (["xi"], [1]),
    "SparseLook": (["xi"], [1]),
    "SparseTwice": (["xixi"], [1]),
    "Chain": (["xx"], [1]),
    "Shared": (["xx"], [1]),
    "Tanh": (["x"], [1]),
    "Sum": (["x", "xx", "xxx"], [1]),
    "ZeroGradient": (["x"], [0]),
}
# Few names, so that they are read several times, overwritten, and used in place; among them names that
# gradients would get.
BLOBS = ["a", "b", "c", "a_grad", "b_autogen_grad", "_a_grad_autosplit_0"]
INDICES = ["i", "j"]
DEVICES = [None, "cpu", "gpu:0"]


@st.composite
def operator(draw: st.DrawFn) -> Operator:
    type_ = draw(st.sampled_from(sorted(SHAPES)))
    inputs, outputs = (draw(st.sampled_from(choices)) for choices in SHAPES[type_])
    device = draw(st.sampled_from(DEVICES)) if draw(st.integers(0, 3)) == 0 else None
    if type_ == "StopGradient":
        blob = draw(st.sampled_from(BLOBS))
        return Operator(type_, [blob], [blob], device=device)
    names = [draw(st.sampled_from(BLOBS if letter == "x" else INDICES)) for letter in inputs]
    # What an operator overwrites itself is gone; only a rule that doesn't read its outputs can do without.
    unique = type_ == "UseOutput"
    written = draw(st.lists(st.sampled_from(BLOBS), min_size=outputs, max_size=outputs, unique=unique))
    return Operator(type_, names, written, device=device)


@st.composite
def targets(draw: st.DrawFn) -> dict[str, Any]:
    chosen = draw(st.lists(st.sampled_from(BLOBS), min_size=1, max_size=3, unique=True))
    starts: list[Any] = [None, "start", f"{chosen[0]}_grad_2", GradientSlice("gi", "gv")]
    return {blob: draw(st.sampled_from(starts)) for blob in chosen}


class Folding(ClassicVocabulary):
    """A dialect in which the gradient of Direct has an accumulator input, and large blobs."""

    def fold(self, op: Operator, output_index: int, partial: str) -> Operator | None:
        if op.type != "DirectGradient":
            return None
        return Operator(
            "DirectGradientPlus", (*op.inputs, partial), op.outputs, {"at": output_index}, device=op.device
        )

    def size_in_bytes(self, blob: str) -> int | None:
        return 1 << 24 if blob.startswith("a") else 8

    def in_place(self, op: Operator, input_index: int, output_index: int) -> bool:
        return super().in_place(op, input_index, output_index) and op.type != "UseInputGradient"


class Widening(Folding):
    """The same, where more than two gradients are added in another type, which a copy stands for here."""

    def sums_wide(self, blob: str, terms: int) -> bool:
        return terms > 2

    def widened(self, term: str, out: str, device: Any) -> list[Operator]:
        return [Operator("Copy", (term,), (out,), {"wide": 1}, device=device)]

    def narrowed(self, total: str, blob: str, out: str, device: Any) -> list[Operator]:
        return [Operator("Copy", (total,), (out,), {"wide": 0}, device=device)]


NETS = st.lists(operator(), min_size=1, max_size=12)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    forward=NETS,
    goals=targets(),
    accumulation=st.sampled_from(["sum", "running", "fused", "auto"]),
    single_assignment=st.booleans(),
    wrt=st.none() | st.lists(st.sampled_from(BLOBS), max_size=3, unique=True),
    vocabulary=st.sampled_from([Folding(), Widening()]),
)
def test_gradients_agree_with_central_differences(
    forward: list[Operator],
    goals: dict[str, Any],
    accumulation: str,
    single_assignment: bool,
    wrt: list[str] | None,
    vocabulary: Folding,
) -> None:
    known = {name for op in forward for name in (*op.inputs, *op.outputs)}
    goals = {blob: start for blob, start in goals.items() if blob in known} or {forward[0].inputs[0]: None}
    result = check_numbers(
        forward,
        goals,
        numeric_rules(),
        indices=INDICES,
        overwritten="keep",
        accumulation=accumulation,
        single_assignment=single_assignment,
        vocabulary=vocabulary,
        wrt=wrt,
    )
    assert len(result.origins) == len(result.operators)
    for record in result.accumulations:
        assert len(record.contributions) > 1
        assert all(c.operator is None or 0 <= c.operator < len(forward) for c in record.contributions)
