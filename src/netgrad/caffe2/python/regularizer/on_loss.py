"""Regularizers that add a term to the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python.regularizer.base import Regularizer


def _norm(net: Any, param: Any, power: int, factor: float, name: str) -> Any:
    """A blob of ``factor`` times the sum of the powers of a parameter's absolute values."""
    blob = net.LpNorm([param], [net.NextScopedBlob(f"{param}_{name}")], p=power)
    return net.Scale([blob], [blob], scale=factor)


def _trimmed(net: Any, param: Any, count: int, factor: float, name: str) -> Any:
    """A blob of ``factor`` times the sum of the absolute values but for the ``count`` largest ones."""

    def named(*names: str) -> list[Any]:
        return [net.NextScopedBlob(one) for one in names]

    sizes = net.Abs([param], named("abs"))
    total = net.SumElements([sizes], named("sum_abs"), average=False)
    largest = net.TopK([sizes], named("topk", "id", "flat_id"), k=count)[0]
    top = net.SumElements([largest], named("topk_sum"), average=False)
    blob = net.Sub([total, top], named(f"{param}_{name}"))
    return net.Scale([blob], [blob], scale=factor)


def _norms_of_inputs(net: Any, param: Any) -> Any:
    """A blob of the 2-norm of the weights of each input of a layer."""
    squares = net.Mul([param, param], [net.NextScopedBlob("param_mul")])
    sums = net.ReduceFrontSum([squares], [net.NextScopedBlob("param_reduced")])
    return net.Pow([sums], [net.NextScopedBlob("grouped_feature_weight_vec")], exponent=0.5)


class L1Norm(Regularizer):
    """The sum of absolute values."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__()
        assert reg_lambda >= 0, f"reg_lambda is not negative, as {reg_lambda} is"
        self.reg_lambda = reg_lambda

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        return _norm(net, param, 1, self.reg_lambda, "l1_regularization")


class L2Norm(L1Norm):
    """The sum of squares."""

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        return _norm(net, param, 2, self.reg_lambda, "l2_regularization")


class L1NormTrimmed(Regularizer):
    """The sum of absolute values but for the k largest ones (the trimmed lasso, arXiv:1708.04527)."""

    def __init__(self, reg_lambda: float, k: int) -> None:
        super().__init__()
        assert reg_lambda >= 0, f"reg_lambda is not negative, as {reg_lambda} is"
        assert isinstance(k, int), f"k counts the kept columns: an integer, not {k!r}"
        assert k >= 1, f"k is 1 or more, not {k}"
        self.reg_lambda = reg_lambda
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        return _trimmed(net, param, self.k, self.reg_lambda, "l1_trimmed_regularization")


class ElasticNet(Regularizer):
    """The sums of absolute values and of squares."""

    def __init__(self, l1: float, l2: float) -> None:
        super().__init__()
        self.l1 = l1
        self.l2 = l2

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        squares = _norm(net, param, 2, self.l2, "l2_blob")
        sizes = _norm(net, param, 1, self.l1, "l1_blob")
        return net.Add([sizes, squares], [net.NextScopedBlob(f"{param}_elastic_net_regularization")])


class ElasticNetL1NormTrimmed(ElasticNet):
    """The sum of squares, and that of absolute values but for the k largest ones."""

    def __init__(self, l1: float, l2: float, k: int) -> None:
        super().__init__(l1, l2)
        self.k = k

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        squares = _norm(net, param, 2, self.l2, "l2_blob")
        sizes = _trimmed(net, param, self.k, self.l1, "l1_blob")
        name = net.NextScopedBlob(f"{param}_elastic_net_l1_trimmed_regularization")
        return net.Add([sizes, squares], [name])


class LpNorm(Regularizer):
    """The p-norm over the inputs of a layer of the 2-norms of their weights."""

    def __init__(self, reg_lambda: float, p_value: float = 0.5) -> None:
        super().__init__()
        assert reg_lambda > 0, f"reg_lambda is positive, not {reg_lambda}"
        assert p_value > 0, f"p_value is positive, not {p_value}"
        self.reg_lambda = reg_lambda
        self.p_value = p_value

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        norms = _norms_of_inputs(net, param)
        raised = net.Pow([norms], [net.NextScopedBlob("lp_vec_raised")], exponent=self.p_value)
        total = net.ReduceFrontSum([raised], [net.NextScopedBlob("lp_vec_summed")])
        norm = net.Pow([total], [net.NextScopedBlob("lp_vec")], exponent=1 / self.p_value)
        name = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        return net.Scale([norm], [name], scale=self.reg_lambda)


FCInputLpNorm = LpNorm  # its name for some time


class L0ApproxNorm(Regularizer):
    """About the number of inputs of a layer whose weights are not 0.

    It is the sum over inputs of ``min(norm, alpha) / alpha``, the norm being the 2-norm of an input's
    weights; with a budget, by how much it is above that.
    """

    def __init__(self, reg_lambda: float, alpha: float = 0.01, budget: float = 0) -> None:
        super().__init__()
        assert reg_lambda > 0, f"reg_lambda is positive, not {reg_lambda}"
        assert alpha > 0, f"alpha is positive, not {alpha}"
        assert budget >= 0, f"budget is not negative, as {budget} is"
        self.reg_lambda = reg_lambda
        self.alpha = alpha
        self.budget = float(budget)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        def named(name: str) -> list[Any]:
            return [net.NextScopedBlob(name)]

        sizes = net.Abs([_norms_of_inputs(net, param)], named("l0_abs"))
        limited = net.Clip([sizes], named("l0_min"), max=self.alpha)
        total = net.ReduceFrontSum([limited], named("l0_summed"))
        count = net.Scale([total], named("l0_norm"), scale=1 / self.alpha)
        if self.budget:
            budget = net.ConstantFill([], named("budget"), shape=[1], value=self.budget)
            count = net.Relu([net.Sub([count, budget], named("l0_budget"))], named("relu_l0_sub_budget"))
        return net.Scale([count], named(f"{param}_dense_feature_regularization"), scale=self.reg_lambda)


class GroupL1Norm(Regularizer):
    """The sum over groups of columns of the 2-norm times the root of the group's size."""

    def __init__(self, reg_lambda: float, groups: Sequence[int], stabilizing_val: float = 0) -> None:
        """Make the regularizer.

        Args:
            reg_lambda: The factor.
            groups: The size of each group; their sum is the number of columns.
            stabilizing_val: Added to sums of squares before the root, whose slope at 0 has no bound.
        """
        super().__init__()
        assert reg_lambda >= 0, f"reg_lambda is not negative, as {reg_lambda} is"
        assert isinstance(groups, list), f"groups is a list, not {groups!r}"
        self.reg_lambda = reg_lambda
        self.groups = groups
        self.stabilizing_val = stabilizing_val

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        columns = net.ReduceSum(net.Sqr(param), axes=[0], keepdims=0)
        sizes = net.GivenTensorIntFill([], 1, shape=[len(self.groups)], values=self.groups)
        sums = net.LengthsSum([columns, sizes])
        if self.stabilizing_val:
            more = net.ConstantFill([], 1, shape=[1], value=float(self.stabilizing_val))
            net.Add([sums, more], [sums], broadcast=1)
        factors = [self.reg_lambda * math.sqrt(size) for size in self.groups]
        weights = net.GivenTensorFill([], shape=[len(self.groups)], values=factors)
        scaled = net.Mul([net.Sqrt(sums), weights], ["normalized_l2_norm_scaled"])
        return net.LpNorm(scaled, ["group_l1_nrom"], p=1)
