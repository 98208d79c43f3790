"""Parameters of a model of layers, and the checks of those that scopes share."""

from __future__ import annotations

import copy
from typing import Any

from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.layers.layers import LayerParameter
from netgrad.caffe2.python.modeling.parameter_sharing import parameter_sharing_context
from netgrad.caffe2.python.optimizer import Optimizer


class LayerParameters:
    """A model's part that makes parameters.

    Attributes:
        param_to_optim: Parameter's name to its optimizer.
        param_to_reg: Parameter to its regularizer, or None.
    """

    NoOptim: Any
    default_optimizer: Any

    def _init_parameters(self) -> None:
        self._param_to_shape: dict[str, Any] = {}
        self._initialize_params = True
        self.param_to_optim: dict[str, Any] = {}
        self.param_to_reg: dict[Any, Any] = {}

    def set_initialize_params(self, initialize_params: bool) -> None:
        """Say whether parameters made from now on have operators that write them first."""
        self._initialize_params = initialize_params

    def create_param(
        self,
        param_name: Any,
        shape: Any,
        initializer: Any,
        optimizer: Any = None,
        ps_param: Any = None,
        regularizer: Any = None,
    ) -> LayerParameter:
        """Make a parameter, or one more use of a shared one.

        Args:
            param_name: A text gets the name scope, redirected where parameters are shared; a reference is
                taken as it is.
            shape: Its shape; None if its initializer tells.
            initializer: An operator's type, and its arguments if it has any.
            optimizer: What updates it; None for the model's default.
            ps_param: What a parameter server is told of it.
            regularizer: What limits it.

        Raises:
            ValueError: The name is something else; or a shared parameter has another shape.
            AssertionError: It has another optimizer.
        """
        if isinstance(param_name, core.BlobReference):
            name = str(param_name)
        elif isinstance(param_name, str):
            name = parameter_sharing_context.get_parameter_name(param_name)
        else:
            raise ValueError(f"a parameter's name is a text or a reference, not {param_name!r}")
        blob = core.BlobReference(name)
        kind, *more = initializer
        arguments = copy.deepcopy(more[0]) if more else {}
        if shape is not None:
            assert "shape" not in arguments, f"the initializer of {name} has a shape of its own"
            arguments["shape"] = shape
        operator = core.CreateOperator(kind, [], blob, **arguments) if self._initialize_params else None
        param = LayerParameter(blob, optimizer, operator, ps_param, regularizer)
        self._check_shared(name, shape, optimizer)
        self._param_to_shape[name] = shape
        return param

    def _check_shared(self, name: str, shape: Any, optimizer: Any) -> None:
        if name in self._param_to_shape and self._param_to_shape[name] != shape:
            raise ValueError(
                f"Got inconsistent shapes for the shared parameter {name}: {shape} in the scope "
                f"{scope.CurrentNameScope()}, and {self._param_to_shape[name]} before"
            )
        is_known = optimizer is None or optimizer == self.NoOptim or isinstance(optimizer, Optimizer)
        if name in self.param_to_optim:
            if not is_known:
                raise ValueError(
                    f"the optimizer of {name} is an Optimizer, NoOptim or None, not {optimizer!r}"
                )
            chosen = self.default_optimizer if optimizer is None else optimizer
            known = self.param_to_optim[name]
            assert _same_optimizer(chosen, known), (
                f"parameter {name} is shared, and its other uses have the optimizer {known}, not {chosen}; "
                "give all of them the same one"
            )


def _same_optimizer(one: Any, other: Any) -> bool:
    """Whether two optimizers do the same."""
    if not isinstance(one, Optimizer) or not isinstance(other, Optimizer):
        return bool(one == other)
    return type(one) is type(other) and one.attributes == other.attributes
