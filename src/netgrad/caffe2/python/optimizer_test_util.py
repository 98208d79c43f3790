"""Tests that every optimizer passes: classes to derive test cases from.

A test case of an optimizer derives from `OptimizerTestBase` (and `LRModificationTestBase`) and
``unittest.TestCase``, and has two methods: ``build_optimizer(model, **kwargs)`` adds the updates and returns
the optimizer, and ``check_optimizer(optimizer)`` asserts something of its state after 2,000 steps.
"""
# ruff: noqa: PT009  the assertions are those of unittest

from __future__ import annotations

import unittest
from typing import TYPE_CHECKING, Any

import numpy as np

from netgrad.caffe2.python import brew, core, optimizer, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.initializers import Initializer, PseudoFP16Initializer

_STEPS = 2000
_PERFECT = np.array([2, 6, 5, 0, 1], np.float32)  # the weights that the data come from


if TYPE_CHECKING:  # what the test case that derives from a class here is besides
    _Case = unittest.TestCase
else:
    _Case = object


class OptimizerTestBase(_Case):
    """Tests that a linear model is found, by dense and by sparse gradients."""

    build_optimizer: Any
    check_optimizer: Any
    _skip_gpu = True

    def _createDense(self, dtype: int = core.DataType.FLOAT) -> tuple[ModelHelper, Any, Any, Any]:
        """A layer of five weights with its loss and gradients; the perfect weights, the data, the labels."""
        half = dtype == core.DataType.FLOAT16
        np.random.seed(123)
        kind = np.float16 if half else np.float32
        data: Any = np.random.randint(2, size=(20, _PERFECT.size)).astype(kind)
        label = (data @ _PERFECT)[:, np.newaxis]
        initializer = PseudoFP16Initializer if half else Initializer
        model = ModelHelper(name="test", arg_scope={"order": "NCHW"})
        out = brew.fc(
            model,
            "data",
            "fc",
            _PERFECT.size,
            1,
            ("ConstantFill", {}),
            ("ConstantFill", {}),
            axis=0,
            WeightInitializer=initializer,
            BiasInitializer=initializer,
        )
        if half:
            out = model.HalfToFloat(out, out + "_fp32")
        distance = model.SquaredL2Distance([out, "label"])
        loss = model.AveragedLoss(distance, "avg_loss")
        gradients = model.AddGradientOperators([loss])
        self.assertIsInstance(gradients["fc_w"], core.BlobReference)
        return model, _PERFECT, data, label

    def testDense(self) -> None:
        """Examples one by one, in a random order."""
        model, perfect, data, label = self._createDense()
        built = self.build_optimizer(model)
        workspace.FeedBlob("data", data[0])
        workspace.FeedBlob("label", label[0])
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net, True)
        for _ in range(_STEPS):
            at = np.random.randint(data.shape[0])
            workspace.FeedBlob("data", data[at])
            workspace.FeedBlob("label", label[at])
            workspace.RunNet(model.net.Proto().name)
        np.testing.assert_allclose(perfect[np.newaxis, :], workspace.FetchBlob("fc_w"), atol=1e-2)
        self.check_optimizer(built)

    @unittest.skipIf(not workspace.has_gpu_support, "No gpu support")
    def testGPUDense(self, dtype: int = core.DataType.FLOAT) -> None:
        """The model on a graphics device, with a layer on the processor behind it."""
        with core.DeviceScope(core.DeviceOption(workspace.GpuDeviceType, 0)):
            model, _, data, label = self._createDense(dtype)
            model.CopyGPUToCPU("fc", "fc_cpu")
            workspace.FeedBlob("data", data[0])
            workspace.FeedBlob("label", label[0])
        brew.fc(model, "fc_cpu", "fc2", dim_in=1, dim_out=10, axis=0)
        self.build_optimizer(model)
        if not self._skip_gpu:
            workspace.RunNetOnce(model.param_init_net)
            workspace.CreateNet(model.net, True)
            workspace.RunNet(model.net.Proto().name)

    def testSparse(self) -> None:
        """Sums of looked-up weights, each of which may occur twice, by indices of both types."""
        twice = 2
        np.random.seed(123)
        data = np.random.randint(2, size=(20, _PERFECT.size * twice)).astype(np.float32)
        label = data @ np.repeat(_PERFECT, twice)
        model = ModelHelper(name="test", arg_scope={"order": "NCHW"})
        weights = model.param_init_net.ConstantFill([], "w", shape=[_PERFECT.size], value=0.0)
        model.AddParameter(weights)
        picked = model.net.Gather([weights, "indices"], "gather")
        out = model.ReduceFrontSum(picked, "sum")
        distance = model.SquaredL2Distance([out, "label"])
        loss = model.AveragedLoss(distance, "avg_loss")
        gradients = model.AddGradientOperators([loss])
        self.assertIsInstance(gradients["w"], core.GradientSlice)
        built = self.build_optimizer(model)
        workspace.CreateBlob("indices")
        workspace.CreateBlob("label")
        for kind in (np.int32, np.int64):
            workspace.RunNetOnce(model.param_init_net)
            workspace.CreateNet(model.net, True)
            for _ in range(_STEPS):
                at = np.random.randint(data.shape[0])
                indices = np.repeat(np.arange(_PERFECT.size), twice)[data[at] == 1]
                if indices.size == 0:
                    continue
                workspace.FeedBlob("indices", indices.astype(kind))
                workspace.FeedBlob("label", np.array(label[at], np.float32))
                workspace.RunNet(model.net.Proto().name)
            np.testing.assert_allclose(_PERFECT, workspace.FetchBlob("w"), atol=1e-2)
        self.check_optimizer(built)


