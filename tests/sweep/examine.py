"""One node test in one form: is every gradient of it right?"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from netgrad.core.errors import NetgradError, RuleError, RuntimeFailureError
from netgrad.core.operator import Operator
from netgrad.onnx.edit import all_values
from netgrad.onnx.read import load
from netgrad.onnx.rules.declaration import Kind
from netgrad.runtime.cut import values_at
from netgrad.runtime.differences import Objective, most_precise
from netgrad.runtime.session import Session
from netgrad.transforms import report as checks
from netgrad.transforms.check import TOLERANCES, Problem, compare
from netgrad.transforms.grad import Gradient, differentiate
from tests.sweep.known import WITHOUT_DIFFERENCE
from tests.sweep.models import NodeTest, differentiable_path
from tests.sweep.moves import MOVES, moved
from tests.sweep.verdict import Finding, Found, Verdict

_HALF = (ir.DataType.BFLOAT16, ir.DataType.FLOAT16)
"""Types whose precision sets the tolerance, the coarsest first: their constants are rounded in any case."""

_HUGE = 1e30
"""From here on a number stands for infinity: some kernels mask with the largest finite one."""

_SEARCHED = 64
"""So many elements are searched for a corner before a disagreement counts."""


def examine(test: NodeTest, form: str, *, elements: int = 24) -> Finding:
    """Differentiate ``test`` by every floating-point input, and compare with central differences.

    Args:
        test: The model, already in the form.
        form: Its name.
        elements: The most elements of a tensor that are measured one by one.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            verdict, reason = _examine(test, elements)
    except Found as found:
        verdict, reason = found.verdict, found.reason
    except Exception as error:
        verdict, reason = Verdict.CRASH, " ".join(f"{type(error).__name__}: {error}".split())
    return Finding(test.name, form, test.operator, verdict, reason)


def _examine(test: NodeTest, elements: int) -> tuple[Verdict, str]:
    wrt, of = differentiable_path(test.model)
    if not wrt:
        return Verdict.NO_PATH, "no floating-point input leads to a floating-point output"
    wrt = [name for name in wrt if not _without_difference(test.model, name)]
    gradient = _gradient(test.model, wrt, of)
    note = _check(test.model, gradient)
    without = _without_derivative(gradient, wrt)
    names = [name for name in wrt if name not in without]
    if not names:
        return Verdict.DECLARED, "; ".join(dict.fromkeys(without.values()))
    reasons = []
    unclear: Sequence[str] = ()
    for move in MOVES:
        touched = unclear if move == "the unclear ones" and unclear else names
        try:
            # a gradient model holds the content of initializers, which may be moved
            known = gradient if move == "nothing" else None
            verdict, reason = _measure(moved(test, touched, move), known, names, of, elements)
        except Found as found:
            if found.verdict is not Verdict.UNMEASURED:
                raise
            reasons.append(found.reason)
            unclear = found.names
            continue
        where = "" if move == "nothing" else f"; inputs moved: {move}"
        return verdict, reason + where + note
    raise Found(Verdict.UNMEASURED, reasons[0] + note)


def _gradient(model: onnx.ModelProto, wrt: Sequence[str], of: Sequence[str]) -> Gradient:
    try:
        return differentiate(model, wrt=wrt, of=of, cotangent="input")
    except RuleError as error:
        raise Found(Verdict.CRASH, f"RuleError: {error}") from error
    except NetgradError as error:
        raise Found(Verdict.REFUSED, f"{type(error).__name__}: {error}") from error


def _check(model: onnx.ModelProto, gradient: Gradient) -> str:
    """See that the gradient model passes the checker; a remark where the model itself does not."""
    try:
        onnx.checker.check_model(ir.to_proto(gradient.model), full_check=True)
    except Exception as error:
        try:
            onnx.checker.check_model(model, full_check=True)
        except Exception:
            return "; the test itself does not pass the checker"
        raise Found(Verdict.CRASH, f"the gradient does not pass the checker: {error}") from error
    return ""


def _without_derivative(gradient: Gradient, wrt: Sequence[str]) -> dict[str, str]:
    """The names that are read only where netgrad declares that there is no derivative, and why."""
    found = {}
    for name in set(wrt) & set(gradient.unreached):
        reasons = []
        for op in gradient.forward:
            positions = [k for k, read in enumerate(op.inputs) if read == name]
            reasons += [_declared_reason(gradient, op, k) for k in positions]
        if reasons and all(reasons):
            found[name] = "; ".join(dict.fromkeys(reasons))
    return found


def _without_difference(model: onnx.ModelProto, name: str) -> bool:
    """Whether nodes read ``name`` only as an input that has no difference to compare with."""
    reads = [
        (node.op_type, k) for node in model.graph.node for k, read in enumerate(node.input) if read == name
    ]
    return bool(reads) and all(read in WITHOUT_DIFFERENCE for read in reads)


def _declared_reason(gradient: Gradient, op: Operator, position: int) -> str:
    """Why there is no derivative by an input; empty if none is declared or it is declared to be zero."""
    declared = gradient.rules.declaration(op)
    if declared is None:
        return ""
    if declared.kind is Kind.NOT_DIFFERENTIABLE:
        return f"{op.type}: {declared.reason}"
    if position in declared.not_differentiable:
        return f"{op.type}: input {position} has no derivative"
    return ""


