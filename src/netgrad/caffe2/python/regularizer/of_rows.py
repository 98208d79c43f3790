"""Regularizers of the rows of tables that were updated."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.regularizer.base import Regularizer


class _OfRows(Regularizer):
    """What changes the rows that were updated; of sparse gradients only."""

    def _run_after_optimizer(self, net: Any, param_init_net: Any, param: Any, grad: Any) -> Any:
        if not isinstance(grad, core.GradientSlice):
            raise NotImplementedError(
                f"{type(self).__name__} changes rows of sparse parameters; a dense one has none"
            )
        self._change(net, param, grad.indices)

    def _change(self, net: Any, param: Any, rows: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} says not what is done with rows")


class MaxNorm(_OfRows):
    """Rows that were updated have at most a norm."""

    def __init__(self, norm: float = 1.0, dtype: str | None = None) -> None:
        """Make the regularizer.

        Args:
            norm: The norm.
            dtype: ``fp16`` for parameters in half precision.
        """
        super().__init__()
        self.norm = norm
        self.dtype = dtype

    def _change(self, net: Any, param: Any, rows: Any) -> None:
        assert self.norm > 0, f"a norm is positive, not {self.norm}"
        normalize = net.Float16SparseNormalize if self.dtype == "fp16" else net.SparseNormalize
        normalize([param, rows], [param], use_max_norm=True, norm=self.norm)


class ConstantNorm(_OfRows):
    """Rows that were updated have a norm."""

    def __init__(self, norm: float = 1.0) -> None:
        super().__init__()
        self.norm = norm

    def _change(self, net: Any, param: Any, rows: Any) -> None:
        assert self.norm > 0, f"a norm is positive, not {self.norm}"
        net.SparseNormalize([param, rows], [param], use_max_norm=False, norm=self.norm)


class SparseLpNorm(_OfRows):
    """Rows that were updated are drawn towards 0, as by the sum of absolute values (p = 1) or of squares."""

    def __init__(self, p: float, reg_lambda: float) -> None:
        super().__init__()
        assert p in (1.0, 2.0), f"rows are shrunk by norms with p of 1 or 2, not {p}"
        assert reg_lambda > 0, f"reg_lambda is positive, not {reg_lambda}"
        self.p = p
        self.reg_lambda = reg_lambda

    def _change(self, net: Any, param: Any, rows: Any) -> None:
        net.SparseLpRegularizer([param, rows], [param], p=self.p, reg_lambda=self.reg_lambda)


class SparseL1Norm(SparseLpNorm):
    """`SparseLpNorm` of p = 1."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__(p=1.0, reg_lambda=reg_lambda)


class SparseL2Norm(SparseLpNorm):
    """`SparseLpNorm` of p = 2."""

    def __init__(self, reg_lambda: float) -> None:
        super().__init__(p=2.0, reg_lambda=reg_lambda)
