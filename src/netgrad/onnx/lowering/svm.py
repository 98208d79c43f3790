"""Support vector machines: kernels, SVMRegressor and SVMClassifier."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError
from netgrad.onnx.lowering.coupling import coupled
from netgrad.onnx.lowering.scores import Labels, check_two, transform_of, transformed, with_opposite
from netgrad.onnx.lowering.writer import FLOAT, Writer

_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
_SMALLEST = 1e-7  # pairwise probabilities keep this distance from 0 and 1


def svm_regressor(w: Writer) -> None:
    """``Y = K(X, support_vectors) coefficients + rho``, or linear in X if there are no support vectors."""
    if w.attribute("post_transform", "NONE") != "NONE":
        raise CannotRewriteError("ONNX Runtime ignores the post_transform that it asks for")
    count, coefficients, rho = int(w.attribute("n_supports", 0)), w.floats("coefficients"), w.floats("rho")
    if rho.size != 1 or not coefficients.size or (count and coefficients.size != count):
        raise CannotRewriteError(
            f"it has {count} supports, {coefficients.size} coefficients and {rho.size} values of rho"
        )
    features = _Vectors(w, count) if count else w
    if isinstance(features, Writer):
        w.rows_fit(coefficients.size)
        x = w.rows(w.floating(), coefficients.size)
    else:
        x = features.kernel()
    weights = w.parameter("coefficients", coefficients.reshape(-1, 1))
    result = w.op("Gemm", x, weights, w.parameter("rho", rho))
    if w.attribute("one_class", 0):
        inside = w.op("Greater", result, w.constant(0.0))
        result = w.op("Where", inside, w.constant(1.0), w.constant(-1.0))
    w.finish(0, result, FLOAT, [w.batch(), 1])


def svm_classifier(w: Writer) -> None:
    """Scores of pairs of classes, or of classes, and the label that wins the most pairs.

    Of classes i < j, the machine's score is ``sum_v c_v K(x, v) + rho`` over the support vectors v of i, with
    the coefficients in row j - 1, and of j, with those in row i; above 0 it is a vote for i. The scores are
    those of all pairs; of two classes, the opposite and the score; with prob_a and prob_b, probabilities of
    the classes, coupled as in libsvm. Without support vectors the scores are linear in X, one per class.
    """
    labels = Labels(w, "classlabels_ints", "classlabels_strings")
    transform = transform_of(w)
    classes = labels.count
    if classes < 2:
        raise CannotRewriteError(f"it has {classes} labels, and a classifier two or more")
    per_class = [int(number) for number in w.attribute("vectors_per_class", ())]
    if sum(per_class):
        _of_pairs(w, labels, transform, per_class)
    else:
        _of_classes(w, labels, transform)


def _of_classes(w: Writer, labels: Labels, transform: str) -> None:
    """The linear form: ``X coefficients^T + rho``."""
    classes, coefficients, rho = labels.count, w.floats("coefficients"), w.floats("rho")
    if not coefficients.size or coefficients.size % classes or not rho.size:
        raise CannotRewriteError(
            f"it has {coefficients.size} coefficients and {rho.size} values of rho for {classes} classes"
        )
    matrix = coefficients.reshape(classes, -1)
    w.rows_fit(matrix.shape[1])
    x = w.rows(w.floating(), matrix.shape[1])
    weights = w.parameter("coefficients", matrix)
    scores = w.op("Gemm", x, weights, w.parameter("rho", rho[:1]), transB=1)
    if w.is_read(0):
        best = w.op("ArgMax", scores, axis=1, keepdims=0)
        if classes == 2 and not w.floats("prob_a").size:
            # The kernel's rule: the second class wins as soon as one score is above a bound, which depends on
            # whether some coefficient is negative.
            lowest = w.op("ReduceMin", weights, keepdims=0)
            positive = w.op("GreaterOrEqual", lowest, w.constant(0.0))
            largest = w.op("ReduceMax", scores, w.ints(1), keepdims=0)
            wins = w.op(
                "Or",
                w.op("And", positive, w.op("GreaterOrEqual", largest, w.constant(0.5))),
                w.op("And", w.op("Not", positive), w.op("Greater", largest, w.constant(0.0))),
            )
            best = w.op("Where", wins, w.constant(1, np.int64), best)
        w.finish(0, labels.at(best), labels.dtype, [w.batch()])
    if w.is_read(1):
        w.finish(1, transformed(w, scores, transform, classes), FLOAT, [w.batch(), classes])


def _of_pairs(w: Writer, labels: Labels, transform: str, per_class: list[int]) -> None:
    """The form with support vectors."""
    classes, vectors = labels.count, sum(per_class)
    pairs = list(combinations(range(classes), 2))
    coefficients, rho = w.floats("coefficients"), w.floats("rho")
    a, b = w.floats("prob_a"), w.floats("prob_b")
    given = {"coefficients": coefficients.size, "rho": rho.size, "vectors_per_class": len(per_class)}
    wanted = {"coefficients": (classes - 1) * vectors, "rho": len(pairs), "vectors_per_class": classes}
    if a.size or b.size:
        given |= {"prob_a": a.size, "prob_b": b.size}
        wanted |= {"prob_a": len(pairs), "prob_b": len(pairs)}
    wrong = [f"{given[name]} {name}, not {wanted[name]}" for name in given if given[name] != wanted[name]]
    if wrong:
        raise CannotRewriteError(f"for {classes} classes and {vectors} vectors it has {', '.join(wrong)}")
    if not a.size:
        check_two(transform, len(pairs))
    kernel = _Vectors(w, vectors).kernel()
    owner = np.repeat(np.arange(classes), per_class)
    rows = np.zeros((len(pairs), vectors), np.int64)
    mask = np.zeros((len(pairs), vectors), np.float32)
    for k, (i, j) in enumerate(pairs):
        rows[k, owner == i], rows[k, owner == j] = j - 1, i
        mask[k, (owner == i) | (owner == j)] = 1.0
    table = w.parameter("coefficients", coefficients.reshape(classes - 1, vectors))
    weights = w.op("GatherElements", table, w.constant(rows, np.int64), axis=0)
    if not mask.all():
        weights = w.op("Mul", weights, w.constant(mask))
    scores = w.op("Gemm", kernel, weights, w.parameter("rho", rho), transB=1)
    if w.is_read(0):
        w.finish(0, labels.at(_most_votes(w, scores, pairs, classes)), labels.dtype, [w.batch()])
    if not w.is_read(1):
        return
    if a.size:
        final = transformed(w, _probabilities(w, scores, a, b, classes), transform, classes)
        w.finish(1, final, FLOAT, [w.batch(), classes])
    elif classes == 2:
        w.finish(1, with_opposite(w, scores, transform, signed=transform == "NONE"), FLOAT, [w.batch(), 2])
    else:
        w.finish(1, transformed(w, scores, transform, len(pairs)), FLOAT, [w.batch(), len(pairs)])


def _most_votes(
    w: Writer, scores: onnx_ir.Value, pairs: list[tuple[int, int]], classes: int
) -> onnx_ir.Value:
    """The first of the classes that win the most pairs."""
    for_first = np.zeros((len(pairs), classes), np.float32)
    for_second = np.zeros((len(pairs), classes), np.float32)
    for k, (i, j) in enumerate(pairs):
        for_first[k, i] = for_second[k, j] = 1.0
    won = w.op("Cast", w.op("Greater", scores, w.constant(0.0)), to=int(FLOAT))
    lost = w.op("Sub", w.constant(1.0), won)
    votes = w.op(
        "Add",
        w.op("MatMul", won, w.constant(for_first)),
        w.op("MatMul", lost, w.constant(for_second)),
    )
    return w.op("ArgMax", votes, axis=1, keepdims=0)


def _probabilities(
    w: Writer,
    scores: onnx_ir.Value,
    a: np.ndarray,
    b: np.ndarray,
    classes: int,
) -> onnx_ir.Value:
    """``1 / (1 + exp(a s + b))`` of each pair's score, and from these the probabilities of the classes."""
    shifted = w.op("Add", w.op("Mul", scores, w.parameter("prob_a", a)), w.parameter("prob_b", b))
    pairwise = w.op("Sigmoid", w.op("Neg", shifted))
    bounds = (w.constant(np.float32(_SMALLEST)), w.constant(np.float32(1.0 - _SMALLEST)))
    return coupled(w, w.op("Clip", pairwise, *bounds), classes)