if TYPE_CHECKING:
    _OptimizerCase = OptimizerTestBase
else:
    _OptimizerCase = object


class LRModificationTestBase(_OptimizerCase):
    """Tests that the rate is multiplied by what it should be; for a case that is an `OptimizerTestBase`."""

    def _gradient_ratio_reference(self, model: ModelHelper, params: Any, max_gradient_norm: float) -> Any:
        """The limit over the larger one of it and the norm of all gradients, which are in the workspace."""
        squares: Any = 0.0
        for param in params:
            grad = model.param_to_grad[param]
            values = grad.values if isinstance(grad, core.GradientSlice) else grad
            squares += np.linalg.norm(workspace.FetchBlob(values)) ** 2
        return max_gradient_norm / np.maximum(max_gradient_norm, np.sqrt(squares))

    def _started(self, **kwargs: Any) -> tuple[ModelHelper, Any]:
        """A model with its optimizer, created, and an example fed."""
        model, _, data, label = self._createDense()
        built = self.build_optimizer(model, **kwargs)
        workspace.FeedBlob("data", data[0])
        workspace.FeedBlob("label", label[0])
        workspace.RunNetOnce(model.param_init_net)
        workspace.CreateNet(model.net, True)
        self.assertIsNotNone(built._lr_multiplier)
        return model, built

    def test_global_norm_based_gradient_clipping(self) -> None:
        """The rate is multiplied by limit / max(limit, norm of all gradients)."""
        model, _ = self._started(max_gradient_norm=1.0)
        grads = model.param_to_grad
        params = [
            param
            for param in model.GetParams(top_scope=True)
            if param in grads and not isinstance(grads[param], core.GradientSlice)
        ]
        workspace.RunNet(model.net.Proto().name)
        ratio = self._gradient_ratio_reference(model, params, 1.0)
        np.testing.assert_almost_equal(workspace.FetchBlob("norm_clipped_grad_update/norm_ratio"), ratio)
        self.assertTrue(ratio < 1.0, "Bad test, gradient not being scaled.")

    def test_lr_injection(self) -> None:
        """The rate is multiplied by a number that can be set while the model is trained."""
        model, _ = self._started(max_gradient_norm=1, allow_lr_injection=True)
        self.assertEqual(optimizer.get_lr_injection(), 1)
        optimizer.set_lr_injection(0)
        self.assertEqual(optimizer.get_lr_injection(), 0)
        workspace.RunNet(model.net.Proto().name)
        self.assertEqual(workspace.FetchBlob("lr_multiplier"), 0)
