"""Nets as text, and the gradient makers of the tests.

A net is written one operator per line or separated by ``;``: ``Direct(x,w)->(y) {axis=0} @gpu:0``. Braces
hold attributes, ``@`` a device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from netgrad.core import Gradient, GradientSlice, Operator, RuleRegistry

_LINE = re.compile(r"(\w+)\((.*?)\)->\((.*?)\)(?:\s*\{(.*?)\})?(?:\s*@(\S+))?$")


def net(text: str) -> list[Operator]:
    """The operators of a net in text form."""
    return [operator(line) for line in re.split(r"[;\n]", text) if line.strip()]


def operator(line: str) -> Operator:
    found = _LINE.match(line.strip().replace(" ->", "->").replace("-> ", "->"))
    assert found, f"no operator: {line!r}"
    type_, inputs, outputs, attributes, device = found.groups()
    return Operator(type_, _names(inputs), _names(outputs), _attributes(attributes), device=device)


def text(operators: Sequence[Operator]) -> list[str]:
    """Operators in the text form, without devices."""
    return [_line(op) for op in operators]


def text_with_devices(operators: Sequence[Operator]) -> list[str]:
    return [_line(op) + (f" @{op.device}" if op.device else "") for op in operators]


def lines(expected: str) -> list[str]:
    """An expected list of operators, brought to the form of `text`."""
    return text(net(expected))


def _line(op: Operator) -> str:
    attributes = ", ".join(f"{name}={value}" for name, value in sorted(op.attributes.items()))
    return f"{op.type}({','.join(op.inputs)})->({','.join(op.outputs)})" + (
        f" {{{attributes}}}" if attributes else ""
    )


def _names(listed: str) -> list[str]:
    return [name.strip() for name in listed.split(",")] if listed.strip() else []


def _attributes(listed: str | None) -> dict[str, Any]:
    pairs = [pair.split("=") for pair in (listed or "").split(",") if pair.strip()]
    return {name.strip(): float(value) if "." in value else int(value) for name, value in pairs}


# ---- makers of the test operators (section 13 of the specification) ----------------------------------


def maker(
    formula: Callable[
        [Operator, Sequence[Any]], tuple[Sequence[tuple[str, Sequence[str], Sequence[str]]], Any]
    ],
) -> Callable[[Operator, Sequence[Any]], Any]:
    """A rule from a function that returns (type, inputs, outputs) triples and input gradients.

    The operators run where the forward operator runs.
    """

    def rule(op: Operator, grads: Sequence[Any]) -> Any:
        triples, gradients = formula(op, grads)
        return [Operator(*triple, device=op.device) for triple in triples], gradients

    return rule


def _all_inputs(type_: str, reads: Callable[[Operator], Sequence[str]]) -> Any:
    def formula(op: Operator, grads: Sequence[str]) -> Any:
        outputs = [f"{name}_grad" for name in op.inputs]
        return [(type_, [*reads(op), *grads], outputs)], outputs

    return maker(formula)


def _none(op: Operator) -> list[Gradient | None]:
    return [None] * (len(op.inputs) - 1)


def _first(op: Operator, grads: Sequence[str]) -> Any:
    gradient = f"{op.inputs[0]}_grad"
    return [("FirstGradient", [grads[0]], [gradient])], [gradient, *_none(op)]


def _sparse_val(op: Operator, grads: Sequence[str]) -> Any:
    values = f"{op.inputs[0]}_grad_values"
    return [("SparseValGradient", [grads[0]], [values])], [GradientSlice(op.inputs[1], values), None]


def _sparse_look(op: Operator, grads: Sequence[str]) -> Any:
    slice_ = GradientSlice(f"{op.inputs[0]}_grad_indices", f"{op.inputs[0]}_grad_values")
    triple = ("SparseLookGradient", [op.inputs[1], grads[0]], [slice_.indices, slice_.values])
    return [triple], [slice_, None]


def _chain(op: Operator, grads: Sequence[str]) -> Any:
    x, w = (f"{name}_grad" for name in op.inputs)
    return [("C1", [grads[0]], [x]), ("C2", [x], [w])], [x, w]


def register_test_makers(rules: RuleRegistry) -> None:
    rules.register("Direct", _all_inputs("DirectGradient", lambda op: ()), dense=True)
    rules.register("UseInput", _all_inputs("UseInputGradient", lambda op: op.inputs), dense=True)
    rules.register("UseOutput", _all_inputs("UseOutputGradient", lambda op: op.outputs), dense=True)
    rules.no_gradient("Nogradient")
    rules.register("Pass", lambda op, grads: ([], [grads[0]] * len(op.inputs)))
    rules.register("First", maker(_first), dense=True)
    rules.register(
        "SparsePass",
        lambda op, grads: ([], [GradientSlice(op.inputs[1], grads[0]), None]),
        blocked=[1],
        dense=True,
    )
    rules.register("SparseVal", maker(_sparse_val), blocked=[1], dense=True)
    rules.register("SparseLook", maker(_sparse_look), blocked=[1], dense=True)
    rules.register("Chain", maker(_chain), dense=True)
    rules.zero_gradient()
    rules.stop_gradient()


# ---- makers of real operators, in their last released form -------------------------------------------


def _row(op: Operator, grads: Sequence[Any], row: str) -> Any:
    """A rule from the notation of the operator table: ``ReluGradient(O0,G0)->(D0)``.

    I, O, G are inputs, outputs and output gradients; D, V, X the dense, values and indices names of an
    input's gradient, and M the name of the shape that comes with it. ``D*`` stands for D0,D1,... of all
    inputs. ``D0=G0`` passes a gradient through, ``S0=(a,b)`` declares a sparse one.
    """

    blobs = {
        "I": op.inputs,
        "O": op.outputs,
        "G": grads,
        "D": [f"{name}_grad" for name in op.inputs],
        "V": [f"{name}_grad_values" for name in op.inputs],
        "X": [f"{name}_grad_indices" for name in op.inputs],
        "M": [f"_{name}_grad_dims" for name in op.inputs],
    }

    def name(token: str) -> str:
        found: str = blobs[token.strip()[0]][int(token.strip()[1:])]
        return found

    row = row.replace("D*", ",".join(f"D{k}" for k in range(len(op.inputs))))
    operators: list[Operator] = []
    gradients: list[Any] = [None] * len(op.inputs)
    for part in row.split(";"):
        passed = re.match(r"\s*([DS])(\d+)=\(?([^()]*)\)?\s*$", part)
        if passed:
            names = [name(token) for token in passed[3].split(",")]
            gradients[int(passed[2])] = names[0] if passed[1] == "D" else GradientSlice(*names)
            continue
        found = _LINE.match(part.strip())
        assert found, part
        outputs = found[3].split(",")
        operators.append(
            Operator(
                found[1],
                [name(token) for token in found[2].split(",")],
                [name(token) for token in outputs],
                {**_attributes(found[4]), **op.attributes},
                device=op.device,
            )
        )
        for token in outputs:
            if token.strip()[0] == "D":
                gradients[int(token.strip()[1:])] = name(token)
    return operators, gradients


def table_rule(row: str) -> Callable[[Operator, Sequence[Any]], Any]:
    """A rule that follows one row of the operator table."""
    return lambda op, grads: _row(op, grads, row)


REAL_ROWS = {
    "FC": "FCGradient(I0,I1,G0)->(D1,D2,D0)",
    "Relu": "ReluGradient(O0,G0)->(D0)",
    "Sigmoid": "SigmoidGradient(O0,G0)->(D0)",
    "Tanh": "TanhGradient(O0,G0)->(D0)",
    "Softmax": "SoftmaxGradient(O0,G0)->(D0)",
    "AveragedLoss": "AveragedLossGradient(I0,G0)->(D0)",
    "DotProduct": "DotProductGradient(I0,I1,G0)->(D0,D1)",
    "Add": "AddGradient(G0,I0,I1)->(D0,D1)",
    "Sub": "SubGradient(G0,I0,I1)->(D0,D1)",
    "Mul": "MulGradient(G0,I0,I1)->(D0,D1)",
    "Negative": "Negative(G0)->(D0)",
    "Sqrt": "Scale(G0)->(D0) {scale=0.5}; Div(D0,O0)->(D0)",
    "Sqr": "Scale(G0)->(G0) {scale=2.0}; Mul(G0,I0)->(D0)",
    "Gather": "S0=(I1,G0)",
    "ReduceSum": "ReduceSumGradient(G0,I0,O0)->(D0)",
    "SoftmaxWithLoss": "SoftmaxWithLossGradient(I0,I1,O0,G1)->(D0)",
    "LSTMUnit": "LSTMUnitGradient(I0,I1,I2,I3,I4,O0,O1,G0,G1)->(D0,D1,D2)",
    "SparseFunHash": "SparseFunHashGradient(G0,I0,I1,I2,I3)->(V3,X3); S3=(X3,V3)",
}

BLOCKED = {"Gather": [1], "SoftmaxWithLoss": [1], "LSTMUnit": [3, 4], "SparseFunHash": [0, 1, 2]}
PARTIAL = {"SoftmaxWithLoss"}


def _ensure_dense(op: Operator, grads: Sequence[Any]) -> Any:
    (grad,) = grads
    if not isinstance(grad, GradientSlice):
        return [], [grad]
    out = f"{op.inputs[0]}_grad"
    return [Operator("SparseToDense", (grad.indices, grad.values, op.inputs[0]), (out,))], [out]


def make_rules() -> RuleRegistry:
    """The test makers, and real operators in their last released form."""
    rules = RuleRegistry()
    register_test_makers(rules)
    for type_, row in REAL_ROWS.items():
        rules.register(
            type_, table_rule(row), blocked=BLOCKED.get(type_, ()), partial=type_ in PARTIAL, dense=True
        )
    rules.register("Sum", lambda op, grads: ([], [grads[0]] * len(op.inputs)))
    rules.register("EnsureDense", _ensure_dense, value_keeping=True)
    rules.no_gradient("ConstantFill", "GivenTensorFill")
    rules.should_not_do_gradient("Print", "Accuracy")
    return rules