def _measure(
    test: NodeTest, known: Gradient | None, names: Sequence[str], of: Sequence[str], elements: int
) -> tuple[Verdict, str]:
    """Compare the gradients by ``names`` of the outputs ``of``, at the test's inputs.

    ``known`` serves if it is the gradient by these names of those outputs that are finite.
    """
    model = load(test.model)
    outputs, failure = _outputs(model, test.inputs, of)
    empty = not any(point.size for point in values_at(model, test.inputs, names).values())
    finite = [name for name in of if empty or (np.abs(_wide(outputs[name])) < _HUGE).all()]
    if not finite:
        raise Found(Verdict.UNMEASURED, "no output is finite")
    gradient = known
    if gradient is None or list(gradient.outputs) != list(names) or list(gradient.seeds) != finite:
        gradient = _gradient(test.model, names, finite)
    cotangents = _cotangents(test, model, {name: outputs[name] for name in finite})
    problem = Problem(model, gradient, test.inputs, cotangents)
    types = {value.dtype for value in all_values(model)}
    tolerance = next((TOLERANCES[half] for half in _HALF if half in types), None)
    try:
        try:
            report = compare(problem, elements=elements, tolerance=tolerance, anywhere=bool(failure))
        except RuntimeFailureError as error:
            if "no bfloat16 kernel" not in str(error):
                raise
            # ONNX Runtime has few of them; the gradient is right if it is right where there are any
            failure = " ".join(str(error).split())
            report = compare(problem, elements=elements, tolerance=tolerance, anywhere=True)
    except RuntimeFailureError as error:
        verdict = Verdict.UNMEASURED if "derivatives cannot be measured" in str(error) else Verdict.CRASH
        raise Found(verdict, str(error)) from error
    return _judged(report, problem, failure)


def _outputs(model: ir.Model, inputs: Mapping[str, Any], of: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The outputs of the model, and why ONNX Runtime cannot compute them if that is so."""
    try:
        return Session(model, memory_pattern=False).run(inputs, of), ""
    except RuntimeFailureError as error:
        failure = " ".join(str(error).split())
    try:
        return most_precise(model, inputs, of).results, failure
    except RuntimeFailureError as error:
        raise Found(Verdict.UNMEASURED, f"no runtime computes the model: {error}") from error


def _cotangents(
    test: NodeTest, model: ir.Model, outputs: Mapping[str, Any]
) -> dict[str, np.ndarray[Any, Any]]:
    """Random numbers with two decimals, in the shape and type of each output."""
    rng = np.random.default_rng(zlib.crc32(test.name.encode()))
    types = {value.name: value.dtype for value in model.graph.outputs}
    cotangents = {}
    for name, array in outputs.items():
        dtype = types[name]
        assert dtype is not None, "the standard's tests have typed outputs"
        drawn = np.round(rng.standard_normal(np.shape(array)), 2)
        cotangents[name] = np.asarray(drawn, dtype.numpy())
    return cotangents


def _wide(array: Any) -> Any:
    return np.asarray(array).astype(np.float64)


def _judged(report: checks.CheckReport, problem: Problem, failure: str) -> tuple[Verdict, str]:
    where = f"{report.engine}, {report.precision}"
    by_verdict: dict[checks.Verdict, list[checks.Entry]] = {}
    for entry in report.entries:
        by_verdict.setdefault(entry.verdict, []).append(entry)
    wrong = by_verdict.get(checks.Verdict.DISAGREE, [])
    if wrong:
        told = f"{'; '.join(_told(entry) for entry in wrong)} ({where})"
        cornered = [entry.name for entry in wrong if _at_a_corner(problem, entry)]
        if len(cornered) == len(wrong):
            raise Found(Verdict.UNMEASURED, f"a corner or a jump: {told}", cornered)
        raise Found(Verdict.WRONG, told)
    for kind in (checks.Verdict.KINK, checks.Verdict.UNCLEAR):
        if kind in by_verdict:
            names = [entry.name for entry in by_verdict[kind]]
            raise Found(Verdict.UNMEASURED, f"{kind.value} by {', '.join(names)} ({where})", names)
    if len(problem.gradient.unreached) == len(report.entries):
        return Verdict.DECLARED, _why_zero(problem.gradient)
    if failure:
        where += f"; not run by ONNX Runtime: {failure[:120]}"
    return Verdict.AGREES, where


def _why_zero(gradient: Gradient) -> str:
    declared = [gradient.rules.declaration(op) for op in gradient.forward]
    return "; ".join(dict.fromkeys(d.reason for d in declared if d is not None and d.reason)) or "zero"


def _told(entry: checks.Entry) -> str:
    text = f"by '{entry.name}' off by {entry.error:.2g}"
    if entry.worst is not None:
        worst = entry.worst
        text += f", at {list(worst.index)} {worst.gradient:.6g} instead of {worst.measured:.6g}"
    return f"{text} {entry.note}".rstrip()


def _at_a_corner(problem: Problem, entry: checks.Entry) -> bool:
    """Whether by some element there is no derivative to compare with: a corner, a jump, an end of the domain.

    Several corners at once look like a wrong gradient along a direction: their bends cancel.
    """
    objective = Objective(problem.model, problem.inputs, problem.cotangents, [entry.name])
    shape = objective.point[entry.name].shape
    count = int(np.prod(shape))
    chosen = np.random.default_rng(0).permutation(count)[:_SEARCHED]
    indices = [tuple(int(i) for i in np.unravel_index(int(flat), shape)) for flat in chosen]
    if entry.worst is not None:
        indices.insert(0, entry.worst.index)
    for index in indices:
        estimate = objective.element(entry.name, index)
        if estimate.kink or not np.isfinite(estimate.error):
            return True
    return False
