"""The backward pass: a list of operators in, the list of operators that computes derivatives out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, get_args

from netgrad.core import activity, verify
from netgrad.core.accumulation import Accumulator, Strategy
from netgrad.core.addition import Adder
from netgrad.core.collector import not_collecting
from netgrad.core.errors import InvalidArgumentError, MissingRule, UnsupportedOperatorError
from netgrad.core.keep import Keeper
from netgrad.core.naming import Names
from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.registry import RuleSource, SpecialOperators, TypedRules
from netgrad.core.result import BackwardPass, make_result
from netgrad.core.rulecall import RuleCaller
from netgrad.core.tape import EXTERNAL, Tape
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import ClassicVocabulary, DeviceVocabulary, Vocabulary

_CLASSIC = ClassicVocabulary()


@not_collecting()
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
    open_types = rules.open_types if isinstance(rules, TypedRules) else ()
    verify.check_cuts(operators, special.must_be_read)

    versions = Versions(operators)
    goals = [versions.last_value(blob) for blob in starts]
    sources = (
        None if wrt is None else [value for blob in dict.fromkeys(wrt) for value in versions.values(blob)]
    )
    active = None if sources is None else activity.influenced(operators, versions, rules, sources)
    names = Names(versions, [*reserved, *_given_names(starts)])
    keeper = Keeper(operators, versions, vocabulary, special.value_keeping, names, keep=overwritten == "keep")
    tape = Tape(versions, keeper.forward)
    adder = Adder(operators, versions, tape, vocabulary, single_assignment)
    sums = Accumulator(versions, tape, vocabulary, adder, accumulation)
    caller = RuleCaller(operators, versions, tape, vocabulary, rules, adder, sums, active)

    _start(starts, goals, versions, tape, sums, vocabulary)
    total_of, due, reads, writes = sums.totals.__getitem__, sums.due, versions.reads, versions.writes
    # Invariant: when the sweep comes to an operator, all readers of its outputs have been visited, so that
    # the totals of its outputs are complete.
    for index in range(len(operators) - 1, -1, -1):
        op = operators[index]
        tape.reader = index
        grads = list(map(total_of, writes[index]))
        if grads.count(None) < len(grads) or (op.domain, op.type) in special.asked_always:
            is_open = (op.domain, op.type) in open_types
            wanted = caller.wanted(index, is_open)
            if True in wanted:
                if not is_open and rules.missing(op) is not None:
                    ends = goals + _read_by(special.asked_always, operators, versions)
                    raise _unsupported(activity.missing_rules(operators, versions, rules, ends, active))
                caller.differentiate(index, grads, wanted)
        if due[index]:
            sums.settle(reads[index], index)

    if sources is not None and not single_assignment:
        _give_own(sources, goals, tape, sums)
    _protect([*goals, *(sources or ())], versions, tape, sums)
    in_place = vocabulary.in_place if isinstance(vocabulary, DeviceVocabulary) else _anywhere
    named = names.give(tape, None if single_assignment else in_place)
    return make_result(named, tuple(tape.origins), keeper.changed_forward(), versions, sums, names)


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


def _given_names(starts: Mapping[str, Gradient | None]) -> list[str]:
    """The names of the caller's start gradients."""
    names = []
    for gradient in starts.values():
        if isinstance(gradient, GradientSlice):
            names += [gradient.indices, gradient.values]
        elif gradient is not None:
            names.append(gradient)
    return names


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
            sums.contribute([value], [tape.append(words, None, device)[out]], NONE)
        elif isinstance(gradient, GradientSlice):
            indices, values = tape.external(gradient.indices, device), tape.external(gradient.values, device)
            sums.contribute([value], [(indices, values)], NONE)
        else:
            sums.contribute([value], [tape.external(gradient, device)], NONE)


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
        owners.setdefault(_values(sums.total(value)), value)
    for value in sources:
        if sums.totals[value] is not None:
            ref = _values(sums.total(value))
            lent = ref < 0 or tape.claims[ref] == EXTERNAL
            if owners.setdefault(ref, value) != value or (lent and value not in goals):
                sums.give_own(value)


def _values(gradient: int | tuple[int, int]) -> int:
    return gradient if isinstance(gradient, int) else gradient[1]


def _protect(values: Iterable[int], versions: Versions, tape: Tape, sums: Accumulator) -> None:
    """Let gradients outlive the tape: those of ``values``, and of each blob that of its oldest version.

    The gradient of a newer version may be overwritten by that of an older one, as in the original.
    """
    oldest: Iterable[int] = sums.order
    if versions.following:
        oldest = {versions.blobs[value]: value for value in sums.order}.values()
    totals = map(sums.totals.__getitem__, (*values, *oldest))
    tape.protect([total for total in totals if total is not None])


def _anywhere(op: Operator, input_index: int, output_index: int) -> bool:
    return True
