"""The gradient registry, and backward passes over operator definitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from netgrad.caffe2.backward import ADDITION, ONLY_ADDITION, differentiate
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_definition, to_operator
from netgrad.caffe2.makers.notation import Refusal
from netgrad.caffe2.makers.registry import Makers
from netgrad.core import (
    AccumulationError,
    BackwardPass,
    Gradient,
    InvalidModelError,
    NetgradError,
    Operator,
    OverwrittenBlobError,
    RuleError,
)
from netgrad.core import GradientSlice as _CoreSlice
from netgrad.core.registry import RuleResult

_WRITTEN = "⟨written⟩"

PythonMaker = Callable[[OperatorDef, "list[Any]"], Any]
"""A gradient maker of a script: operator and output gradients to (operators, input gradients)."""


class GradientSlice(NamedTuple):
    """A sparse gradient: names of the blobs of row numbers and of rows."""

    indices: Any
    values: Any


class MakerFailure(Exception):  # noqa: N818  scripts catch the plain kind
    """No maker can differentiate an operator; the text names it and says why."""


class _AllMakers(Makers):
    """Netgrad's makers, and those of scripts where there is none or it refuses."""

    def __init__(self, python_makers: Mapping[str, PythonMaker]) -> None:
        super().__init__()
        self._python = python_makers

    def missing(self, op: Operator) -> str | None:
        """None: what there is no maker for is an error of the call."""
        return None

    def blocked_inputs(self, op: Operator) -> Collection[int]:
        """Nothing where a script's maker decides."""
        if super().missing(op) is None and op.type not in self._python:
            return super().blocked_inputs(op)
        return ()

    def needs_all_output_gradients(self, op: Operator) -> bool:
        """A script's maker looks after that itself."""
        return super().missing(op) is None and super().needs_all_output_gradients(op)

    def needs_dense_gradients(self, op: Operator) -> bool:
        """A script's maker looks after that itself."""
        return super().missing(op) is None and super().needs_dense_gradients(op)

    def location(self, op: Operator) -> str:
        """Where the maker of ``op`` is written."""
        if super().missing(op) is None:
            return super().location(op)
        code = getattr(self._python.get(op.type), "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else "a maker in Python"

    def gradient(self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]) -> RuleResult:
        """What netgrad's maker writes or else the script's."""
        reason = super().missing(op)
        cause: Exception | None = None
        if reason is None:
            try:
                return super().gradient(op, grads, wanted)
            except Refusal as refusal:
                reason, cause = str(refusal), refusal
        maker = self._python.get(op.type)
        if maker is None:
            raise MakerFailure(
                f"Exception when creating gradient for [{op.type}]:{reason}.\nOp: \n{to_definition(op)}"
            ) from cause
        return _asked(maker, op, grads)


def _asked(maker: PythonMaker, op: Operator, grads: Sequence[Gradient | None]) -> RuleResult:
    """The answer of a script's maker, in terms of the core. A short list means no gradient for the rest.

    An operator that works in place is shown to the maker with another name for its output, so that it can be
    told from the input whose name it has.
    """
    given = [GradientSlice(g.indices, g.values) if isinstance(g, _CoreSlice) else g for g in grads]
    definition = to_definition(op)
    outputs: dict[str, str] = {}
    for at, name in enumerate(op.outputs):
        if name in op.inputs:
            definition.output[at] = f"{name}{_WRITTEN}"
            outputs[f"{name}{_WRITTEN}"] = name

    def named(name: str) -> str:
        return outputs[name] if name in outputs else name.replace(_WRITTEN, "")

    written, gradients = maker(definition, given)
    if written is None:
        written = []
    operators = []
    for one in written if isinstance(written, list) else [written]:
        answer = to_operator(one)
        operators.append(
            replace(
                answer,
                inputs=tuple(map(named, answer.inputs)),
                outputs=tuple(name.replace(_WRITTEN, "") for name in answer.outputs),
            )
        )
    entries = [_to_core(entry, named) for entry in gradients]
    entries += [None] * (len(op.inputs) - len(entries))
    return operators, entries


def _to_core(entry: Any, named: Callable[[str], str] = str) -> Gradient | None:
    if entry is None:
        return None
    if isinstance(entry, GradientSlice):
        return _CoreSlice(named(str(entry.indices)), named(str(entry.values)))
    return named(str(entry))


def _from_core(gradient: Gradient) -> Any:
    return GradientSlice(gradient.indices, gradient.values) if isinstance(gradient, _CoreSlice) else gradient