class _Vectors:
    """The support vectors of a node, and its kernel, whose form is checked here."""

    def __init__(self, w: Writer, count: int) -> None:
        self._w = w
        self._kind = str(w.attribute("kernel_type", "LINEAR"))
        if self._kind not in _KERNELS:
            raise CannotRewriteError(f"its kernel_type '{self._kind}' is not understood")
        parameters = w.floats("kernel_params")
        if parameters.size not in (0, 3):
            raise CannotRewriteError(f"it has {parameters.size} kernel_params, not three")
        numbers: list[float] = parameters.tolist() or [0.0, 0.0, 0.0]
        self._gamma, self._offset, self._degree = numbers
        vectors = w.floats("support_vectors")
        if not vectors.size or vectors.size % count:
            raise CannotRewriteError(f"its {vectors.size} numbers are no {count} support vectors")
        self._vectors = vectors.reshape(count, -1)
        w.rows_fit(self._vectors.shape[1])

    def kernel(self) -> onnx_ir.Value:
        """K(x, v) of every row and every support vector, of shape (batch, vectors)."""
        w = self._w
        x = w.rows(w.floating(), self._vectors.shape[1])
        vectors = w.parameter("support_vectors", self._vectors)
        if self._kind == "LINEAR":
            return w.op("Gemm", x, vectors, transB=1)
        gamma = w.parameter("gamma", self._gamma, setting=True)
        if self._kind == "RBF":
            # not as |x|^2 - 2 x v + |v|^2, which cancels
            difference = w.op("Sub", w.op("Unsqueeze", x, w.ints(1)), vectors)
            distance = w.op("ReduceSumSquare", difference, w.ints(2), keepdims=0)
            return w.op("Exp", w.op("Neg", w.op("Mul", distance, gamma)))
        product = w.op("Mul", w.op("Gemm", x, vectors, transB=1), gamma)
        inner = w.op("Add", product, w.parameter("coef0", self._offset, setting=True))
        if self._kind == "SIGMOID":
            return w.op("Tanh", inner)
        return w.op("Pow", inner, w.constant(self._degree))
