"""Models of layers: names, constants, records, shared parameters, what training adds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, layer_model_instantiator, schema, scope, workspace
from netgrad.caffe2.python.layers.layers import (
    InstantiationContext,
    LayerParameter,
    ModelLayer,
    is_request_only_scalar,
    register_layer,
    set_request_only,
)
from netgrad.caffe2.python.layers.tags import TagContext, Tags
from netgrad.caffe2.python.modeling.compute_norm_for_blobs import ComputeNormForBlobs
from netgrad.caffe2.python.modeling.gradient_clipping import GradientClipping
from netgrad.caffe2.python.modeling.parameter_sharing import ParameterSharing
from netgrad.caffe2.python.optimizer import AdagradOptimizer, AdamOptimizer, SgdOptimizer
from netgrad.caffe2.python.regularizer import BoundedGradientProjection, L2Norm
from tests.caffe2.layers.models import fed, model, normal, train, types, value


def test_names_of_layers_and_parameters() -> None:
    made = model()
    x = fed(made, x=normal(2, 3)).x
    with scope.NameScope("a"):
        first, second = made.FC(x, 2), made.FC(x, 2)
    assert [layer.name for layer in made.layers] == ["a/fc", "a/fc_auto_0"]
    assert [str(first()), str(second())] == ["a/fc/output", "a/fc_auto_0/output"]
    assert [str(blob) for blob in made.get_parameter_blobs()] == [
        f"a/{layer}/{param}" for layer in ("fc", "fc_auto_0") for param in "wb"
    ]


def test_constants() -> None:
    made = model()
    made.add_global_constant("texts", ["a", "b"])
    made.add_global_constant("flags", [True, False])
    made.add_global_constant("whole", 3)
    made.add_global_constant(
        "own", initializer=lambda blob: core.CreateOperator("UniformFill", [], blob, shape=[2])
    )
    workspace.RunNetOnce(made.create_init_net("init"))
    found = {name: workspace.FetchBlob(blob) for name, blob in made.global_constants.items()}
    assert found["texts"].tolist() == [b"a", b"b"]
    assert found["flags"].tolist() == [True, False]
    assert (found["whole"], found["whole"].dtype) == (3, np.int64)
    assert (found["ONE"], found["ZERO"], found["ONE"].dtype) == (1, 0, np.float32)
    assert np.isnan(found["NAN"])
    assert found["own"].shape == (2,)
    assert made.maybe_add_global_constant("whole", 3) == made.global_constants["whole"]
    with pytest.raises(AssertionError, match="can't be made by"):
        made.maybe_add_global_constant("whole", 4)
    with pytest.raises(AssertionError, match="there is a constant"):
        made.add_global_constant("whole", 3)


def test_losses_and_records_of_a_model() -> None:
    made = model()
    made.loss = schema.Scalar((np.float32, ()), core.BlobReference("first"))
    for _ in range(2):
        made.add_loss(schema.Scalar((np.float32, ()), core.BlobReference("more")), "more")
    assert list(made.loss.fields) == ["unnamed", "more", "more_auto_0"]
    made.add_output_schema("a", schema.Scalar(np.float32))
    made.add_output_schema("b", schema.Struct())
    assert list(made.output_schema.fields) == ["a", "b"]
    with pytest.raises(AssertionError, match="there is an output a already"):
        made.add_output_schema("a", schema.Struct())
    made.clear_output_schema()
    with pytest.raises(AssertionError, match="output_schema"):
        _ = made.output_schema
    for name in ("a:b", "a:c", "d"):
        made.add_metric_field(name, schema.Scalar())
    made.filter_metrics_schema({"a:b", "d"})
    assert made.metrics_schema.field_names() == ["a:b", "d"]
    made.breakdown_map = {"f": 1, "g": 0}
    with pytest.raises(AssertionError, match="numbered from 0"):
        made.breakdown_map = {"f": 1}


def test_parameters_that_scopes_share() -> None:
    made = model()
    x = fed(made, x=normal(2, 3)).x
    made.default_optimizer = AdagradOptimizer(alpha=0.1)
    others = ["second", "third", "fourth", "fifth", "sixth"]
    with scope.NameScope("top"), ParameterSharing(dict.fromkeys(others, "first")):
        with scope.NameScope("first"):
            one = made.FC(x, 2)
        with scope.NameScope("second"):
            other = made.FC(x, 2, weight_optim=AdagradOptimizer(alpha=0.1))
        with scope.NameScope("third"), pytest.raises(ValueError, match="inconsistent shapes"):
            made.FC(x, 3)
        wrong = (made.NoOptim, AdamOptimizer(), AdagradOptimizer(alpha=0.2))
        for name, optimizer in zip(others[2:], wrong, strict=True):
            with scope.NameScope(name), pytest.raises(AssertionError, match="shared"):
                made.FC(x, 2, weight_optim=optimizer)
    assert [str(layer.w) for layer in made.layers] == ["top/first/fc/w"] * 2
    train(made)
    np.testing.assert_array_equal(value(one), value(other))


def test_shared_parameters_start_once() -> None:
    made = model()
    x = fed(made, x=normal(2, 3)).x
    with ParameterSharing({"other": "one"}):
        made.FC(x, 2, name="one")
        made.FC(x, 2, name="other")
    init_net = core.Net("init")
    for layer in made.layers:
        layer.add_operators(core.Net("net"), init_net)
    assert sorted(op.output[0] for op in init_net.Proto().op) == ["one/b", "one/w"]


def test_a_model_learns() -> None:
    made = model()
    x = normal(64, 3)
    record = fed(made, x=x, label=x @ np.array([1.0, -2.0, 0.5], np.float32) + 0.25)
    made.default_optimizer = SgdOptimizer(0.3)
    hidden = made.FC(record.x, 1)
    loss = made.BatchMSELoss(schema.Struct(("label", record.label), ("prediction", hidden)))
    made.add_loss(loss)
    net = train(made)
    workspace.RunNet(net, num_iter=200)
    np.testing.assert_allclose(workspace.FetchBlob("fc/w"), [[1.0, -2.0, 0.5]], atol=1e-3)
    np.testing.assert_allclose(workspace.FetchBlob("fc/b"), [0.25], atol=1e-3)


def test_what_training_adds() -> None:
    made = model()
    record = fed(made, x=np.ones((4, 3), np.float32))
    output = made.FC(
        record.x,
        1,
        weight_init=("ConstantFill", {"value": 1.0}),
        bias_init=("ConstantFill", {"value": 0.0}),
        weight_optim=SgdOptimizer(0.5),
        bias_optim=made.NoOptim,
        weight_reg=L2Norm(0.25),
        bias_reg=BoundedGradientProjection(lb=0.125),
    )
    made.add_loss(made.ReduceFrontMean(output, 1))
    made.add_post_grad_net_modifiers(ComputeNormForBlobs(["fc/w"], 0))
    with pytest.raises(AssertionError, match="NetModifier"):
        made.add_final_net_modifiers("modifier")
    net = train(made)
    # the slope of the mean is 1, and that of the regularizer 0.25 * 2 * 1
    np.testing.assert_allclose(workspace.FetchBlob("fc/w"), np.full((1, 3), 1 - 0.5 * 1.5), rtol=1e-6)
    np.testing.assert_allclose(workspace.FetchBlob("fc/b"), [0.125])
    assert "fc/w_l2_norm" in net.output_record().field_names()


def test_a_parameter_without_an_optimizer_is_refused() -> None:
    made = model()
    made.add_loss(made.SumElements(made.FC(fed(made, x=normal(2, 3)).x, 2), 1))
    made.output_schema = schema.Struct()
    with pytest.raises(AssertionError, match="default_optimizer"):
        layer_model_instantiator.generate_training_nets(made)


def test_clipped_gradients() -> None:
    made = model()
    record = fed(made, x=np.full((1, 4), 3.0, np.float32))
    made.default_optimizer = SgdOptimizer(1.0)
    output = made.FCWithoutBias(record.x, 1, weight_init=("ConstantFill", {"value": 0.0}))
    made.add_loss(made.SumElements(output, 1))
    made.add_post_grad_net_modifiers(
        GradientClipping("by_norm", "l2_norm", clip_threshold=2.0, use_parameter_norm=False)
    )
    train(made)
    np.testing.assert_allclose(workspace.FetchBlob("fc_without_bias/w"), [[-1.0] * 4], rtol=1e-5)


def test_seeds() -> None:
    made = model()
    made.FC(fed(made, x=normal(2, 3)).x, 2)
    made.store_seed(5)
    made.apply_seed(made.param_init_net)
    seeds = [op.device_option.random_seed for op in made.param_init_net.Proto().op]
    assert seeds == list(range(5, 5 + len(seeds)))


def test_metrics_of_a_layer() -> None:
    made = model()
    record = fed(made, x=normal(2, 3))
    made.FC(record.x, 2, output_to_metrics=True, params_to_metrics=True)
    net = train(made)
    copied = made.metrics_schema["fc/w"]()
    np.testing.assert_array_equal(workspace.FetchBlob(copied), workspace.FetchBlob("fc/w"))
    assert set(net.output_record().field_names()) == {"fc/output", "fc/w", "fc/b"}


def test_operators_as_layers() -> None:
    made = model()
    x = normal(4, 5)
    record = fed(made, x=x)
    soft = made.Softsign(record, 1)
    assert soft.field_type() == np.dtype((np.float32, (5,)))
    top = made.TopK(record, ["best", "where"], k=2)
    assert [str(blob) for blob in top.field_blobs()] == ["TopK/best", "TopK/where"]
    assert top.best.field_type().shape == (2,)
    mean = made.AveragedLoss(record, 1, output_dtypes=(np.float32, (1,)))
    assert mean.field_type().shape == (1,)
    left, right = made.FunctionalLayerSplit(record, 2, axis=1, split=[1, 4])

    def twice(net: Any, given: Any, output: Any, factor: float) -> None:
        net.Scale(given(), output(), scale=factor)

    doubled = made.Functional(soft, 1, twice, factor=2.0)
    train(made)
    np.testing.assert_allclose(value(soft), x / (1 + np.abs(x)), rtol=1e-5)
    np.testing.assert_allclose(value(doubled), 2 * x / (1 + np.abs(x)), rtol=1e-5)
    np.testing.assert_array_equal(value(top.best), -np.sort(-x, 1)[:, :2])
    np.testing.assert_array_equal(value(left), x[:, :1])
    np.testing.assert_array_equal(value(right), x[:, 1:])
    with pytest.raises(AttributeError, match="NoSuchLayer"):
        _ = made.NoSuchLayer


class _Shifted(ModelLayer):
    """A layer of a script, which adds more in training."""

    def __init__(self, model: Any, input_record: Any, name: str = "shifted", **kwargs: Any) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def _add(self, net: Any, number: float) -> None:
        one = net.ConstantFill([], 1, shape=[1], value=number)
        net.Add([self.input_record(), one], self.output_schema())

    def add_ops(self, net: Any) -> None:
        self._add(net, 1.0)

    def add_eval_ops(self, net: Any) -> None:
        self._add(net, 2.0)

    def add_train_ops(self, net: Any) -> None:
        self._add(net, 3.0)


def test_layers_of_scripts() -> None:
    register_layer("Shifted", _Shifted)
    with pytest.raises(AssertionError, match="already exists"):
        register_layer("Shifted", _Shifted)
    made, x = model(), normal(3)
    output = made.Shifted(fed(made, x=x).x)
    made.output_schema = schema.Struct(("output", output))
    train(made)
    np.testing.assert_allclose(value(output), x + 3, rtol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_eval_net(made))
    np.testing.assert_allclose(value(output), x + 2, rtol=1e-6)
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    np.testing.assert_allclose(value(output), x + 1, rtol=1e-6)
    with pytest.raises(AssertionError, match="init_net"):
        made.layers[0].add_operators(core.Net("net"))


def test_tags_say_which_nets_a_layer_is_in() -> None:
    made, x = model(), normal(2, 3)
    record = fed(made, x=np.abs(x))
    with Tags(Tags.EXCLUDE_FROM_PREDICTION), Tags("own"):
        logs = made.Log(record, 1)
    assert TagContext.current().tags == []
    assert made.layers[0].tags == {Tags.EXCLUDE_FROM_PREDICTION, "own"}
    joined = made.SelectRecordByContext(
        schema.Struct(
            (InstantiationContext.PREDICTION, record.x),
            (InstantiationContext.TRAINING, logs),
            (InstantiationContext.EVAL, logs),
        )
    )
    made.output_schema = schema.Struct(("joined", joined), ("logs", logs))
    workspace.RunNetOnce(layer_model_instantiator.generate_predict_net(made))
    np.testing.assert_array_equal(value(joined), np.abs(x))
    train(made)
    np.testing.assert_allclose(value(joined), np.log(np.abs(x)), rtol=1e-5)
    assert types(layer_model_instantiator.generate_eval_net(made, include_tags=["own"])) == ["Log"]
    with pytest.raises(AssertionError, match="no default_output_record_field"):
        made.layers[1].add_ops_to_accumulate_pred(core.Net("net"))


def test_what_is_only_known_of_a_request() -> None:
    made = model()
    record = fed(made, a=normal(2, 3), b=normal(2, 3))
    set_request_only(record)
    assert is_request_only_scalar(made.Concat(record))
    assert not is_request_only_scalar(made.Concat(record + fed(made, c=normal(2, 3))))


def test_shapes_of_parameters() -> None:
    blob = core.BlobReference("w")
    values = core.CreateOperator("GivenTensorFill", [], blob, values=[1.0, 2.0], shape=[2])
    assert LayerParameter(blob, initializer=values).shape == [2]
    like = core.CreateOperator("GivenTensorInt64Fill", [], blob, values=[1, 2, 3])
    assert LayerParameter(blob, initializer=like).shape is None  # it is refused: there is no shape
    scalar = core.CreateOperator("ConstantFill", [], blob, value=1.0)
    assert LayerParameter(blob, initializer=scalar).shape == []
    assert LayerParameter(blob, initializer=core.CreateOperator("CreateMutex", [], blob)).shape is None
    with pytest.raises(AssertionError, match="and can't become"):
        LayerParameter(blob, initializer=values).shape = [3]
    with pytest.raises(AssertionError, match="a parameter is a reference"):
        LayerParameter("w")
