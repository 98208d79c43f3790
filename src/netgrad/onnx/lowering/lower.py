"""Lowering the operators of ``ai.onnx.ml`` that compute with real numbers, and the standard's optimizers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Final

import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.constants import lift_constants
from netgrad.onnx.edit import EXPANDED_FROM, CannotRewriteError, Editor, all_graphs, as_operator
from netgrad.onnx.lowering.features import (
    array_feature_extractor,
    feature_vectorizer,
    imputer,
    normalizer,
    scaler,
)
from netgrad.onnx.lowering.linear import linear_classifier, linear_regressor
from netgrad.onnx.lowering.optimizers import adagrad, adam, momentum
from netgrad.onnx.lowering.svm import svm_classifier, svm_regressor
from netgrad.onnx.lowering.writer import Writer
from netgrad.onnx.names import name_inner_values
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.versions import too_new

CLASSICAL: Final = "ai.onnx.ml"
TRAINING: Final = "ai.onnx.preview.training"

_SVM: Final = ("coefficients", "kernel_params", "kernel_type", "post_transform", "rho", "support_vectors")
_LABELS: Final = ("classlabels_ints", "classlabels_strings")
_IMPUTED: Final = (
    "imputed_value_floats",
    "imputed_value_int64s",
    "replaced_value_float",
    "replaced_value_int64",
)

_Lowering = tuple[Callable[[Writer], None], Sequence[str]]

_LOWERINGS: dict[tuple[str, str], _Lowering] = {
    (CLASSICAL, "ArrayFeatureExtractor"): (array_feature_extractor, ()),
    (CLASSICAL, "FeatureVectorizer"): (feature_vectorizer, ("inputdimensions",)),
    (CLASSICAL, "Imputer"): (imputer, _IMPUTED),
    (CLASSICAL, "LinearClassifier"): (
        linear_classifier,
        (*_LABELS, "coefficients", "intercepts", "multi_class", "post_transform"),
    ),
    (CLASSICAL, "LinearRegressor"): (
        linear_regressor,
        ("coefficients", "intercepts", "post_transform", "targets"),
    ),
    (CLASSICAL, "Normalizer"): (normalizer, ("norm",)),
    (CLASSICAL, "SVMClassifier"): (
        svm_classifier,
        (*_SVM, *_LABELS, "prob_a", "prob_b", "vectors_per_class"),
    ),
    (CLASSICAL, "SVMRegressor"): (svm_regressor, (*_SVM, "n_supports", "one_class")),
    (CLASSICAL, "Scaler"): (scaler, ("offset", "scale")),
    (TRAINING, "Adagrad"): (adagrad, ("decay_factor", "epsilon", "norm_coefficient")),
    (TRAINING, "Adam"): (
        adam,
        ("alpha", "beta", "epsilon", "norm_coefficient", "norm_coefficient_post"),
    ),
    (TRAINING, "Momentum"): (momentum, ("alpha", "beta", "mode", "norm_coefficient")),
}
"""The function that writes each operator, and the attributes that it understands."""

_REFUSAL = "netgrad.not_lowered"  # key in a node's transient metadata: why it stays as it is


def lowered_operators(domain: str) -> list[str]:
    """Types of the operators of a domain that can be lowered."""
    return sorted(op_type for owner, op_type in _LOWERINGS if owner == domain)


def lower_operators(model: onnx_ir.Model, opaque: Collection[tuple[str, str]] = ()) -> list[str]:
    """Replace operators of the two domains by standard ones, in place, and infer the shapes anew.

    Coefficients and the like become initializers ``<node>_<attribute>``, so that they can be differentiated
    by. A node whose form is not understood stays as it is; `check_lowered` says why.

    Args:
        model: A model in which nodes have names and shapes are inferred.
        opaque: Domain and type of operators that stay as they are.

    Returns:
        What was done, one readable line each.
    """
    counts: Counter[str] = Counter()
    while True:
        found = [
            node
            for graph in all_graphs(model)
            for node in graph
            if (node.domain, node.op_type) in _LOWERINGS and _REFUSAL not in node.meta
            if (node.domain, node.op_type) not in opaque
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
    drop_unused_imports(model)
    return [f"lowered {count} {kind} into standard operators" for kind, count in sorted(counts.items())]


def drop_unused_imports(model: onnx_ir.Model) -> None:
    """Take back the import of a lowered domain that no node is of any more: few runtimes know them."""
    used = {node.domain for graph in all_graphs(model) for node in graph}
    for domain in (CLASSICAL, TRAINING):
        if domain not in used:
            model.opset_imports.pop(domain, None)


def refusal_of(node: onnx_ir.Node) -> str:
    """Why `lower_operators` had to leave a node; empty if it did not."""
    return str(node.meta.get(_REFUSAL, ""))


def check_lowered(node: onnx_ir.Node, wanted: str = "gradient") -> None:
    """See that a node is none that `lower_operators` had to leave.

    Args:
        node: The node.
        wanted: What there is none of, if it is one.

    Raises:
        UnsupportedOperatorError: It is; the message says why.
    """
    why = refusal_of(node)
    if why:
        raise UnsupportedOperatorError(f"no {wanted} for this form of {as_operator(node)}: {why}")


def _lower(node: onnx_ir.Node, editor: Editor) -> bool:
    lowering, understood = _LOWERINGS[node.domain, node.op_type]
    unknown = sorted(set(node.attributes) - set(understood))
    writer = Writer(node, editor)
    try:
        newer = too_new(node.op_type, node.domain, editor.model.opset_imports)
        if newer is not None:
            raise CannotRewriteError(newer)
        if unknown:
            raise CannotRewriteError(f"its attribute '{unknown[0]}' is not understood")
        lowering(writer)
    except CannotRewriteError as error:
        node.meta[_REFUSAL] = str(error)
        del node.metadata_props[EXPANDED_FROM]
        return False
    writer.remove()
    return True
