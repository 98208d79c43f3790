"""A model whose parameters need not all be trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.python import scope
from netgrad.caffe2.python.model_helper import ModelHelper


class Seq2SeqModelHelper(ModelHelper):
    """A `ModelHelper` with the order NHWC, and with parameters that are fixed.

    Attributes:
        non_trainable_params: The parameters that are fixed, in order of creation.
    """

    def __init__(
        self,
        init_params: bool = True,
        *,
        use_cudnn: bool = True,
        cudnn_exhaustive_search: bool = False,
        ws_nbytes_limit: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Start a model.

        Args:
            init_params: Whether parameters get fills.
            use_cudnn: A default of layers, as are the next two.
            cudnn_exhaustive_search: Likewise.
            ws_nbytes_limit: Likewise, if it is given.
            **kwargs: What `ModelHelper` takes.
        """
        defaults: dict[str, Any] = {
            "use_cudnn": use_cudnn,
            "cudnn_exhaustive_search": cudnn_exhaustive_search,
            "order": "NHWC",
        }
        if ws_nbytes_limit:
            defaults["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(init_params=init_params, arg_scope=defaults, **kwargs)
        self.non_trainable_params: list[Any] = []

    def AddParam(
        self,
        name: str,
        init: tuple[str, Mapping[str, Any]] | None = None,
        init_value: float | str | None = None,
        trainable: bool = True,
    ) -> Any:
        """Add a parameter, and the fill that writes it if the model has such.

        Args:
            name: Its name.
            init: The type and the arguments of its fill.
            init_value: In place of ``init``: the value of a parameter of one element.
            trainable: Whether it is trained.

        Returns:
            The blob.

        Raises:
            ValueError: Not exactly one of ``init`` and ``init_value`` is given.
        """
        if (init is None) == (init_value is None):
            raise ValueError(f"parameter '{name}' needs either init or init_value")
        if init is None:
            init = ("ConstantFill", {"shape": [1], "value": init_value})
        if self.init_params:
            type_, arguments = init
            param = getattr(self.param_init_net, type_)([], name, **arguments)
        else:
            param = self.net.AddExternalInput(name)
        (self.params if trainable else self.non_trainable_params).append(param)
        return param

    def GetNonTrainableParams(self, namescope: str | None = None) -> list[Any]:
        """The parameters that are fixed.

        Args:
            namescope: The scope that they are in; None for the current one, ``''`` for all.
        """
        wanted = scope.CurrentNameScope() if namescope is None else namescope
        if wanted and not wanted.endswith("/"):
            wanted += "/"
        return [param for param in self.non_trainable_params if not wanted or param.GetNameScope() == wanted]

    def GetAllParams(self, namescope: str | None = None) -> list[Any]:
        """The parameters that are trained, those that are computed, and those that are fixed."""
        return super().GetAllParams(namescope) + self.GetNonTrainableParams(namescope)
