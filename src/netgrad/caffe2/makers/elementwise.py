"""Makers of elementwise operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.makers.notation import Line, Refusal
from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        # from the output
        "Cbrt": "CbrtGradient(G0,O0)->(D0)",
        "Clip": "ClipGradient(O0,G0)->(D0)",
        "Elu": "EluGradient(O0,G0)->(D0)",
        "Exp": "Mul(O0,G0)->(D0)",
        "HardSigmoid": "HardSigmoidGradient(O0,G0)->(D0)",
        "LeakyRelu": "LeakyReluGradient(O0,G0)->(D0)",
        "Reciprocal": "ReciprocalGradient(O0,G0)->(D0)",
        "Relu": "ReluGradient(O0,G0)->(D0)",
        "ReluFp16": "ReluFp16Gradient(O0,G0)->(D0)",
        "ReluN": "ReluNGradient(O0,G0)->(D0)",
        "Rsqrt": "RsqrtGradient(G0,O0)->(D0)",
        "Selu": "SeluGradient(O0,G0)->(D0)",
        "Sigmoid": "SigmoidGradient(O0,G0)->(D0)",
        "Softplus": "SoftplusGradient(O0,G0)->(D0)",
        "Tanh": "TanhGradient(O0,G0)->(D0)",
        "ThresholdedRelu": "ThresholdedReluGradient(O0,G0)->(D0)",
        # from the input
        "Abs": "AbsGradient(I0,G0)->(D0)",
        "Acos": "AcosGradient(I0,G0)->(D0)",
        "Asin": "AsinGradient(I0,G0)->(D0)",
        "Atan": "AtanGradient(I0,G0)->(D0)",
        "Cos": "CosGradient(I0,G0)->(D0)",
        "Cosh": "CoshGradient(G0,I0)->(D0)",
        "Cube": "CubeGradient(G0,I0)->(D0)",
        "Erf": "ErfGradient(I0,G0)->(D0)",
        "Gelu": "GeluGradient(G0,I0)->(D0)",
        "Log1p": "Log1pGradient(I0,G0)->(D0)",
        "Log": "Div(G0,I0)->(D0)",
        "Logit": "LogitGradient(I0,G0)->(D0)",
        "Sin": "SinGradient(I0,G0)->(D0)",
        "Sinh": "SinhGradient(G0,I0)->(D0)",
        "Tan": "TanGradient(I0,G0)->(D0)",
        # from both, or from neither
        "ELU": "ELUGradient(I0,O0,G0)->(D0)",
        "Mish": "MishGradient(I0,O0,G0)->(D0)",
        "NegateGradient": "Negative(G0)->(D0)",
        "Negative": "Negative(G0)->(D0)",
        "Scale": "Scale(G0)->(D0)",
        "Sqr": "Scale(G0)->(G0){scale=2.0}; Mul(G0,I0)->(D0)",
        "Sqrt": "Scale(G0)->(D0){scale=0.5}; Div(D0,O0)->(D0)",
        "Swish": "SwishGradient(I0,O0,G0)->(D0)",
        # of several inputs
        "Add": "AddGradient(G0,L0,L1)->(D0,D1)",
        "Div": "DivGradient(G0,I0,I1,O0)->(D0,D1)",
        "Max": "MaxGradient(O0,G0,I*)->(D*)",
        "Mean": "MeanGradient(G0)->(D*)",
        "Min": "MinGradient(O0,G0,I*)->(D*)",
        "Mul": "MulGradient(G0,I0,I1)->(D0,D1)",
        "PRelu": "PReluGradient(O0,G0,I0,I1)->(D0,D1)",
        "Sub": "SubGradient(G0,L0,L1)->(D0,D1)",
        "Sum": "D*=G0",
    }
)


@maker("Softsign")
def _softsign(op: Operator, grads: Sequence[Gradient | None]) -> str:
    if op.inputs[0] == op.outputs[0]:
        raise Refusal("Softsign has no gradient if it works in place: its input is needed")
    return "SoftsignGradient(I0,G0)->(D0)"


@maker("Pow")
def _pow(op: Operator, grads: Sequence[Gradient | None]) -> Line:
    """Steps are written to the gradients themselves, as in the original; names that others need stay free."""
    if len(op.inputs) > 1:
        return _pow_of_two(op)
    if "exponent" not in op.attributes:
        raise Refusal("Pow needs the argument 'exponent' or a second input")
    exponent = float(op.attributes["exponent"])
    if op.inputs[0] != op.outputs[0] or exponent % 2 == 0:
        power = f"Pow(I0)->(D0){{exponent={exponent - 1!r}}}"
        text = f"{power}; Mul(D0,G0)->(D0); Scale(D0)->(D0){{scale={exponent!r}}}"
    else:
        # The output tells the input if that is positive; and its size, which is enough, if the power is odd.
        text = f"Pow(O0)->(D0){{exponent={(exponent - 1) / exponent!r}}}"
        if exponent % 2 == 1:
            text = f"Abs(O0)->(D0); Pow(D0)->(D0){{exponent={(exponent - 1) / exponent!r}}}"
        text += f"; Mul(D0,G0)->(D0); Scale(D0)->(D0){{scale={exponent!r}}}"
    return Line(text, copies_arguments=False)


def _pow_of_two(op: Operator) -> Line:
    if op.outputs[0] in op.inputs:
        raise Refusal("Pow with two inputs has no gradient if it works in place")
    defaults = {"axis": -1, "axis_str": "", "order": "NCHW"}
    axes = {name: op.attributes.get(name, default) for name, default in defaults.items()}
    broadcast = bool(op.attributes.get("broadcast", 0))
    wide, reduced = ({"broadcast": 1, **axes}, axes) if broadcast else ({}, {})
    product = 'D1"_autogen_pre_red"'
    reduction = f"({product},G0)->({product}); SumReduceLike({product},I1)->(D1){_braced(reduced)}"
    return Line(
        f"ConstantFill(I1)->(D1){{value=1.0}}; Sub(I1,D1)->(D1); Pow(I0,D1)->(D0){_braced(wide)}; "
        f"Mul(D0,G0)->(D0); Mul(D0,I1)->(D0){_braced(wide)}; Log(I0)->({product}); "
        f"Mul({product},O0)->({product}); Mul{reduction if broadcast else f'({product},G0)->(D1)'}",
        copies_arguments=False,
    )


def _braced(arguments: Mapping[str, Any]) -> str:
    """Arguments in the notation of makers."""
    plain = {name: value.decode() if isinstance(value, bytes) else value for name, value in arguments.items()}
    texts = {name: f'"{value}"' if isinstance(value, str) else value for name, value in plain.items()}
    pairs = [f"{name}={value}" for name, value in texts.items()]
    return "{" + ",".join(pairs) + "}" if pairs else ""


@maker("WeightedSum")
def _weighted_sum(op: Operator, grads: Sequence[Gradient | None]) -> str:
    terms = ",".join(f"D{at}" for at in range(0, len(op.inputs), 2))
    weights = ",".join(f"D{at}" for at in range(1, len(op.inputs), 2))
    if op.attributes.get("grad_on_w", 0):
        return f"WeightedSumGradient(G0,I*)->({terms},{weights})"
    return f"WeightedSumGradient(G0,I*)->({terms})"
