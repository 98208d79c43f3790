"""Rows of the classification losses."""

import itertools

import numpy as np

from tests.onnx.rules.table import Case, constant, exactly, normal, positive, run_time

LABELS = np.array([2, 0, 2, 1])
EXTRA = np.array([[0, 2], [1, 1]])
DEEP = np.array([[[1], [0], [2]]])
LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
REDUCTIONS = ("none", "mean", "sum")

CASES = [
    *(Case(op, [normal(4, 3), run_time(LABELS)], {"reduction": how}) for op in LOSSES for how in REDUCTIONS),
    *(Case(op, [normal(4, 3), constant(LABELS, np.int32)], note="int32, defaults") for op in LOSSES),
    *(
        Case(op, [normal(2, 3, 2), run_time(EXTRA)], {"reduction": how}, note="an extra axis")
        for op, how in itertools.product(LOSSES, ("none", "mean"))
    ),
    *(Case(op, [normal(1, 3, 3, 1), run_time(DEEP)], note="two extra axes") for op in LOSSES),
    # Weights, and their own gradient.
    *(
        Case(op, [normal(4, 3), run_time(LABELS), positive(3)], {"reduction": how}, note="weights")
        for op, how in itertools.product(LOSSES, REDUCTIONS)
    ),
    *(Case(op, [normal(2, 3, 2), run_time(EXTRA), positive(3)], note="weights, extra axis") for op in LOSSES),
    Case(
        "SoftmaxCrossEntropyLoss",
        [normal(4, 3), run_time(LABELS), constant([1.0, 0.0, 2.0], np.float64)],
        note="a class of weight 0",
    ),
    # Ignored items: a label out of range, a label in range, a negative one; with and without weights.
    *(
        Case(
            op,
            [
                normal(4, 3),
                run_time(np.where(LABELS == 0, index, LABELS), dtype),
                *([positive(3)] * weighted),
            ],
            {"reduction": how, "ignore_index": index},
            note=f"{np.dtype(dtype).name}",
        )
        for op, how in itertools.product(LOSSES, REDUCTIONS)
        for index, weighted, dtype in [(-1, 0, np.int64), (255, 1, np.int32), (0, 1, np.int64)]
    ),
    Case(
        "SoftmaxCrossEntropyLoss",
        [normal(2, 3, 2), run_time(np.where(EXTRA == 0, -100, EXTRA)), positive(3)],
        {"ignore_index": -100},
        note="ignored, extra axis",
    ),
    *(
        Case(
            op,
            [normal(2, 3), run_time([5, 5])],
            {"ignore_index": 5, "reduction": how},
            note="all ignored",
            expected=[np.zeros((2, 3))],
        )
        for op in LOSSES
        for how in ("mean", "sum")
    ),
    # The log-probabilities as a second output, differentiated with the loss and alone.
    *(
        Case("SoftmaxCrossEntropyLoss", inputs, {"reduction": how}, outputs=2, of=of, note=note)
        for how in ("none", "mean")
        for inputs in ([normal(4, 3), run_time(LABELS)], [normal(4, 3), run_time(LABELS), positive(3)])
        for of, note in ((None, "both outputs"), ([0], "the loss alone"))
    ),
    Case(
        "SoftmaxCrossEntropyLoss",
        [normal(2, 3, 2), run_time(EXTRA)],
        outputs=2,
        of=[1],
        note="log prob alone",
    ),
    Case(
        "SoftmaxCrossEntropyLoss",
        [normal(4, 3), run_time(LABELS), positive(3)],
        outputs=2,
        of=[1],
        note="log prob, weights",
    ),
    # Scores whose exponentials overflow and underflow.
    Case(
        "SoftmaxCrossEntropyLoss",
        [exactly([[1000.0, -1000.0, 0.0], [0.5, 0.25, -900.0]]), run_time([1, 0])],
        {"reduction": "none"},
        note="scores from -1000 to 1000",
    ),
    # A batch of nothing: the mean is 0/0, the shape has to be right. The other loss has a function body with
    # a Reshape that ONNX Runtime refuses for it.
    Case(
        "NegativeLogLikelihoodLoss",
        [exactly(np.zeros((0, 3))), run_time([])],
        note="no items",
        expected=[np.zeros((0, 3))],
    ),
]
