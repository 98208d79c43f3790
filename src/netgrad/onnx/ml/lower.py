"""Lowering the operators of ``ai.onnx.ml`` that compute with real numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.constants import lift_constants
from netgrad.onnx.edit import EXPANDED_FROM, CannotRewriteError, Editor, all_graphs, as_operator
from netgrad.onnx.ml.features import (
    array_feature_extractor,
    feature_vectorizer,
    imputer,
    normalizer,
    scaler,
)
from netgrad.onnx.ml.linear import linear_classifier, linear_regressor
from netgrad.onnx.ml.svm import svm_classifier, svm_regressor
from netgrad.onnx.ml.writer import Writer
from netgrad.onnx.names import name_inner_values
from netgrad.onnx.shapes import infer_shapes

DOMAIN: Final = "ai.onnx.ml"

_SVM: Final = ("coefficients", "kernel_params", "kernel_type", "post_transform", "rho", "support_vectors")

_LOWERINGS: dict[str, tuple[Callable[[Writer], None], frozenset[str]]] = {
    "ArrayFeatureExtractor": (array_feature_extractor, frozenset()),
    "FeatureVectorizer": (feature_vectorizer, frozenset({"inputdimensions"})),
    "Imputer": (
        imputer,
        frozenset(
            {
                "imputed_value_floats",
                "imputed_value_int64s",
                "replaced_value_float",
                "replaced_value_int64",
            }
        ),
    ),
    "LinearClassifier": (
        linear_classifier,
        frozenset(
            {
                "classlabels_ints",
                "classlabels_strings",
                "coefficients",
                "intercepts",
                "multi_class",
                "post_transform",
            }
        ),
    ),
    "LinearRegressor": (
        linear_regressor,
        frozenset({"coefficients", "intercepts", "post_transform", "targets"}),
    ),
    "Normalizer": (normalizer, frozenset({"norm"})),
    "SVMClassifier": (
        svm_classifier,
        frozenset(
            {*_SVM, "classlabels_ints", "classlabels_strings", "prob_a", "prob_b", "vectors_per_class"}
        ),
    ),
    "SVMRegressor": (svm_regressor, frozenset({*_SVM, "n_supports", "one_class"})),
    "Scaler": (scaler, frozenset({"offset", "scale"})),
}
"""The function that writes each operator, and the attributes that it understands."""

_REFUSAL = "netgrad.not_lowered"  # key in a node's transient metadata: why it stays as it is


def lowered_operators() -> list[str]:
    """Types of the operators of ``ai.onnx.ml`` that can be lowered."""
    return sorted(_LOWERINGS)


def lower_classical(model: onnx_ir.Model) -> list[str]:
    """Replace operators of ``ai.onnx.ml`` by standard ones, in place, and infer the shapes anew.

    Coefficients and the like become initializers ``<node>_<attribute>``, so that they can be differentiated
    by. A node whose form is not understood stays as it is; `check_lowered` says why.

    Args:
        model: A model in which nodes have names and shapes are inferred.

    Returns:
        What was done, one readable line each.
    """
    counts: Counter[str] = Counter()
    while True:
        found = [
            node
            for graph in all_graphs(model)
            for node in graph
            if node.domain == DOMAIN and node.op_type in _LOWERINGS and _REFUSAL not in node.meta
        ]
        if not found:
            break
        # What a node reads may be of unknown type until the node that writes it has been lowered.
        ready = [node for node in found if all(v is None or v.type is not None for v in node.inputs)]
        for node in ready or found[:1]:
            if _lower(node, Editor(model)):
                counts[node.op_type] += 1
        lift_constants(model, derived=True)
        name_inner_values(model)
        infer_shapes(model)
    return [f"lowered {count} {kind} into standard operators" for kind, count in sorted(counts.items())]


def check_lowered(node: onnx_ir.Node) -> None:
    """See that a node is none that `lower_classical` had to leave.

    Raises:
        UnsupportedOperatorError: It is; the message says why.
    """
    why = node.meta.get(_REFUSAL)
    if why is not None:
        raise UnsupportedOperatorError(f"no gradient for this form of {as_operator(node)}: {why}")


def _lower(node: onnx_ir.Node, editor: Editor) -> bool:
    lowering, understood = _LOWERINGS[node.op_type]
    unknown = sorted(set(node.attributes) - understood)
    writer = Writer(node, editor)
    try:
        if unknown:
            raise CannotRewriteError(f"its attribute '{unknown[0]}' is not understood")
        lowering(writer)
    except CannotRewriteError as error:
        node.meta[_REFUSAL] = str(error)
        del node.metadata_props[EXPANDED_FROM]
        return False
    writer.remove()
    return True
