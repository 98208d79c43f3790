"""The smallest nets on which the original goes wrong, one or more for each weakness of its algorithm.

Run as a program, it prints what netgrad makes of each net, after comparing the numbers with central
differences; so that the output of runs with different hash seeds can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from netgrad.core import BackwardPass, ClassicVocabulary, GradientSlice, Operator, RuleRegistry
from tests.core.interpreter import check_numbers
from tests.core.nets import make_rules, maker, net, table_rule, text_with_devices


@dataclass(frozen=True)
class Weakness:
    name: str
    forward: str
    targets: Mapping[str, Any] | Sequence[str]
    options: Mapping[str, Any] = field(default_factory=dict)
    indices: Sequence[str] = ()

    def __str__(self) -> str:
        return self.name.replace(" ", "_")

    def check(self, **options: Any) -> BackwardPass:
        """Differentiate the net and compare the numbers with central differences."""
        return check_numbers(
            net(self.forward),
            self.targets,
            numeric_rules(),
            indices=self.indices,
            **{**self.options, **options},
        )


KEEP = {"overwritten": "keep"}

WEAKNESSES = [
    Weakness(
        "W1 order of sums",
        "Direct(p,q,r)->(a); Direct(q,r,p)->(b); Direct(r,p,q)->(c); Sum(a,b,c)->(o)",
        ["o"],
    ),
    Weakness(
        "W2 passed gradient whose name is used again",
        "Tanh(x)->(a); Negative(a)->(y); Tanh(y)->(z); Sum(x,w)->(y); Tanh(y)->(o1); Sum(o1,z)->(out)",
        ["out"],
    ),
    Weakness(
        "W3 explicit start gradient of a consumed blob",
        "Direct(x)->(m); Direct(m)->(o)",
        {"o": "go_", "m": "gm_"},
    ),
    Weakness(
        "W3 with two consumers",
        "Direct(x)->(m); Direct(m)->(o); UseInput(m)->(p); Direct(o,p)->(q)",
        {"m": "gm_", "q": "gq_"},
    ),
    Weakness(
        "W4 in-place operator that reads its input",
        "Direct(z)->(x); UseInput(x)->(x); Direct(x)->(o)",
        ["o"],
        KEEP,
    ),
    Weakness("W4 on a net input", "UseInput(x)->(x); UseInput(x)->(o)", ["o"], KEEP),
    Weakness("W5 blob as differentiable and constant input", "Direct(z)->(x); First(x,x)->(y)", ["y"]),
    Weakness("W6 gradient written in two steps", "Sqrt(x)->(a); Negative(x)->(b); Sum(a,b)->(out)", ["out"]),
    Weakness("W6 the other branch first", "Negative(x)->(b); Sqrt(x)->(a); Sum(a,b)->(out)", ["out"]),
    Weakness("W6 and the same blob twice", "Power(x,x)->(y); Negative(x)->(b); Sum(y,b)->(out)", ["out"]),
    Weakness("W7 renaming follows local uses", "Chain(x,w)->(h); Direct(x)->(b); Sum(h,b)->(out)", ["out"]),
    Weakness("W7 the other branch last", "Direct(x)->(b); Chain(x,w)->(h); Sum(h,b)->(out)", ["out"]),
    Weakness(
        "W9 one computed gradient for two inputs",
        "Shared(x,w)->(h); Direct(w)->(b); Sum(h,b)->(out)",
        ["out"],
    ),
    Weakness(
        "W9 with the first input used again", "Shared(x,w)->(h); Direct(x)->(b); Sum(h,b)->(out)", ["out"]
    ),
    Weakness("W9 with both used again", "Shared(x,w)->(h); Direct(w,x)->(b); Sum(h,b)->(out)", ["out"]),
    Weakness("W9 with the same blob twice", "Shared(x,x)->(h); Direct(x)->(b); Sum(h,b)->(out)", ["out"]),
    Weakness(
        "W10 one blob in two sparse inputs", "SparseTwice(x,i,x,j)->(o)", {"o": "go_"}, indices=["i", "j"]
    ),
    Weakness(
        "W11 overwritten without being read, pass-through",
        "Pass(a)->(y); Direct(b)->(y); Direct(y)->(out)",
        ["out"],
    ),
    Weakness(
        "W11 overwritten without being read, computed",
        "Direct(a)->(y); Direct(b)->(y); Direct(y)->(out)",
        ["out"],
    ),
    Weakness("W12 a name listed twice as output", "Direct(a)->(b,b); Direct(b)->(o)", ["o"]),
    Weakness(
        "W13 forward blob with the name of a gradient", "UseInput(y_grad)->(y); UseInput(y)->(o)", ["o"]
    ),
    Weakness(
        "W13 forward blobs with all names",
        "Direct(x)->(o_autogen_grad); UseInput(x)->(_x_grad_autosplit_0); "
        "UseInput(o_autogen_grad,_x_grad_autosplit_0,x)->(o)",
        ["o"],
    ),
    Weakness(
        "W13 sparse",
        "SparseVal(x,i)->(x_grad_values_concat); SparseVal(x,j)->(_x_grad_values_autosplit_0); "
        "UseInput(x_grad_values_concat,_x_grad_values_autosplit_0)->(o)",
        ["o"],
        indices=["i", "j"],
    ),
    Weakness(
        "W14 maker that scales its output gradient",
        "Tanh(w)->(b); Sqr(x)->(a); Sum(a,b)->(out)",
        {"out": "dout"},
    ),
    Weakness(
        "W14 in-place operator whose maker needs several steps",
        "Direct(z)->(x); Cube(x)->(x); Direct(x)->(o)",
        ["o"],
        KEEP,
    ),
    Weakness("W17 a gradient name of two characters", "Direct(x)->(y); Direct(y)->(z)", {"z": "dz"}),
    Weakness(
        "W16 names with scopes", "Direct(s/x)->(s/y); Direct(s/y)->(s/z); Direct(s/y)->(t/z)", ["s/z", "t/z"]
    ),
    Weakness(
        "W8 three devices",
        "Direct(x)->(a) @gpu:0; Direct(x)->(b) @gpu:1; Direct(x)->(c); Sum(a,b,c)->(o)",
        ["o"],
    ),
    Weakness("W8 pass-through between devices", "Direct(x)->(h) @gpu:0; Pass(x,h)->(o)", ["o"]),
    Weakness(
        "W8 sparse on two devices",
        "SparseVal(x,i)->(a) @gpu:0; SparseLook(x,j)->(b) @gpu:1; Sum(a,b)->(o)",
        ["o"],
        indices=["i", "j"],
    ),
    Weakness("W15 fill where its target lies", "Direct(x)->(m) @gpu:0; Direct(m)->(o) @gpu:0", ["m", "o"]),
    Weakness(
        "W19 dense and sparse",
        "Direct(x)->(a); SparsePass(x,i)->(b); SparseVal(x,j)->(c); UseInput(x)->(d); Sum(a,b,c,d)->(o)",
        ["o"],
        indices=["i", "j"],
    ),
    Weakness(
        "W19 sparse start gradient of a consumed blob",
        "Direct(x)->(m); Direct(m)->(o)",
        {"o": None, "m": GradientSlice("gi", "gv")},
    ),
    Weakness(
        "W20 pass-through of an in-place operator",
        "Direct(x)->(a); Pass(x,w)->(x); Direct(x,a)->(out)",
        ["out"],
    ),
    Weakness("W20 the caller's name", "Direct(x)->(a); Sum(x,a)->(out)", {"out": "x_grad"}),
    Weakness(
        "W21 an input that is overwritten later", "UseInput(in)->(out); Direct(in)->(in)", ["out"], KEEP
    ),
    Weakness(
        "W21 an output that is overwritten later",
        "UseOutput(in)->(h); Direct(h)->(h); UseOutput(h)->(out); Direct(out)->(sink)",
        ["sink"],
        KEEP,
    ),
    Weakness(
        "W21 a value kept by StopGradient", "UseOutput(x)->(h); Pass(h)->(o); StopGradient(h)->(h)", ["o"]
    ),
    Weakness("W22 an output without gradient", "UseInput(a)->(b,c); Direct(b)->(o)", ["o"]),
    Weakness("W22 its value overwritten", "UseInput(a)->(b,c); Direct(b)->(o); Direct(e)->(c)", ["o"], KEEP),
    Weakness("W24 versions of a target", "Direct(a)->(y); Direct(y)->(b); Direct(c)->(y)", ["y", "b"]),
    Weakness(
        "W29 one gradient blob for two parameters",
        "Sum(a,b)->(y)",
        ["y"],
        {"wrt": ["a", "b"]},
    ),
    Weakness(
        "W30 gradient operator that doesn't work in place",
        "Direct(z)->(x); PRelu(x,s)->(x); Direct(x)->(o)",
        ["o"],
        {"vocabulary": None},  # replaced below
    ),
]


class NotInPlace(ClassicVocabulary):
    """A dialect in which the gradient operator of PRelu needs outputs of its own."""

    def in_place(self, op: Operator, input_index: int, output_index: int) -> bool:
        return op.type != "PReluGradient" and super().in_place(op, input_index, output_index)


WEAKNESSES[-1] = Weakness(
    WEAKNESSES[-1].name, WEAKNESSES[-1].forward, WEAKNESSES[-1].targets, {"vocabulary": NotInPlace()}
)


def _shared(op: Operator, grads: Sequence[str]) -> Any:
    gradient = f"{op.inputs[0]}_grad"
    return [("SharedGradient", grads, [gradient])], [gradient, gradient]


def _sparse_twice(op: Operator, grads: Sequence[str]) -> Any:
    values = [f"{op.inputs[k]}_grad_values" for k in (0, 2)]
    slices = [GradientSlice(op.inputs[k + 1], name) for k, name in zip((0, 2), values, strict=True)]
    return [("SparseTwiceGradient", grads, values)], [slices[0], None, slices[1], None]


def _cube(op: Operator, grads: Sequence[str]) -> Any:
    """3 x^2 g in steps that all write one name, as the original's maker of Pow does."""
    gradient = f"{op.inputs[0]}_grad"
    return [
        Operator("Sqr", [op.inputs[0]], [gradient]),
        Operator("Mul", [gradient, grads[0]], [gradient]),
        Operator("Scale", [gradient], [gradient], {"scale": 3.0}),
    ], [gradient]


