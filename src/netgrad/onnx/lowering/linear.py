"""Linear models: LinearRegressor and LinearClassifier."""

from __future__ import annotations

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError
from netgrad.onnx.lowering.scores import Labels, check_two, transform_of, transformed, with_opposite
from netgrad.onnx.lowering.writer import FLOAT, Writer


def linear_regressor(w: Writer) -> None:
    """``Y = X coefficients^T + intercepts``, transformed; coefficients of shape (targets, features)."""
    targets = int(w.attribute("targets", 1))
    transform = transform_of(w)
    coefficients, intercepts = _matrix(w, targets), w.floats("intercepts")
    if len(intercepts) not in (0, targets):
        raise CannotRewriteError(f"it has {len(intercepts)} intercepts for {targets} targets")
    scores = _scores(w, coefficients, intercepts)
    w.finish(0, transformed(w, scores, transform, targets), FLOAT, [w.batch(), targets])


def linear_classifier(w: Writer) -> None:
    """Scores as in `linear_regressor`, one per class; the label of the largest one.

    With a single row of coefficients the score is that of the second of two classes; see `with_opposite` for
    the other. ``multi_class`` says how the model was trained and changes nothing. ONNX Runtime asks for
    intercepts, the standard does not; without them the coefficients are cut into rows of as many as there are
    features, where that is known, else into one for each label.
    """
    labels = Labels(w, "classlabels_ints", "classlabels_strings")
    transform = transform_of(w)
    intercepts = w.floats("intercepts")
    classes = len(intercepts) or _rows_of_coefficients(w, labels.count)
    if labels.count != max(classes, 2):
        raise CannotRewriteError(f"it has {labels.count} labels for {classes} rows of coefficients")
    check_two(transform, classes)
    scores = _scores(w, _matrix(w, classes), intercepts)
    if w.is_read(0):
        label = (
            labels.by_sign(scores) if classes == 1 else labels.at(w.op("ArgMax", scores, axis=1, keepdims=0))
        )
        w.finish(0, label, labels.dtype, [w.batch()])
    if w.is_read(1):
        final = (
            with_opposite(w, scores, transform, signed=False)
            if classes == 1
            else transformed(w, scores, transform, classes)
        )
        w.finish(1, final, FLOAT, [w.batch(), labels.count])


def _rows_of_coefficients(w: Writer, labels: int) -> int:
    shape = w.input().shape
    features = None if shape is None else shape[-1]
    return w.floats("coefficients").size // features if isinstance(features, int) and features else labels


def _matrix(w: Writer, rows: int) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    coefficients = w.floats("coefficients")
    if not coefficients.size or rows < 1 or coefficients.size % rows:
        raise CannotRewriteError(f"its {coefficients.size} coefficients are no {rows} rows")
    matrix = coefficients.reshape(rows, -1)
    w.rows_fit(matrix.shape[1])
    return matrix


def _scores(w: Writer, coefficients: np.ndarray, intercepts: np.ndarray) -> onnx_ir.Value:
    x = w.rows(w.floating(), coefficients.shape[1])
    operands = [x, w.parameter("coefficients", coefficients)]
    if intercepts.size:
        operands.append(w.parameter("intercepts", intercepts))
    return w.op("Gemm", *operands, transB=1)
