"""Steps against gradients whose common norm is limited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core


def add_clipped_updates(model: Any, sparse: bool, learning_rate: Any, max_norm: float, scope: str) -> None:
    """Add a step to the parameters with a gradient: to those with gradients of rows, or to all others.

    Gradients are multiplied by max_norm / max(norm, max_norm), with the norm of these gradients together.

    Args:
        model: The model, with gradients.
        sparse: Which of the parameters.
        learning_rate: The blob with it.
        max_norm: The limit.
        scope: The scope of what is computed on the way.
    """
    params = [
        param
        for param in model.GetParams(top_scope=True)
        if param in model.param_to_grad
        and isinstance(model.param_to_grad[param], core.GradientSlice) == sparse
    ]
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    if not params:
        return
    with core.NameScope(scope):
        ratio = _ratio(model, params, max_norm)
    for param in params:
        rate = model.net.Negative([learning_rate], "negative_learning_rate")
        with core.NameScope(scope):
            factor = model.net.Mul([rate, ratio], "update_coeff", broadcast=1)
        slope = model.param_to_grad[param]
        if sparse:
            model.net.ScatterWeightedSum([param, one, slope.indices, slope.values, factor], param)
        else:
            model.net.WeightedSum([param, one, slope, factor], param)


def _ratio(model: Any, params: Sequence[Any], max_norm: float) -> Any:
    sums = []
    for at, param in enumerate(params):
        slope = model.param_to_grad[param]
        numbers = slope.values if isinstance(slope, core.GradientSlice) else slope
        squares = model.net.Sqr([numbers], f"grad_{at}_squared")
        sums.append(model.net.SumElements(squares, f"grad_{at}_squared_sum"))
    total = model.net.Sum(sums, "grad_squared_full_sum")
    norm = model.net.Pow(total, "global_norm", exponent=0.5)
    limit = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(max_norm))
    return model.net.Div([limit, model.net.Max([norm, limit], "max_norm")], "norm_ratio")
