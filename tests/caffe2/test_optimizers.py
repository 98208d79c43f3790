# ruff: noqa: PT009  the assertions are those of unittest
"""Every optimizer on the models that the original's test programs train, and what is added to the nets."""

from __future__ import annotations

import unittest
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import brew, core, optimizer, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.initializers import PseudoFP16Initializer, ReversePseudoFP16Initializer
from netgrad.caffe2.python.optimizer_context import OptimizerContext, UseOptimizer
from netgrad.caffe2.python.optimizer_test_util import LRModificationTestBase, OptimizerTestBase
from netgrad.caffe2.python.test_util import TestCase

DENSE_ONLY = "no sparse gradients"
SPARSE_ONLY = "no dense gradients"

# rates with which 2,000 steps, example by example, find the weights; `test_training` has the other optimizers
KINDS: dict[str, tuple[str, dict[str, Any], str]] = {
    "Sgd": ("build_sgd", {"base_learning_rate": 0.1}, ""),
    "RowWiseAdam": ("build_adam", {"base_learning_rate": 0.1, "rowWise": True}, SPARSE_ONLY),
    "YellowFin": ("build_yellowfin", {"base_learning_rate": 0.1}, DENSE_ONLY),
    "DecayAdagrad": ("build_decay_adagrad", {"base_learning_rate": 1.0}, ""),
    "Wngrad": ("build_wngrad", {"base_learning_rate": 25.0}, DENSE_ONLY),
}


def _case(name: str) -> type:
    build, arguments, only = KINDS[name]

    def build_optimizer(self: Any, model: Any, **kwargs: Any) -> Any:
        return getattr(optimizer, build)(model, **arguments, **kwargs)

    def check_optimizer(self: Any, built: Any) -> None:
        state = built.get_auxiliary_parameters()
        self.assertTrue(state.shared or state.local)
        for blob in (*state.shared, *state.local):
            self.assertTrue(np.isfinite(workspace.FetchBlob(blob)).all(), blob)

    def skipped(self: Any) -> None:
        raise unittest.SkipTest(only)

    members: dict[str, Any] = {"build_optimizer": build_optimizer, "check_optimizer": check_optimizer}
    if only == DENSE_ONLY:
        members["testSparse"] = skipped
    dense = only != SPARSE_ONLY
    if not dense:
        members["testDense"] = skipped
    modified = (LRModificationTestBase,) if name == "Sgd" else ()
    return type(f"Test{name}", (OptimizerTestBase, *modified, TestCase), members)


globals().update({f"Test{name}": _case(name) for name in KINDS})


def _convolution_and_layers() -> tuple[ModelHelper, list[str]]:
    """A model whose layers' optimizers are those in force, and the names of its weights' gradients."""
    model = ModelHelper(name="test")
    with UseOptimizer(optimizer.SgdOptimizer(0.15)):
        image = brew.conv(model, "data", "cnv", 32, 32, 4)
    with UseOptimizer({"WEIGHT": optimizer.SgdOptimizer(0.2), "BIAS": optimizer.SgdOptimizer(0.1)}):
        hidden = brew.fc(model, image, "a", 100, 200)
    scores = brew.fc(model, hidden, "b", 200, 5)
    _, loss = model.SoftmaxWithLoss([scores, "label"], ["softmax", "loss"])
    model.AddGradientOperators([loss])
    return model, ["cnv_w_grad", "a_w_grad", "b_w_grad"]


def test_weights_decay_and_biases_do_not() -> None:
    model, grads = _convolution_and_layers()
    optimizer.add_weight_decay(model, weight_decay=1e-4)
    optimizer.build_sgd(model, 0.11)
    decayed = [op.output[0] for op in model.net.Proto().op if "wd_0_0" in op.input]
    assert sorted(decayed) == sorted(grads)