class GradientRegistry:
    """Makers of scripts by operator type, and the calls that ask all makers."""

    gradient_registry_: dict[str, PythonMaker] = {}  # noqa: RUF012  scripts know it by this name

    @classmethod
    def RegisterGradient(cls, op_type: str) -> Callable[[PythonMaker], PythonMaker]:
        """A decorator that registers a maker; one that netgrad has for the type goes before it."""

        def register(function: PythonMaker) -> PythonMaker:
            cls.gradient_registry_[op_type] = function
            return function

        return register

    @classmethod
    def GetGradientForOp(
        cls, op: OperatorDef, g_output: Sequence[Any]
    ) -> tuple[list[OperatorDef], list[Any]]:
        """One maker call: the gradient operators of ``op``, and the gradient of each of its inputs.

        Args:
            op: The forward operator.
            g_output: For each output the name of its gradient, a `GradientSlice`, or None.

        Raises:
            Exception: No maker can differentiate the operator.
        """
        makers = _AllMakers(cls.gradient_registry_)
        operator = to_operator(op)
        grads = [_to_core(gradient) for gradient in g_output]
        written, gradients = makers.gradient(operator, grads, [True] * len(op.input))
        return (
            [to_definition(one) for one in written],
            [None if entry is None else _from_core(entry) for entry in gradients],
        )

    @classmethod
    def GetBackwardPass(
        cls, operators: Sequence[OperatorDef], ys: Any, ys_generate_gradient: bool = False
    ) -> tuple[list[OperatorDef], dict[str, Any]]:
        """The gradient operators of a list of operators, and the map from blob to gradient.

        Args:
            operators: The forward operators in order.
            ys: The blobs to differentiate: a list, for all-ones start gradients, or a dict from blob to the
                name of its start gradient, a `GradientSlice`, or None for all ones.
            ys_generate_gradient: Not used.

        Raises:
            TypeError: ``ys`` is neither a list nor a dict.
            ValueError: A ``StopGradient`` has no effect.
            RuntimeError: A gradient operator needs a blob that is overwritten, or gradients can't be added.
            Exception: No maker can differentiate an operator.
        """
        return IR(operators).GetBackwardPass(ys)


class IR:
    """A list of forward operators, to be differentiated."""

    IS_AUTO_GEN_SUM_OPS_TAG = ADDITION
    ONLY_KEEP_IS_AUTO_GEN_SUM_OPS_TAG = ONLY_ADDITION

    def __init__(self, operators: Sequence[OperatorDef]) -> None:
        self._operators = list(operators)

    def GetBackwardPass(self, ys: Any) -> tuple[list[OperatorDef], dict[str, Any]]:
        """See `GradientRegistry.GetBackwardPass`."""
        _, operators, gradients = self.backward_pass(ys, overwritten="error")
        return operators, gradients

    def backward_pass(
        self, ys: Any, *, overwritten: Literal["error", "keep"]
    ) -> tuple[list[OperatorDef], list[OperatorDef], dict[str, Any]]:
        """The forward operators, their gradient operators, and the map from blob to gradient.

        Args:
            ys: See `GradientRegistry.GetBackwardPass`.
            overwritten: ``"keep"``: the forward operators returned keep values in copies that a later one
                overwrites, where a gradient operator needs them; ``"error"``: such nets are refused.

        Raises:
            Exception: See `GradientRegistry.GetBackwardPass`.
        """
        if isinstance(ys, list):
            targets: dict[str, Gradient | None] = {str(y): None for y in ys}
        elif isinstance(ys, dict):
            targets = {str(y): _to_core(gradient) for y, gradient in ys.items()}
        else:
            raise TypeError("ys should either be a list or a dict.")
        makers = _AllMakers(GradientRegistry.gradient_registry_)
        try:
            written, result = differentiate(self._operators, targets, rules=makers, overwritten=overwritten)
        except RuleError as error:
            if isinstance(error.__cause__, Exception):
                raise error.__cause__ from None
            raise RuntimeError(str(error)) from error
        except InvalidModelError as error:
            raise ValueError(str(error)) from error
        except (OverwrittenBlobError, AccumulationError) as error:
            raise RuntimeError(str(error)) from error
        except NetgradError as error:
            raise MakerFailure(str(error)) from error
        stopped = _stopped(result) - targets.keys()
        forward = self._operators
        if overwritten == "keep":
            forward = [to_definition(operator) for operator in result.forward]
        return (
            forward,
            written,
            {
                blob: _from_core(gradient)
                for blob, gradient in result.gradients.items()
                if blob not in stopped
            },
        )


def _stopped(result: BackwardPass) -> set[str]:
    """Blobs whose gradient ends at an operator that works in place on them, such as ``StopGradient``.

    A script trains what a blob is fed with, and that has no gradient then.
    """
    shown = {blob: version for blob, version in result.versions.items() if version}
    stopped = set()
    version: dict[str, int] = {}
    for op in result.forward if shown else ():
        for blob in shown.keys() & set(op.inputs):
            version.setdefault(blob, 0)
        for blob in shown.keys() & set(op.outputs):
            version[blob] = version.get(blob, -1) + 1
            in_place = blob in op.inputs and version[blob] == shown[blob]
            if in_place and result.gradient_of(blob, version[blob] - 1) is None:
                stopped.add(blob)
    return stopped


def GetIndexFromGradientList(g_list: Sequence[Any], name: str) -> int | None:
    """The index of the first gradient that is ``name`` or a slice that contains it, or None."""
    for index, gradient in enumerate(g_list):
        if gradient == name or (isinstance(gradient, GradientSlice) and name in gradient):
            return index
    return None
