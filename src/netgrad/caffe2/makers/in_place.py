"""Which outputs may have the name of which input, by the schemas of the operators."""

from __future__ import annotations

from collections.abc import Sequence

_FIRST = frozenset({(0, 0)})
_ANYWHERE = frozenset({"Python", "PythonDLPack"})

_ALLOWED = {
    **dict.fromkeys(("Add", "Sub", "Mul"), frozenset({(0, 0), (1, 0)})),
    "SpatialBN": frozenset({(0, 0), (3, 1), (4, 2)}),
    **dict.fromkeys(
        (
            *(
                "Relu",
                "LeakyRelu",
                "PRelu",
                "Elu",
                "Selu",
                "Sigmoid",
                "Tanh",
                "Softplus",
                "Softsign",
                "Logit",
            ),
            *("ThresholdedRelu", "Exp", "Log", "Sqr", "Sqrt", "Pow", "Negative", "Clip", "Scale", "Div"),
            *("Sum", "WeightedSum", "Max", "Min", "Mean", "SquareRootDivide", "AffineChannel"),
            *("Dropout", "InstanceNorm", "ExpandDims", "Squeeze", "Reshape", "PrependDim"),
            *("CopyRowsToTensor", "EnsureDense", "NegateGradient", "NanCheck"),
            *("Cbrt", "HardSigmoid", "Reciprocal", "ReluN", "Rsqrt"),
        ),
        _FIRST,
    ),
}


def forbidden(type_: str, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[int, int] | None:
    """The first pair of positions of an input and an output that may not share their name, or None."""
    if type_ in _ANYWHERE:
        return None
    allowed = _ALLOWED.get(type_, frozenset())
    for out, name in enumerate(outputs):
        places = [at for at, blob in enumerate(inputs) if blob == name and name]
        if places and all((at, out) not in allowed for at in places):
            return places[0], out
    return None