def test_optimizers_of_blocks_and_tags() -> None:
    optimizer.reset_optimizer_instance_count()
    model, _ = _convolution_and_layers()
    optimizer.build_sgd(model, 0.11)
    rates = {op.output[0]: round(op.arg[0].f, 6) for op in model.net.Proto().op if op.type == "LearningRate"}
    assert rates == {
        "SgdOptimizer_0_lr_cpu": -0.15,
        "SgdOptimizer_1_lr_cpu": -0.2,
        "SgdOptimizer_2_lr_cpu": -0.1,
        "SgdOptimizer_3_lr_cpu": -0.11,
    }
    updates = {op.output[0]: op.input[-1] for op in model.net.Proto().op if op.type == "WeightedSum"}
    assert updates["a_b"] == "SgdOptimizer_2_lr_cpu"
    assert optimizer._optimizer_instance_count["SgdOptimizer"] == 4


def test_inner_blocks_come_first() -> None:
    context = OptimizerContext.current()
    with UseOptimizer({"BIAS": "outer", "WEIGHT": "w"}):
        with UseOptimizer({"BIAS": "inner"}):
            assert [context.get_optimizer(name) for name in ("BIAS", "WEIGHT")] == ["inner", "w"]
        assert context.get_optimizer("BIAS") == "outer"
    assert not context.has_optimizer("BIAS")
    with pytest.raises(AssertionError, match="BIAS optimizer is not provided"):
        context.get_optimizer("BIAS")