def _power(op: Operator, grads: Sequence[str]) -> Any:
    """Both gradients of x^e, in steps under one name each."""
    x, e = op.inputs
    dx, de = f"{x}_grad", f"{e}_grad"
    return [
        Operator("Div", [op.outputs[0], x], [dx]),
        Operator("Mul", [dx, e], [dx]),
        Operator("Mul", [dx, grads[0]], [dx]),
        Operator("PowerLog", [x], [de]),
        Operator("Mul", [de, op.outputs[0]], [de]),
        Operator("Mul", [de, grads[0]], [de]),
    ], [dx, de]


def numeric_rules() -> RuleRegistry:
    """The makers of the tests, with those that only numbers tell apart."""
    rules = make_rules()
    rules.register("Shared", maker(_shared), dense=True)
    rules.register("SparseTwice", maker(_sparse_twice), blocked=[1, 3], dense=True)
    rules.register("Cube", _cube, dense=True)
    rules.register("Power", _power, dense=True)
    rules.register("PRelu", table_rule("PReluGradient(O0,G0,I1)->(D0,D1)"), dense=True)
    return rules


def report() -> str:
    """What becomes of each net, after its numbers were checked."""
    parts = []
    for weakness in WEAKNESSES:
        result = weakness.check()
        parts += [weakness.name, *text_with_devices(result.operators), repr(dict(result.gradients))]
    return "\n".join(parts)


if __name__ == "__main__":
    print(report())
