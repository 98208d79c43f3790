"""What all regularizers share."""

from __future__ import annotations

from collections.abc import Callable
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
        assert by in known.values(), (
            f"{type(self).__name__} acts by one of {list(known.values())}, not by {by!r}"
        )
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