def _embedding(**arguments: Any) -> tuple[ModelHelper, Any]:
    model = ModelHelper("embedding")
    table = model.param_init_net.ConstantFill([], "table", shape=[6, 2], value=1.0)
    model.AddParameter(table)
    model.net.SparseLengthsSum([table, "indices", "lengths"], "y")
    model.AddGradientOperators([model.net.SumElements("y", "loss")])
    built = optimizer.build_adagrad(model, 0.1, **arguments)
    workspace.FeedBlob("indices", np.array([0, 2, 2], np.int64))
    workspace.FeedBlob("lengths", np.array([3], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    return model, built


def test_rows_are_counted() -> None:
    """Each of two runs has row 0 once, row 2 twice; half of a count is forgotten in one iteration."""
    model, _ = _embedding(rowWise=True, weight_decay=0.5, counter_halflife=1)
    for _ in range(2):
        workspace.RunNet(model.net)
    np.testing.assert_allclose(workspace.FetchBlob("table_update_counter"), [1.5, 0, 3.0, 0, 0, 0])
    np.testing.assert_array_equal(workspace.FetchBlob("table_prev_update_iter"), [2, 0, 2, 0, 0, 0])
    (update,) = (op for op in model.net.Proto().op if op.type == "RowWiseSparseAdagrad")
    assert list(update.input)[-1] == "table_update_counter"


def test_weights_are_scaled() -> None:
    scale = SimpleNamespace(stepsize=1, upper_bound_iter=100, scale=0.5, to_aux=True)
    model, _ = _embedding(weight_scale=scale)
    workspace.RunNet(model.net)
    np.testing.assert_array_equal(workspace.FetchBlob("table")[1], [0.5, 0.5])
    assert [op.type for op in model.net.Proto().op].count("WeightScale") == 2


def test_what_adagrad_does_not_have() -> None:
    with pytest.raises(NotImplementedError, match="pruning_options, ema_options"):
        optimizer.AdagradOptimizer(pruning_options={"prune_delays": [1]}, ema_options={"ema_alpha": 0.1})
    with pytest.raises(NotImplementedError, match="use_smart_decay does not go with rowWise"):
        optimizer.AdamOptimizer(use_smart_decay=True, rowWise=True)


def test_smart_decay_and_adapted_rates_run() -> None:
    for build, arguments in [("dense", {"use_lr_adaption": True}), ("sparse", {"use_smart_decay": True})]:
        workspace.ResetWorkspace()
        model = ModelHelper(build)
        table = model.param_init_net.ConstantFill([], "w", shape=[4, 2], value=1.0)
        model.AddParameter(table)
        read = model.net.Sqr(table, "y") if build == "dense" else model.net.Gather([table, "i"], "y")
        model.AddGradientOperators([model.net.SumElements(read, "loss")])
        optimizer.build_adam(model, 0.1, **arguments)
        workspace.FeedBlob("i", np.array([1, 1], np.int64))
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net)
        workspace.RunNet(model.net)
        changed = workspace.FetchBlob("w") < 1
        assert changed.all() if build == "dense" else changed[1].all()
        if build == "dense":
            (rate,) = (op.output[0] for op in model.net.Proto().op if op.type == "LearningRate")
            assert workspace.FetchBlob(rate) == pytest.approx(-0.1 * (1 - 0.01), rel=1e-5)  # all slopes agree
        else:
            np.testing.assert_array_equal(workspace.FetchBlob("w_last_seen"), [0, 2, 0, 0])


@pytest.mark.parametrize(
    ("build", "initializer"),
    [
        ("build_multi_precision_sgd", PseudoFP16Initializer),
        ("build_fp16_sgd", PseudoFP16Initializer),
        ("build_fp16_sgd", ReversePseudoFP16Initializer),
    ],
)
def test_half_precision(build: str, initializer: Any) -> None:
    """One step of half-precision weights, and of their float copies if these are what is updated."""
    model = ModelHelper("half")
    half_read = initializer is PseudoFP16Initializer
    brew.fc(
        model,
        "x",
        "y",
        2,
        1,
        ("ConstantFill", {"value": 1.0}),
        ("ConstantFill", {"value": 1.0}),
        WeightInitializer=initializer,
        BiasInitializer=initializer,
    )
    out = model.net.HalfToFloat("y", "wide") if half_read else "y"
    model.AddGradientOperators([model.net.SumElements(out, "loss")])
    kind = np.float16 if half_read else np.float32
    workspace.FeedBlob("x", np.array([[1, 2]], kind))
    workspace.RunNetOnce(model.param_init_net)
    arguments = {"weight_decay": 0.0} if build == "build_fp16_sgd" else {}
    if initializer is ReversePseudoFP16Initializer:
        model.net.FloatToHalf("y_w_grad", "y_w_grad_half")
        info = model.get_param_info("y_w")
        assert info is not None
        info.grad = core.BlobReference("y_w_grad_half")
        update = optimizer.FP16SgdOptimizer(0.25, **arguments)
        update(model.net, model.param_init_net, info)
        updated = "y_w_fp16"
    else:
        getattr(optimizer, build)(model, 0.25, **arguments)
        updated = "y_w"
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    after = workspace.FetchBlob(updated)
    assert after.dtype == np.float16
    np.testing.assert_array_equal(after, [[0.75, 0.5]])
    if build == "build_multi_precision_sgd":
        np.testing.assert_array_equal(workspace.FetchBlob("y_w_fp32"), [[0.75, 0.5]])


def test_parameters_with_one_gradient_are_updated_alike() -> None:
    """Momentum leaves its step in the gradient's blob (W29)."""
    model = ModelHelper("shares")
    for name in ("a", "b", "t", "u"):
        model.param_init_net.ConstantFill([], name, shape=[2], value=1.0)
        model.AddParameter(core.BlobReference(name))
    workspace.FeedBlob("rows", np.array([1, 0], np.int32))
    total = model.net.Sum(["a", "b", model.net.Gather(["t", "rows"]), model.net.Gather(["u", "rows"])])
    gradients = model.AddGradientOperators([model.net.SumElements(total, "loss")])
    assert len({str(gradients[name]) for name in ("a", "b")}) == 2
    assert len({str(gradients[name].values) for name in ("t", "u")}) == 2
    optimizer.build_sgd(model, base_learning_rate=0.1, momentum=0.9, policy="fixed")
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    workspace.RunNet(model.net, 2)
    # The gradient is 1. Nesterov's momentum is 0.1, then 0.19; the steps are 1.9 of it less 0.9 of the last.
    for name in ("a", "b"):
        np.testing.assert_allclose(workspace.FetchBlob(name), [1 - 0.19 - 0.271] * 2, rtol=1e-6)
    np.testing.assert_array_equal(workspace.FetchBlob("t"), workspace.FetchBlob("u"))
    assert workspace.FetchBlob("t")[0] < 1
