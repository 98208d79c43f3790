"""Makers of softmax and of losses."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.makers.registry import lines, maker
from netgrad.core import Gradient, Operator

lines(
    {
        "Softmax": "SoftmaxGradient(O0,G0)->(D0)",
        "SoftmaxFp16": "SoftmaxFp16Gradient(O0,G0)->(D0)",
        "LabelCrossEntropy": "LabelCrossEntropyGradient(I0,I1,G0)->(D0)",
        "CrossEntropy": "CrossEntropyGradient(I0,I1,G0)->(D0)",
        "SigmoidCrossEntropyWithLogits": "SigmoidCrossEntropyWithLogitsGradient(G0,I0,I1)->(D0)",
        "WeightedSigmoidCrossEntropyWithLogits": (
            "WeightedSigmoidCrossEntropyWithLogitsGradient(G0,I0,I1,I2)->(D0)"
        ),
        "AveragedLoss": "AveragedLossGradient(I0,G0)->(D0)",
        "BernoulliJSD": "BernoulliJSDGradient(G0,I0,I1)->(D0)",
        "CosineEmbeddingCriterion": "CosineEmbeddingCriterionGradient(I0,I1,G0)->(D0)",
        "MarginRankingCriterion": "MarginRankingCriterionGradient(I0,I1,I2,G0)->(D0,D1)",
        "MakeTwoClass": "MakeTwoClassGradient(G0)->(D0)",
    }
)


@maker("SoftmaxWithLoss", "SpatialSoftmaxWithLoss", partial=True)
def _softmax_with_loss(op: Operator, grads: Sequence[Gradient | None]) -> str:
    """The original ignored a gradient of the softmax; here both ways into the scores count."""
    reads = "I0,I1,I2,O0,G1" if len(op.inputs) > 2 else "I0,I1,O0,G1"
    softmax, loss = (grad is not None for grad in (*grads, None, None)[:2])
    if softmax and op.type == "SoftmaxWithLoss":
        if not loss:
            return "SoftmaxGradient(O0,G0)->(D0)"
        return (
            f'{op.type}Gradient({reads})->(D0"_loss"); SoftmaxGradient(O0,G0)->(D0"_softmax"); '
            'Sum(D0"_loss",D0"_softmax")->(D0)'
        )
    return f"{op.type}Gradient({reads})->(D0)"


@maker("PairWiseLoss")
def _pair_wise_loss(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "I0,I1,G0,I2" if len(op.inputs) > 2 else "I0,I1,G0"
    return f"PairWiseLossGradient({reads})->(D0)"


@maker("LambdaRankNdcg", partial=True)
def _lambda_rank(op: Operator, grads: Sequence[Gradient | None]) -> str:
    reads = "I0,I2,O1,G0" if len(op.inputs) > 2 else "I0,O1,G0"
    return f"LambdaRankNdcgGradient({reads})->(D0)"


@maker("HSoftmax", partial=True, counts=(1,))
def _hierarchical_softmax(op: Operator, grads: Sequence[Gradient | None]) -> str:
    """The second output is what the operator keeps; its gradient is written, and read by nobody."""
    kept = 'O1"_grad"' if grads[1] is None else "G1"
    return f"HSoftmaxGradient(I0,I1,I2,I3,O1,G0)->(D0,D1,D2,{kept})"
