"""The backward pass: a list of operators in, the list of operators that computes derivatives out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from netgrad.core import activity, verify
from netgrad.core.accumulation import Accumulation, Accumulator, Strategy
from netgrad.core.errors import InvalidArgumentError, MissingRule, UnsupportedOperatorError
from netgrad.core.keep import Keeper
from netgrad.core.naming import EXTERNAL, GradientRef, Tape
from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.registry import RuleSource, SpecialOperators
from netgrad.core.rulecall import RuleCaller
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import ClassicVocabulary, DeviceVocabulary, Vocabulary

_CLASSIC = ClassicVocabulary()


@dataclass(frozen=True)
class BackwardPass:
    """What `backward_pass` returns.

    Attributes:
        operators: The gradient operators in order: start gradients, then for each forward operator, from
            last to first, those of its rule and the additions for the values that it is the first to read.
        origins: For each gradient operator, the index of the forward operator that it belongs to: the one
            whose rule wrote it or, for an addition, the reader whose contribution caused it. None for a
            start gradient.
        gradients: Blob to gradient. A blob that has several versions with a gradient shows the newest whose
            gradient its blob still holds when all operators have run; ``versions`` says which that is. The
            gradients of targets and of blobs in ``wrt`` are always held.
        versions: Blob to the version to which its entry in ``gradients`` belongs.
        forward: The forward operators, changed only with ``overwritten="keep"``.
    """

    operators: tuple[Operator, ...]
    origins: tuple[int | None, ...]
    gradients: Mapping[str, Gradient]
    versions: Mapping[str, int]
    forward: tuple[Operator, ...]
    _values: Versions = field(repr=False, compare=False)
    _tape: Tape = field(repr=False, compare=False)
    _sums: Accumulator = field(repr=False, compare=False)

    @cached_property
    def accumulations(self) -> tuple[Accumulation, ...]:
        """The values whose gradient was added up from several contributions, in the order of the sums."""
        return self._sums.records()

    def gradient_of(self, blob: str, version: int | None = None) -> Gradient | None:
        """The gradient of one value, None if no gradient reaches it.

        Args:
            blob: Name of the blob.
            version: Its version, counted as in the forward list; None for the last one.

        Raises:
            InvalidArgumentError: There is no such value, or its gradient is overwritten, while the gradient
                operators run, by that of an older version of the blob.
        """
        value = self._values.value(blob, version)
        if value == NONE:
            raise InvalidArgumentError(
                f"the net has no blob '{blob}'"
                if version is None or blob not in self._values.last
                else f"blob '{blob}' has no version {version}; its versions are 0 to "
                f"{self._values.numbers[self._values.last[blob]]}"
            )
        total = self._sums.totals.get(value)
        if total is None:
            return None
        held = self._tape.held(total)
        if held is None:
            raise InvalidArgumentError(
                f"the gradient of version {self._values.numbers[value]} of blob '{blob}' is overwritten by "
                f"that of an older version",
                hint=f"name '{blob}' in wrt, or pass single_assignment=True",
            )
        return held


def backward_pass(
    operators: Sequence[Operator],
    targets: Mapping[str, Gradient | None] | Sequence[str],
    rules: RuleSource,
    *,
    wrt: Iterable[str] | None = None,
    overwritten: Literal["error", "keep"] = "error",
    accumulation: Strategy = "sum",
    vocabulary: Vocabulary = _CLASSIC,
    single_assignment: bool = False,
    reserved: Collection[str] = (),
) -> BackwardPass:
    """Write the operators that compute the derivative of ``targets`` by the blobs of a net.

    Args:
        operators: The forward operators in order. They aren't changed.
        targets: The blobs to differentiate, at their last version. A mapping gives each its start gradient:
            the name of a blob, a `GradientSlice`, or None for all ones; a list means all ones for each.
        rules: The gradient rules.
        wrt: The blobs to differentiate by; only what lies between them and the targets is differentiated,
            and each gets a gradient blob of its own, which may be written afterwards. None: every blob.
        overwritten: What happens if a rule needs a value that a later operator overwrites: ``"error"``, or
            ``"keep"`` it under another name, by copies in the forward list.
        accumulation: How several contributions to one gradient are added: ``"sum"`` keeps them all and adds
            them at once, ``"running"`` adds each as it comes, ``"fused"`` folds additions into operators
            that can take them and runs otherwise, ``"auto"`` chooses by the size of the value.
        vocabulary: The dialect's words for start gradients, sums and copies.
        single_assignment: Whether every emitted blob gets a name of its own. Otherwise names of gradients are
            used again as in the original, where nobody needs what is stored under them.
        reserved: Names besides those of the net that emitted operators must not write.

    Returns:
        The gradient operators, the gradients, and what was accumulated.

    Raises:
        InvalidArgumentError: The targets aren't a mapping or a list of names, or an option is unknown.
        InvalidModelError: A ``StopGradient`` has no effect.
        UnsupportedOperatorError: Operators in the way of a gradient have no rule.
        OverwrittenBlobError: A rule needs an overwritten value, and ``overwritten`` is ``"error"``.
        AccumulationError: The vocabulary can't add the gradients of a value.
        RuleError: A rule raised, or broke its contract.
    """
    starts = _start_gradients(targets)
    _check_options(overwritten, accumulation, wrt)
    special = rules if isinstance(rules, SpecialOperators) else _NOTHING_SPECIAL
    verify.check_cuts(operators, special.must_be_read)

    versions = Versions(operators)
    goals = [versions.last_value(blob) for blob in starts]
    sources = (
        None if wrt is None else [value for blob in dict.fromkeys(wrt) for value in versions.values(blob)]
    )
    active = None if sources is None else activity.influenced(operators, versions, rules, sources)
    keeper = Keeper(operators, versions, vocabulary, special.value_keeping, keep=overwritten == "keep")
    tape = Tape(versions, reserved, keeper.forward)
    sums = Accumulator(operators, versions, tape, vocabulary, accumulation, single_assignment)
    caller = RuleCaller(operators, versions, tape, vocabulary, rules, sums, active)

    _start(starts, goals, versions, tape, sums, vocabulary)
    totals, reads, writes = sums.totals, versions.reads, versions.writes
    # Invariant: when the sweep comes to an operator, all readers of its outputs have been visited, so that
    # the totals of its outputs are complete.
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        tape.reader = index
        grads = [totals.get(value) for value in writes[index]]
        if grads.count(None) < len(grads) or (op.domain, op.type) in special.asked_always:
            wanted = caller.wanted(index)
            if True in wanted:
                if rules.missing(op) is not None:
                    ends = goals + _read_by(special.asked_always, operators, versions)
                    raise _unsupported(activity.missing_rules(operators, versions, rules, ends, active))
                caller.differentiate(index, grads, wanted)
        sums.settle(reads[index], index)

    if sources is not None and not single_assignment:
        _give_own(sources, goals, tape, sums)
    _protect([*goals, *(sources or ())], versions, tape, sums)
    in_place = vocabulary.in_place if isinstance(vocabulary, DeviceVocabulary) else _anywhere
    named = tape.name_all(None if single_assignment else in_place)
    return _result(named, keeper.changed_forward(), versions, tape, sums)


class _NothingSpecial:
    asked_always: Collection[tuple[str, str]] = ()
    must_be_read: Collection[tuple[str, str]] = ()
    value_keeping: Collection[tuple[str, str]] = ()


_NOTHING_SPECIAL = _NothingSpecial()


def _start_gradients(targets: Mapping[str, Gradient | None] | Sequence[str]) -> dict[str, Gradient | None]:
    """The targets as a mapping, in their order, with plain names."""
    if isinstance(targets, str) or not isinstance(targets, Mapping | Sequence):
        raise InvalidArgumentError(
            f"targets are a list of blob names or a mapping from blob name to start gradient, not {targets!r}"
        )
    given = targets.items() if isinstance(targets, Mapping) else [(blob, None) for blob in targets]
    starts: dict[str, Gradient | None] = {}
    for blob, gradient in given:
        if not isinstance(blob, str) or not blob:
            raise InvalidArgumentError(f"a target is the name of a blob, not {blob!r}")
        if gradient == "" or not isinstance(gradient, str | GradientSlice | None):
            raise InvalidArgumentError(
                f"the start gradient of '{blob}' is a blob name, a GradientSlice or None, not {gradient!r}"
            )
        starts[str(blob)] = gradient
    return starts


def _check_options(overwritten: str, accumulation: str, wrt: Iterable[str] | None) -> None:
    if overwritten not in ("error", "keep"):
        raise InvalidArgumentError(f"overwritten is 'error' or 'keep', not {overwritten!r}")
    if accumulation not in get_args(Strategy):
        raise InvalidArgumentError(
            f"accumulation is one of {', '.join(map(repr, get_args(Strategy)))}, not {accumulation!r}"
        )
    if isinstance(wrt, str):
        raise InvalidArgumentError(f"wrt is a list of blob names, not the single name {wrt!r}")


def _start(
    starts: Mapping[str, Gradient | None],
    goals: Sequence[int],
    versions: Versions,
    tape: Tape,
    sums: Accumulator,
    vocabulary: Vocabulary,
) -> None:
    """Contribute the start gradients; those of ones are written, on the device of their target."""
    for value, (blob, gradient) in zip(goals, starts.items(), strict=True):
        device = versions.device_of(value)
        if gradient is None:
            out = f"{blob}_autogen_grad"
            words = vocabulary.ones(tape.reference(~value), out, device)
            sums.contribute(value, tape.append(words, None, device)[out], NONE)
        elif isinstance(gradient, GradientSlice):
            indices, values = tape.external(gradient.indices, device), tape.external(gradient.values, device)
            sums.contribute(value, (indices, values), NONE)
        else:
            sums.contribute(value, tape.external(gradient, device), NONE)


def _read_by(
    types: Collection[tuple[str, str]], operators: Sequence[Operator], versions: Versions
) -> list[int]:
    return [
        value
        for index, op in enumerate(operators)
        if (op.domain, op.type) in types
        for value in versions.reads[index]
        if value >= 0
    ]


def _unsupported(missing: Sequence[MissingRule]) -> UnsupportedOperatorError:
    return UnsupportedOperatorError(
        "\n  ".join(str(one) for one in missing),
        missing,
        hint="differentiate only by blobs that don't lie behind these operators (wrt), or register rules",
    )


def _give_own(sources: Sequence[int], goals: Sequence[int], tape: Tape, sums: Accumulator) -> None:
    """Copy the gradient of a source where another source or target shows the same blob.

    Whoever updates such a gradient in place would change the other one too.
    """
    owners: dict[int, int] = {}
    for value in goals:
        for ref in _refs(sums.totals[value]):
            owners.setdefault(ref, value)
    for value in sources:
        total = sums.totals.get(value)
        if total is None:
            continue
        ref = _refs(total)[-1]  # of a slice, the values: nobody updates indices
        lent = ref < 0 or tape.claims[ref] == EXTERNAL
        if owners.setdefault(ref, value) != value or (lent and value not in goals):
            ref = sums.own_copy(value, ref)
            sums.totals[value] = ref if isinstance(total, int) else (total[0], ref)


def _refs(gradient: GradientRef) -> tuple[int, ...]:
    return gradient if isinstance(gradient, tuple) else (gradient,)


def _protect(values: Iterable[int], versions: Versions, tape: Tape, sums: Accumulator) -> None:
    """Let gradients outlive the tape: those of ``values``, and of each blob that of its oldest version.

    The gradient of a newer version may be overwritten by that of an older one, as in the original.
    """
    oldest = {versions.blobs[value]: value for value in sums.order()}
    for value in (*values, *oldest.values()):
        if value in sums.totals:
            tape.protect(sums.totals[value])


def _anywhere(op: Operator, input_index: int, output_index: int) -> bool:
    return True


def _result(
    named: tuple[Operator, ...],
    forward: tuple[Operator, ...],
    versions: Versions,
    tape: Tape,
    sums: Accumulator,
) -> BackwardPass:
    gradients: dict[str, Gradient] = {}
    numbers: dict[str, int] = {}
    for value in sums.order():
        blob = versions.blobs[value]
        if blob not in gradients:
            gradient = tape.held(sums.totals[value])
            if gradient is not None:
                gradients[blob] = gradient
                numbers[blob] = versions.numbers[value]
    return BackwardPass(named, tuple(tape.origins), gradients, numbers, forward, versions, tape, sums)
