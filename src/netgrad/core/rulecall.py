"""One call of a gradient rule: what it is given, what it may return, and where that goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, NoReturn

from netgrad.core.accumulation import Accumulator
from netgrad.core.addition import Adder
from netgrad.core.errors import NetgradError, RuleError
from netgrad.core.operator import Gradient, GradientSlice, Operator
from netgrad.core.registry import Densifying, Located, RuleSource, ZeroFilling
from netgrad.core.tape import (
    EXTERNAL,
    GradientRef,
    Local,
    Ref,
    Reference,
    Tape,
    UnknownNameError,
    without_occurrence,
)
from netgrad.core.versions import NONE, Versions
from netgrad.core.vocabulary import Vocabulary


class RuleCaller:
    """Asks rules, puts their operators on the tape, and hands their gradients to the accumulator."""

    def __init__(
        self,
        operators: Sequence[Operator],
        versions: Versions,
        tape: Tape,
        vocabulary: Vocabulary,
        rules: RuleSource,
        adder: Adder,
        sums: Accumulator,
        active: bytearray | None,
    ) -> None:
        self._operators = operators
        self._versions = versions
        self._tape = tape
        self._words = vocabulary
        self._rules = rules
        self._zero_filling = rules if isinstance(rules, ZeroFilling) else None
        self._densifying = rules if isinstance(rules, Densifying) else None
        self._adder = adder
        self._sums = sums
        self._active = active
        self._index = NONE  # the operator whose rule is being asked
        self._given: Sequence[Gradient | None] = ()
        self._meanings: dict[str, Ref] | None = None

    def wanted(self, index: int, is_open: bool) -> list[bool]:
        """For each input of operator ``index``, whether a gradient of it is of use.

        Args:
            index: The operator.
            is_open: Whether none of its inputs is blocked, as is known of its type.
        """
        reads = self._versions.reads[index]
        active = self._active
        blocked = () if is_open else self._rules.blocked_inputs(self._operators[index])
        if active is None:
            if not blocked and NONE not in reads:
                return [True] * len(reads)
            return [value >= 0 and k not in blocked for k, value in enumerate(reads)]
        return [value >= 0 and active[value] == 1 and k not in blocked for k, value in enumerate(reads)]

    def differentiate(self, index: int, grads: Sequence[GradientRef | None], wanted: Sequence[bool]) -> None:
        """Write the gradient operators of operator ``index``, and contribute its input gradients.

        Raises:
            RuleError: The rule raised or broke its contract.
            OverwrittenBlobError: The rule needs an overwritten value that isn't kept.
        """
        op = self._operators[index]
        tape = self._tape
        given: list[Gradient | None]
        only = grads[0] if len(grads) == 1 else None
        if isinstance(only, int):
            given = [tape.reference(only)]
        else:
            if None in grads and self._zero_filling is not None:
                grads = self._filled(index, grads)
            if self._densifying is not None and tuple in map(type, grads):
                grads = self._dense(index, grads)
            given = list(map(tape.gradient, grads))
        written, returned = self._ask(op, index, given, wanted)
        self._index, self._given, self._meanings = index, given, None
        try:
            local = tape.append(written, index, op.device, self._meaning)
        except UnknownNameError as error:
            self._blame_name(error)
        except AttributeError:
            for thing in written:
                if not isinstance(thing, Operator):
                    self._blame(op, f"wrote {thing!r}, which is no operator")
            raise
        sums = self._sums
        shared = self._shared(returned, wanted, local) if sums.folds else ()
        gradients: list[GradientRef | None]
        try:  # the usual case, fast: plain names of what the rule wrote
            plain = False not in wanted and Reference not in map(type, returned)
            gradients = list(map(local.get, returned)) if plain else [None]
        except TypeError:  # something that can't be a name
            gradients = [None]
        if None in gradients:
            gradients = self._entries(returned, wanted, local)
        sums.contribute(self._versions.reads[index], gradients, index, shared)

    # ---- before the call ----------------------------------------------------------------------------

    def _filled(self, index: int, grads: Sequence[GradientRef | None]) -> Sequence[GradientRef | None]:
        """``grads`` with zeros where the rule can't do without a gradient."""
        op = self._operators[index]
        assert self._zero_filling is not None, "asked before"
        if all(grad is None for grad in grads) or not self._zero_filling.needs_all_output_gradients(op):
            return grads
        filled = list(grads)
        following, producers = self._versions.following, self._versions.producers
        for k, value in enumerate(self._versions.writes[index]):
            if filled[k] is None and value >= 0:
                # An operator that writes a blob twice leaves only the last, of the same shape.
                while value in following and producers[following[value]] == index:
                    value = following[value]
                out = f"{op.outputs[k]}_grad"
                words = self._words.zeros(self._tape.reference(~value), out, op.device)
                cell = self._tape.append(words, index, op.device)[out]
                self._tape.claims[cell] = EXTERNAL
                filled[k] = cell
        return filled

    def _dense(self, index: int, grads: Sequence[GradientRef | None]) -> Sequence[GradientRef | None]:
        """``grads`` with dense gradients in place of slices if the rule can't take those."""
        assert self._densifying is not None, "asked before"
        if not self._densifying.needs_dense_gradients(self._operators[index]):
            return grads
        return [
            self._adder.densified(grad, value, index, f"{self._versions.blobs[value]}_grad")
            if isinstance(grad, tuple)
            else grad
            for value, grad in zip(self._versions.writes[index], grads, strict=True)
        ]

    def _ask(
        self, op: Operator, index: int, given: Sequence[Gradient | None], wanted: Sequence[bool]
    ) -> tuple[Sequence[Operator], Sequence[Any]]:
        try:
            plain = len(op.outputs) == 1 and op.outputs[0] not in op.inputs
            asked = op if plain else self._distinct(op, index)
            answer: Any = self._rules.gradient(asked, given, wanted)
        except NetgradError:
            raise
        except Exception as error:
            self._blame(op, f"raised {type(error).__name__}: {error}", error)
        if not isinstance(answer, tuple) or len(answer) != 2:
            self._blame(op, f"returned {answer!r} instead of (operators, gradients)")
        written, returned = answer
        if not isinstance(written, (list, tuple)):
            if written is None:
                written = ()
            elif isinstance(written, Operator):
                written = (written,)
        if not isinstance(returned, (list, tuple)) and not _is_sequence(returned):
            self._blame(op, f"returned {returned!r} instead of one gradient per input")
        if len(returned) != len(op.inputs):
            self._blame(op, f"returned {len(returned)} gradients for {len(op.inputs)} inputs")
        return written, returned

    def _distinct(self, op: Operator, index: int) -> Operator:
        """``op`` with outputs that can be told from inputs and from each other where names are equal."""
        outputs = op.outputs
        if frozenset(op.inputs).isdisjoint(outputs) and len(set(outputs)) == len(outputs):
            return op
        references = [
            Reference.to(~value, name) if name else name
            for name, value in zip(outputs, self._versions.writes[index], strict=True)
        ]
        return Operator(op.type, op.inputs, tuple(references), op.attributes, op.domain, op.device, op.name)

    # ---- after the call -----------------------------------------------------------------------------

    def _meaning(self, name: str, op: Operator) -> Ref:
        """What a plain name means in the rule's operators; one that is read and written means the input."""
        if self._meanings is None:
            asked, versions = self._operators[self._index], self._versions
            self._meanings = {
                str(part): part.ref
                for grad in self._given
                for part in ((grad.indices, grad.values) if isinstance(grad, GradientSlice) else (grad,))
                if isinstance(part, Reference)
            }
            for names, values in (
                (asked.outputs, versions.writes[self._index]),
                (asked.inputs, versions.reads[self._index]),
            ):
                self._meanings.update(
                    (blob, ~value) for blob, value in zip(names, values, strict=True) if blob
                )
        if isinstance(name, str):
            for known in (name, without_occurrence(name)):
                if known in self._meanings:
                    return self._meanings[known]
        raise UnknownNameError(name, op)

    def _shared(
        self, returned: Sequence[Any], wanted: Sequence[bool], local: Local
    ) -> Collection[GradientRef | None]:
        """The gradients that the rule gives to more than one input."""
        entries = Counter(self._entries(returned, wanted, local))
        return {entry for entry, count in entries.items() if count > 1 and entry is not None}

    def _entries(
        self, returned: Sequence[Any], wanted: Sequence[bool], local: Local
    ) -> list[GradientRef | None]:
        """The gradients that the rule returned, None where nobody wants one."""
        return [
            self._entry(entry, local) if useful and entry is not None else None
            for entry, useful in zip(returned, wanted, strict=True)
        ]

    def _entry(self, entry: Any, local: Local) -> GradientRef | None:
        """A gradient that the rule returned."""
        op = self._operators[self._index]
        if isinstance(entry, GradientSlice):
            indices = self._part(entry.indices, local, op)
            values = self._part(entry.values, local, op)
            if indices is None or values is None:
                self._blame(op, f"returned {entry!r}, of which a part is missing")
            return indices, values
        if not isinstance(entry, str):
            self._blame(op, f"returned {entry!r}, which is no gradient")
        return self._part(entry, local, op)

    def _part(self, name: str, local: Local, op: Operator) -> Ref | None:
        if isinstance(name, Reference):
            ref = local.get(name.ref, name.ref)
        elif name in local:
            ref = local[name]
        elif not name:
            return None
        else:
            try:
                ref = self._meaning(name, op)
            except UnknownNameError as error:
                self._blame_name(error)
        return ref if ref >= 0 else self._tape.lasting(ref)

    def _blame_name(self, error: UnknownNameError) -> NoReturn:
        self._blame(
            self._operators[self._index],
            f"uses {error.name!r}, in {error.op}, which its operator neither reads nor writes "
            f"and its gradient operators have not written before",
            error,
        )

    def _blame(self, op: Operator, what: str, cause: BaseException | None = None) -> NoReturn:
        rules = self._rules
        location = rules.location(op) if isinstance(rules, Located) else type(rules).__qualname__
        raise RuleError(f"the gradient rule at {location} {what}, for {op}", op, location) from cause


def _is_sequence(thing: Any) -> bool:
    return isinstance(thing, Sequence) and not isinstance(thing, str)
