"""Regularizers: terms of the loss, and limits of parameters after their update."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from netgrad.caffe2.python import core, utils


class RegularizationBy:
    """Where a parameter is regularized."""

    AFTER_OPTIMIZER = "after_optimizer"
    ON_LOSS = "on_loss"


class Regularizer:
    """Adds the regularization of one parameter after the other."""

    def __init__(self) -> None:
        self.kEpsilon = 1e-9

    def __call__(
        self, net: Any, param_init_net: Any, param: Any, grad: Any = None, by: str | None = None
    ) -> Any:
        """Add the regularization of a blob.

        Args:
            net: Where it goes.
            param_init_net: Where its own blobs start.
            param: The parameter.
            grad: Its gradient, for what follows the update.
            by: One of the values of `RegularizationBy`.

        Returns:
            On the loss, the blob of the term that is to be added to it, or None.
        """
        assert isinstance(param, core.BlobReference), f"a parameter is a reference, not {param!r}"
        known = utils.EnumClassKeyVals(RegularizationBy)
        assert by in known.values(), f"{type(self).__name__} is called with invalid by={by}, not in {known}"
        run: Callable[..., Any] = getattr(self, f"_run_{by}")
        return run(net, param_init_net, param, grad)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        return None

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        return None

    def _ensure_clipped(
        self,
        net: Any,
        param: Any,
        grad: Any = None,
        min: float | None = None,
        max: float | None = None,
        open_range: bool = False,
        left_open: bool = False,
        right_open: bool = False,
    ) -> None:
        """Keep the parameter, or the rows that were updated, in a range; an open end is moved inwards."""
        arguments = {}
        if min is not None:
            arguments["min"] = min + self.kEpsilon if open_range or left_open else min
        if max is not None:
            arguments["max"] = max - self.kEpsilon if open_range or right_open else max
        rows = [grad.indices, grad.values] if isinstance(grad, core.GradientSlice) else []
        net.EnsureClipped([param, *rows], [param], **arguments)


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


class L1Norm(Regularizer):
    """The sum of absolute values."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__()
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
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
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
        assert isinstance(k, int), "k should be an interger as expected #. after selection"
        assert k >= 1, "k should be larger than 1"
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


class FCInputLpNorm(Regularizer):
    """The p-norm over the inputs of a layer of the 2-norms of their weights."""

    def __init__(self, reg_lambda: float, p_value: float = 0.5) -> None:
        super().__init__()
        assert reg_lambda >= 0, "factor ahead of regularization should be 0 or positive"
        assert p_value > 0, "p_value factor should be positive"
        self.reg_lambda = reg_lambda
        self.p_value = p_value

    def _feature_grouping(self, param: Any, net: Any) -> Any:
        squares = net.Mul([param, param], [net.NextScopedBlob("param_mul")])
        sums = net.ReduceFrontSum([squares], [net.NextScopedBlob("param_reduced")])
        return net.Pow([sums], [net.NextScopedBlob("grouped_feature_weight_vec")], exponent=0.5)

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        norms = self._feature_grouping(param, net)
        raised = net.Pow([norms], [net.NextScopedBlob("lp_vec_raised")], exponent=self.p_value)
        total = net.ReduceFrontSum([raised], [net.NextScopedBlob("lp_vec_summed")])
        norm = net.Pow([total], [net.NextScopedBlob("lp_vec")], exponent=1 / self.p_value)
        name = net.NextScopedBlob(f"{param}_dense_feature_regularization")
        return net.Scale([norm], [name], scale=self.reg_lambda)


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
        assert reg_lambda >= 0, "regularization weight should be 0 or positive"
        assert isinstance(groups, list), "groups needs to be a list"
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


class MaxNorm(Regularizer):
    """Rows that were updated have at most a norm; sparse gradients only."""

    _at_most = True

    def __init__(self, norm: float = 1.0) -> None:
        super().__init__()
        self.norm = norm

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        assert self.norm > 0, "norm should be bigger than 0."
        if not isinstance(grad, core.GradientSlice):
            raise NotImplementedError(f"{type(self).__name__} is not supported for dense parameters")
        net.SparseNormalize([param, grad.indices], [param], use_max_norm=self._at_most, norm=self.norm)


class ConstantNorm(MaxNorm):
    """Rows that were updated have a norm; sparse gradients only."""

    _at_most = False


class LogBarrier(Regularizer):
    """Minus the sum of logarithms, with a factor that shrinks; the parameter is kept positive."""

    def __init__(
        self,
        reg_lambda: float,
        discount_policy: str = "inv",
        discount_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Make the regularizer.

        Args:
            reg_lambda: The factor.
            discount_policy: How it shrinks: the policy of a learning rate.
            discount_options: Arguments of the policy.
        """
        super().__init__()
        assert reg_lambda > 0, "factor ahead of regularization should be 0 or positive"
        self.reg_lambda = reg_lambda
        self.discount_policy = discount_policy
        self.discount_options = dict(discount_options or {"gamma": 1.0, "power": 1.0})

    def _run_on_loss(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> Any:
        iteration = utils.BuildUniqueMutexIter(param_init_net, net)
        discount = net.LearningRate(
            [iteration],
            [net.NextScopedBlob(f"{param}_log_barrier_discount")],
            base_lr=-self.reg_lambda,
            policy=self.discount_policy,
            **self.discount_options,
        )
        positive = net.Clip([param], [net.NextScopedBlob(f"{param}_non_neg")], min=self.kEpsilon)
        logarithms = net.Log([positive], [net.NextScopedBlob(f"{param}_log")])
        total = net.SumElements([logarithms], [net.NextScopedBlob(f"{param}_log_sum")])
        return net.Mul([total, discount], [net.NextScopedBlob(f"{param}_log_barrier")], broadcast=1)

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(net, param, grad, min=0, open_range=True)


class BoundedGradientProjection(Regularizer):
    """The parameter lies between two bounds, either of which may be open."""

    def __init__(
        self,
        lb: float | None = None,
        ub: float | None = None,
        left_open: bool = False,
        right_open: bool = False,
        epsilon: float | None = None,
    ) -> None:
        super().__init__()
        self.lb = None if lb is None else float(lb)
        self.ub = None if ub is None else float(ub)
        self.left_open = left_open
        self.right_open = right_open
        self.kEpsilon = self.kEpsilon if epsilon is None else float(epsilon)
        assert self.kEpsilon > 0, f"Bounded Gradient Projection with invalid eps={epsilon}"
        if self.lb is not None and self.ub is not None:
            low = self.lb + (self.kEpsilon if left_open else 0.0)
            high = self.ub - (self.kEpsilon if right_open else 0.0)
            assert low <= high, f"Bounded Gradient Projection with invalid ub={ub}, lb={lb}, eps={epsilon}"

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        self._ensure_clipped(
            net,
            param,
            grad,
            min=self.lb,
            max=self.ub,
            left_open=self.left_open,
            right_open=self.right_open,
        )
