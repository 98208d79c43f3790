"""The registry of operators that run in Python, between the parts of a net that ONNX Runtime runs.

Operators that change few rows of large tables are a kind of their own: a table is changed in place, and where
that can't be done the operator runs on ONNX Runtime, which makes a new table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.core import InvalidArgumentError

if TYPE_CHECKING:
    from netgrad.caffe2.running.call import Call

Runner: TypeAlias = "Callable[[Call], None]"
"""Runs one operator: reads its inputs and writes its outputs by the `Call` that it is given."""

Update: TypeAlias = "Callable[[Call], bool]"
"""Runs one operator in place if it can be done, and says whether it was; otherwise nothing has changed."""

Condition: TypeAlias = "Callable[[OperatorDef], bool]"


@dataclass(frozen=True)
class _Entry:
    runner: Runner
    condition: Condition | None


_ENTRIES: dict[str, _Entry] = {}
_OF_TEXTS: dict[str, Runner] = {}
_UPDATES: dict[str, Update] = {}


def runs(*types: str, when: Condition | None = None) -> Callable[[Runner], Runner]:
    """Register what runs operators of these types.

    Args:
        types: Operator types.
        when: Which of them it runs, by their definition; all without it. The others are lowered.
    """

    def register(function: Runner) -> Runner:
        for type_ in types:
            if type_ in _ENTRIES:
                raise InvalidArgumentError(f"{type_} is run by two functions")
            _ENTRIES[type_] = _Entry(function, when)
        return function

    return register


def runs_texts(*types: str) -> Callable[[Runner], Runner]:
    """Register what runs operators of these types where an input is a text; otherwise they are lowered."""

    def register(function: Runner) -> Runner:
        _OF_TEXTS.update(dict.fromkeys(types, function))
        return function

    return register


def updates_in_place(*types: str) -> Callable[[Update], Update]:
    """Register what changes tables in place for operators of these types, which are lowered as well."""

    def register(function: Update) -> Update:
        _UPDATES.update(dict.fromkeys(types, function))
        return function

    return register


def update_of(definition: OperatorDef) -> Update | None:
    """What runs an operator in place, or None."""
    return _UPDATES.get(definition.type)


def runner_of(definition: OperatorDef) -> Runner | None:
    """What runs an operator in Python, or None where it is lowered."""
    entry = _ENTRIES.get(definition.type)
    if entry is None or (entry.condition is not None and not entry.condition(definition)):
        return None
    return entry.runner


def text_runner_of(definition: OperatorDef) -> Runner | None:
    """What runs an operator that reads texts, or None where nothing does."""
    return _OF_TEXTS.get(definition.type)


def types_run_in_python() -> set[str]:
    """The operator types that have a runner."""
    return set(_ENTRIES)
