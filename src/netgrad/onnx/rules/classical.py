"""Operators of ``ai.onnx.ml`` without a gradient; those with one are lowered to standard operators first."""

from __future__ import annotations

from netgrad.onnx.rules.declaration import not_differentiable, not_implemented, piecewise_constant

_DOMAIN = "ai.onnx.ml"

not_implemented(
    *("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"),
    domain=_DOMAIN,
    reason="a tree ensemble is a step function of its input: a gradient would be zero wherever there is one",
)
not_implemented(
    *("CastMap", "DictVectorizer", "ZipMap"),
    domain=_DOMAIN,
    reason="maps carry no gradient: differentiate the tensor that is put into the map, or taken out of it",
)
piecewise_constant(
    "Binarizer",
    domain=_DOMAIN,
    reason="the output is 0 or 1: it jumps at the threshold and is constant elsewhere",
)
not_differentiable(
    *("CategoryMapper", "LabelEncoder", "OneHotEncoder"),
    domain=_DOMAIN,
    reason="its input is a key, looked up in a table",
)
