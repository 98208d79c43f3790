"""Operators without a gradient rule, each group with the reason: the three kinds of "no gradient".

Not differentiable means that there is nothing to perturb: the output or every input is an index, a shape, a
truth value, a text, or a draw of random numbers. Piecewise constant means that the derivative is zero almost
everywhere. Through both, no gradient flows, and that is right. A third kind, not implemented, means that a
derivative exists and netgrad does not have it, so that a gradient which would have to pass is refused; every
operator of the standard that has a derivative has a rule or an expansion, so none is declared so here.
"""

from __future__ import annotations

from netgrad.onnx.rules.declaration import not_differentiable, piecewise_constant
from netgrad.onnx.rules.quantised_operators import QUANTISED, result_type

# ---- not differentiable ------------------------------------------------------------------------------

not_differentiable(
    *("And", "Or", "Xor", "Not"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    *("IsInf", "IsNaN", "OptionalHasElement"),
    reason="its output is a truth value",
)
not_differentiable(
    *("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"),
    reason="it works on the bits of integers",
)
not_differentiable(
    "BitCast",
    reason="it reads the bits of one type as another type, which is no function of real numbers",
)
not_differentiable(
    *("ArgMax", "ArgMin", "NonZero", "NonMaxSuppression"),
    reason="its output are indices",
)
not_differentiable(
    *("Shape", "Size", "SequenceLength"),
    reason="its output depends on the shape of its input, not on the content",
)
not_differentiable(
    *("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul"),
    reason="it computes with integers",
)
not_differentiable(
    *("ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"),
    reason="its input is text, tokens or an encoded file",
)
not_differentiable(
    *("Constant", "ConstantOfShape", "EyeLike", "SequenceEmpty"),
    *("BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"),
    reason="its output is determined by a shape or by sizes, not by the content of a tensor",
)
not_differentiable(
    *("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    reason="its output is a random draw, which has no derivative by the parameters of the distribution",
)

# ---- piecewise constant ------------------------------------------------------------------------------

piecewise_constant(
    *("Ceil", "Floor", "Round"),
    reason="it rounds: the output jumps at some points and is constant between them",
)
piecewise_constant("Sign", reason="the output is -1, 0 or 1: it jumps at 0 and is constant elsewhere")
piecewise_constant("Hardmax", reason="the output is 1 at the largest element and 0 elsewhere")
piecewise_constant(
    "QuantizeLinear",
    reason="it rounds to integers: the output jumps at some points and is constant between them",
)
for (_domain, _type), _form in QUANTISED.items():
    if _domain:  # the standard's are among the operators on integers, and have a schema
        piecewise_constant(
            _type,
            domain=_domain,
            reason="it rounds to integers: the output jumps at some points and is constant between them",
            infer=result_type(0 if _form.operands is None else len(_form.operands)),
        )
