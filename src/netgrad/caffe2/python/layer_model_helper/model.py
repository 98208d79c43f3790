"""A model of layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.layer_model_helper.constants import GlobalConstants
from netgrad.caffe2.python.layer_model_helper.parameters import LayerParameters
from netgrad.caffe2.python.layer_model_helper.records import ModelRecords
from netgrad.caffe2.python.layer_model_helper.training import TrainingSteps
from netgrad.caffe2.python.layers import layers
from netgrad.caffe2.python.layers.model_layer import ModelLayer
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo

_FUNCTIONAL = "FunctionalLayer"


class LayerModelHelper(TrainingSteps, LayerParameters, ModelRecords, GlobalConstants, ModelHelper):
    """Builds a model of layers, of which nets for training, evaluation and predictions are made.

    ``model.FC(record, 10)`` makes the layer of that name and adds it. The name of an operator makes a layer
    of that operator (`netgrad.caffe2.python.layers.functional.Functional`), and so does it with
    ``FunctionalLayer`` in front, where a layer has the same name. With ``output_to_metrics=True`` and
    ``params_to_metrics=True`` its output and copies of its parameters are among the metrics.

    Attributes:
        net: All layers, for training, as they are added.
        param_init_net: Writes the constants and the parameters.
        use_attribution: Free for programs to use.
    """

    def __init__(
        self,
        name: str,
        input_feature_schema: Any,
        trainer_extra_schema: Any,
        keep_blobs: bool = False,
        use_attribution: bool = True,
    ) -> None:
        """Start a model.

        Args:
            name: Its name.
            input_feature_schema: The features that it reads.
            trainer_extra_schema: What it reads besides in training and evaluation, such as labels.
            keep_blobs: Whether both are records of blobs to be read; else new blobs are made.
            use_attribution: Free for programs to use.
        """
        super().__init__(name=name)
        self._layer_names: set[str] = set()
        self._layers: list[ModelLayer] = []
        self._init_parameters()
        self._init_training()
        self._init_records(input_feature_schema, trainer_extra_schema, keep_blobs)
        self._init_global_constants()
        self.param_init_net = self.create_init_net("param_init_net")
        self.use_attribution = use_attribution

    @property
    def layers(self) -> list[ModelLayer]:
        """The layers, in order."""
        return self._layers

    def next_layer_name(self, prefix: str) -> str:
        """A name that no layer has: the prefix in the name scope, with a number if it is taken."""
        base = core.ScopedName(prefix)
        name, count = base, 0
        while name in self._layer_names:
            name, count = f"{base}_auto_{count}", count + 1
        self._layer_names.add(name)
        return name

    def add_layer(self, layer: ModelLayer) -> Any:
        """Add a layer, and its operators to the model's nets; returns what it gives.

        Raises:
            ValueError: One of its parameters is something else than a parameter.
        """
        self._layers.append(layer)
        for param in layer.get_parameters():
            blob = getattr(param, "parameter", None)
            known = isinstance(param, layers.LayerParameter | ParameterInfo)
            if not known or not isinstance(blob, core.BlobReference):
                raise ValueError(f"a LayerParameter or ParameterInfo is needed, not {param!r}")
            self.param_to_optim[str(blob)] = param.optimizer or self.default_optimizer
            self.params.append(blob)
            if isinstance(param, layers.LayerParameter):
                self.param_to_reg[blob] = param.regularizer
        layer.add_operators(self.net, self.param_init_net)
        return layer.output_schema

    def get_parameter_blobs(self) -> list[Any]:
        """The parameters of all layers; shared ones once for each layer."""
        return [param.parameter for layer in self._layers for param in layer.get_parameters()]

    def _GetOne(self) -> Any:
        return self.global_constants["ONE"]

    def __getattr__(self, layer: str) -> Callable[..., Any]:
        if layer.startswith("_"):
            raise AttributeError(layer)
        operator = layer.removeprefix(_FUNCTIONAL)
        is_layer = layers.layer_exists(layer)
        if not is_layer and not core.IsOperator(operator):
            raise AttributeError(
                f"the model has no attribute {layer}, and no layer of that name is registered"
            )

        def make(*args: Any, **kwargs: Any) -> Any:
            reports_output = kwargs.pop("output_to_metrics", False)
            reports_params = kwargs.pop("params_to_metrics", False)
            if is_layer:
                made = layers.create_layer(layer, self, *args, **kwargs)
            else:
                kwargs.setdefault("name", operator)
                made = layers.create_layer("Functional", self, *args, function=_adding(operator), **kwargs)
            if reports_output:
                made.export_output_for_metrics()
            if reports_params:
                made.export_params_for_metrics()
            return self.add_layer(made)

        return make

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *layers.registered_layers()})


def _adding(operator: str) -> Callable[..., None]:
    """A function that adds an operator to a net, from all blobs of a record to all of another one."""

    def add(net: Any, in_record: Any, out_record: Any, **kwargs: Any) -> None:
        getattr(net, operator)(in_record.field_blobs(), out_record.field_blobs(), **kwargs)

    return add
