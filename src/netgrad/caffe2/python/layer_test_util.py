"""Helpers of test programs for layers."""
# ruff: noqa: PT009  the names that unittest's programs know

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from netgrad.caffe2.python import (
    core,
    layer_model_helper,
    layer_model_instantiator,
    schema,
    test_util,
    utils,
    workspace,
)


class _OpSpec(NamedTuple):
    type: str
    input: Any
    output: Any
    arg: Any


class OpSpec(_OpSpec):
    """What is expected of an operator.

    Attributes:
        type: Its type.
        input: Its inputs: names, of which None stands for any; or None for any inputs.
        output: Its outputs, likewise.
        arg: Its arguments, or None for any.
    """

    def __new__(cls, op_type: str, op_input: Any, op_output: Any, op_arg: Any = None) -> OpSpec:
        """Take type, inputs, outputs and arguments."""
        return super().__new__(cls, op_type, op_input, op_output, op_arg)


class LayersTestCase(test_util.TestCase):
    """A test case with a model of layers, ``self.model``, that has one column of features."""

    def setUp(self) -> None:
        """Start with an empty workspace and model."""
        super().setUp()
        self.setup_example()

    def setup_example(self) -> None:
        """Start anew, as hypothesis does before each example."""
        workspace.ResetWorkspace()
        self.reset_model()

    def reset_model(self, input_feature_schema: Any = None, trainer_extra_schema: Any = None) -> None:
        """Start with an empty model.

        Args:
            input_feature_schema: Its features; the column ``float_features`` if None.
            trainer_extra_schema: What it reads in training besides; nothing if None.
        """
        features = input_feature_schema or schema.Struct(
            ("float_features", schema.Scalar((np.float32, (32,))))
        )
        self.model = layer_model_helper.LayerModelHelper(
            "test_model",
            input_feature_schema=features,
            trainer_extra_schema=trainer_extra_schema or schema.Struct(),
        )

    def new_record(self, schema_obj: Any) -> Any:
        """A record of new blobs of the model."""
        return schema.NewRecord(self.model.net, schema_obj)

    # ---- nets --------------------------------------------------------------------------------------

    def get_training_nets(self, add_constants: bool = False) -> tuple[core.Net, core.Net]:
        """The nets that initialize and train, by the layers alone; also with the constants if asked for."""
        name = "train_init_net"
        init_net = self.model.create_init_net(name) if add_constants else core.Net(name)
        net = core.Net("train_net")
        for layer in self.model.layers:
            layer.add_operators(net, init_net)
        return init_net, net

    def get_eval_net(self) -> core.Net:
        """The net for evaluation."""
        return layer_model_instantiator.generate_eval_net(self.model)

    def get_predict_net(self) -> core.Net:
        """The net for predictions."""
        return layer_model_instantiator.generate_predict_net(self.model)

    def run_train_net(self) -> None:
        """Run the training net of a model without outputs once."""
        self.model.output_schema = schema.Struct()
        for net in layer_model_instantiator.generate_training_nets(self.model):
            workspace.RunNetOnce(net)

    def run_train_net_forward_only(self, num_iter: int = 1) -> None:
        """Run the training net of a model without outputs and without backward pass."""
        assert num_iter > 0, f"a net is run once or more, not {num_iter} times"
        self.model.output_schema = schema.Struct()
        init_net, net = layer_model_instantiator.generate_training_nets_forward_only(self.model)
        workspace.RunNetOnce(init_net)
        workspace.CreateNet(net)
        workspace.RunNet(net.Proto().name, num_iter=num_iter)

    # ---- assertions --------------------------------------------------------------------------------

    def assertBlobsEqual(self, spec_blobs: Any, op_blobs: Any) -> None:
        """Check blobs against expected ones; see `OpSpec`."""
        if spec_blobs is None:
            return
        self.assertEqual(len(spec_blobs), len(op_blobs))
        for expected, found in zip(spec_blobs, op_blobs, strict=True):
            if expected is not None:
                self.assertEqual(expected, found)

    def assertArgsEqual(self, spec_args: Any, op_args: Any) -> None:
        """Check an operator's arguments against a dictionary."""
        self.assertEqual(len(spec_args), len(op_args))
        for found in op_args:
            self.assertEqual(utils.MakeArgument(found.name, spec_args[found.name]), found)

    def assertNetContainOps(self, net: core.Net, op_specs: Sequence[OpSpec]) -> Any:
        """Check a net's operators, all of them and in order; returns them."""
        operators = net.Proto().op
        self.assertEqual([spec.type for spec in op_specs], [op.type for op in operators])
        for op, spec in zip(operators, op_specs, strict=True):
            self.assertBlobsEqual(spec.input, op.input)
            self.assertBlobsEqual(spec.output, op.output)
            if spec.arg is not None:
                self.assertArgsEqual(spec.arg, op.arg)
        return operators
