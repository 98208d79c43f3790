"""Scores of classes that agree with the best path through a conditional random field."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python.crf import CRFWithLoss


def crf_update_predictions(model: Any, crf_with_loss: CRFWithLoss, classes: Any) -> Any:
    """`apply_crf` in the nets of a model, with the transitions of a field."""
    return apply_crf(
        model.param_init_net, model.net, crf_with_loss.transitions, classes, crf_with_loss.num_classes
    )


def apply_crf(init_net: Any, net: Any, transitions: Any, predictions: Any, num_classes: int) -> Any:
    """Scores (T, N) in each row of which the largest one is given to the class on the best path.

    Args:
        init_net: Where constants are filled.
        net: Where operators are added.
        transitions: Those of the field, (N + 2, N + 2).
        predictions: The scores, (T, N).
        num_classes: N.
    """
    padded = CRFWithLoss.pad_predictions(predictions, init_net, net, num_classes)
    swapped = net.SwapBestPath([padded, net.ViterbiPath([padded, transitions])])
    return net.Slice([swapped], starts=[1, 0], ends=[-2, -3])  # without begin and end
