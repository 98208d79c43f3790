"""The class that all layers derive from."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import schema, scope, utils
from netgrad.caffe2.python.layers.parameter import LayerParameter
from netgrad.caffe2.python.layers.records import is_request_only_scalar, set_request_only
from netgrad.caffe2.python.layers.tags import TagContext


class InstantiationContext:
    """What the net is for that a layer adds its operators to."""

    ACCUMULATE_PRED = "accumulate_pred"
    EVAL = "eval"
    PREDICTION = "prediction"
    TRAINING = "training"


_WITHOUT_INITIALIZATION = (
    InstantiationContext.PREDICTION,
    InstantiationContext.EVAL,
    InstantiationContext.ACCUMULATE_PRED,
)


class ModelLayer:
    """A part of a model that has its parameters, and adds operators to one net after the other.

    Which operators may differ between the nets for training, for evaluation and for prediction. A layer
    derives from this class, makes its parameters and sets ``output_schema`` when it is made, and has
    `add_ops`, and also `add_eval_ops` and `add_train_ops` where these differ.

    Attributes:
        name: Its name, with the name scope; blobs that it makes are inside of it.
        model: The model.
        kwargs: Further arguments.
        params: Its parameters.
        tags: Its tags, those in force included.
        request_only: Whether all that it reads is marked as known of a request as a whole.
        precomputation_request_only: Free for programs to use.
        precomputation_object_only: Free for programs to use.
        eval_output_schema: Free for programs to use.
    """

    def __init__(
        self,
        model: Any,
        prefix: str,
        input_record: Any,
        predict_input_record_fields: Any = None,
        tags: Any = None,
        **kwargs: Any,
    ) -> None:
        """Start a layer.

        Args:
            model: The model.
            prefix: Its name, which gets the name scope, and a number where it is taken.
            input_record: What it reads.
            predict_input_record_fields: The field or fields that it reads for predictions; None for all.
            tags: Its tags besides those in force.
            **kwargs: Free for layers to use.
        """
        self.name: str = model.next_layer_name(prefix)
        self.model = model
        self.kwargs = kwargs
        self._input_record = input_record
        self._predict_input_record: Any = None
        if predict_input_record_fields:
            fields = predict_input_record_fields
            self._predict_input_record = input_record[fields if isinstance(fields, list) else [fields]]
        scalars = input_record.all_scalars()
        self.request_only = bool(scalars) and all(is_request_only_scalar(scalar) for scalar in scalars)
        self.precomputation_request_only = False
        self.precomputation_object_only = False
        self._output_schema: Any = None
        self._predict_output_schema: Any = None
        self.eval_output_schema: Any = None
        self.tags: set[str] = {*(tags or ()), *TagContext.current().tags}
        self.params: list[LayerParameter] = []
        self._export_output_for_metrics = False
        self._export_params_for_metrics = False

    def get_type(self) -> str:
        """The name of its class."""
        return type(self).__name__

    # ---- what it reads and gives -------------------------------------------------------------------

    @property
    def input_record(self) -> Any:
        """What it reads."""
        return self._input_record

    @property
    def predict_input_record(self) -> Any:
        """What it reads for predictions."""
        return self._predict_input_record or self._input_record

    @property
    def output_schema(self) -> Any:
        """What it gives; set once."""
        assert self._output_schema is not None, f"the layer {self.name} has not said what it gives"
        if self.request_only:
            set_request_only(self._output_schema)
        self._check_output_schema()
        return self._output_schema

    @output_schema.setter
    def output_schema(self, output_schema: Any) -> None:
        assert self._output_schema is None, f"what the layer {self.name} gives is set once"
        self._output_schema = output_schema

    @property
    def predict_output_schema(self) -> Any:
        """What it gives for predictions, a part of ``output_schema``; set once."""
        self._check_output_schema()
        return self._predict_output_schema or self._output_schema

    @predict_output_schema.setter
    def predict_output_schema(self, output_schema: Any) -> None:
        assert self._predict_output_schema is None, f"what the layer {self.name} predicts is set once"
        self._predict_output_schema = output_schema

    def _check_output_schema(self) -> None:
        assert self._output_schema is not None, f"the layer {self.name} has not said what it gives"
        part = self._predict_output_schema
        assert part is None or schema.is_schema_subset(part, self._output_schema), (
            f"the layer {self.name} has fields for predictions that its output_schema has not"
        )

    # ---- what is known of it -----------------------------------------------------------------------

    def get_parameters(self) -> list[LayerParameter]:
        """Its parameters."""
        return self.params

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """Those of its parameters that may be in half precision."""
        return []

    def get_memory_usage(self) -> int:
        """How much memory its large tables take."""
        return 0

    def get_accessed_features(self) -> dict[str, Any]:
        """Field to the features that it reads of it."""
        return {}

    # ---- making blobs ------------------------------------------------------------------------------

    def create_param(
        self,
        param_name: Any,
        shape: Any,
        initializer: Any,
        optimizer: Any,
        ps_param: Any = None,
        regularizer: Any = None,
    ) -> Any:
        """Make a parameter; see the model's ``create_param``.

        Returns:
            A reference to it.

        Raises:
            AssertionError: The layer has that parameter.
        """
        with scope.NameScope(self.name, reset=True):
            param = self.model.create_param(
                param_name=param_name,
                shape=shape,
                initializer=initializer,
                optimizer=optimizer,
                ps_param=ps_param,
                regularizer=regularizer,
            )
        assert all(param.parameter != known.parameter for known in self.params), (
            f"the layer {self.name} has a parameter {param} already"
        )
        self.params.append(param)
        return param.parameter

    def get_next_blob_reference(self, name: str) -> Any:
        """A new blob inside of the layer's name."""
        with scope.NameScope(self.name, reset=True):
            return self.model.net.NextScopedBlob(name)

    # ---- adding operators --------------------------------------------------------------------------

    def add_init_params(self, init_net: Any) -> None:
        """Add the operators that write the parameters first, but for those that are there."""
        device = scope.CurrentDeviceScope()
        for param in self.params:
            if param.initializer is None:
                continue
            op = OperatorDef()
            op.CopyFrom(param.initializer)
            if not op.HasField("device_option") and device is not None:
                op.device_option.CopyFrom(device)
            if not any(utils.OpAlmostEqual(known, op, "debug_info") for known in init_net.Proto().op):
                init_net.extend_ops([op])

    def add_operators(
        self, net: Any, init_net: Any = None, context: str = InstantiationContext.TRAINING
    ) -> None:
        """Add the layer's operators.

        Args:
            net: Where they go.
            init_net: Where those go that write parameters first; needed for training only.
            context: What the net is for, one of the values of `InstantiationContext`.
        """
        with scope.NameScope(self.name):
            assert init_net or context in _WITHOUT_INITIALIZATION, (
                f"parameters start somewhere: the context {context} needs an init_net"
            )
            if init_net:
                self.add_init_params(init_net)
            add = {
                InstantiationContext.TRAINING: self.add_train_ops,
                InstantiationContext.EVAL: self.add_eval_ops,
                InstantiationContext.ACCUMULATE_PRED: self.add_ops_to_accumulate_pred,
            }.get(context, self.add_ops)
            add(net)
            copied = (InstantiationContext.TRAINING, InstantiationContext.EVAL)
            if self._export_params_for_metrics and context in copied:
                self.add_param_copy_operators(net)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        raise NotImplementedError(f"the layer {self.get_type()} doesn't say what its operators are")

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators for evaluation; those for predictions, unless a layer says otherwise."""
        self.add_ops(net)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training; those for evaluation, unless a layer says otherwise."""
        self.add_eval_ops(net)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        """Add the operators for predictions that are collected; those for evaluation, likewise."""
        self.add_eval_ops(net)

    # ---- metrics -----------------------------------------------------------------------------------

    def add_param_copy_operators(self, net: Any) -> None:
        """Add the copies of parameters that metrics report."""
        for param in self.params:
            net.Copy([param.parameter], self.model.metrics_schema[str(param.parameter)].field_blobs())

    def export_output_for_metrics(self) -> None:
        """Let metrics report what the layer gives."""
        self._export_output_for_metrics = True
        self.model.add_metric_field(f"{self.name}/output", self.output_schema)

    def export_params_for_metrics(self) -> None:
        """Let metrics report copies of the parameters."""
        self._export_params_for_metrics = True
        for param in self.params:
            copied = self.get_next_blob_reference(str(param).rpartition("/")[2] + "_copy")
            self.model.add_metric_field(str(param.parameter), copied)
