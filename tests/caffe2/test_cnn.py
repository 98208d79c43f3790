"""The older model helper: layers as methods."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import CUDA
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.cnn import CNNModelHelper


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_layers_take_the_order_of_the_model(order: str) -> None:
    model = CNNModelHelper(order=order, name="net", use_cudnn=False)
    with core.NameScope("inner"):
        model.Conv("data", "conv", 2, 4, kernel=3, pad=1, weight_init=model.XavierInit)
        model.SpatialBN("conv", "bn", 4, is_test=False)
        model.Relu("bn", "bn")
        model.MaxPool("bn", "pool", kernel=2, stride=2)
        model.FC("pool", "pred", 4 * 3 * 3, 2, model.XavierInit, model.ZeroInit)
        model.Softmax("pred", "softmax")
    image = (1, 6, 6, 2) if order == "NHWC" else (1, 2, 6, 6)
    workspace.FeedBlob("inner/data", np.ones(image, np.float32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("inner/conv_w").shape == ((4, 3, 3, 2) if order == "NHWC" else (4, 2, 3, 3))
    assert workspace.FetchBlob("inner/pool").shape == ((1, 3, 3, 4) if order == "NHWC" else (1, 4, 3, 3))
    np.testing.assert_allclose(workspace.FetchBlob("inner/softmax").sum(), 1, rtol=1e-6)
    assert model.GetWeights("other/") == []
    assert model.GetWeights("inner/") == ["inner/conv_w", "inner/bn_s", "inner/pred_w"]
    assert model.GetBiases("") == ["inner/conv_b", "inner/bn_b", "inner/pred_b"]
    assert [op.type for op in model.net.Proto().op] == [
        "Conv",
        "SpatialBN",
        "Relu",
        "MaxPool",
        "FC",
        "Softmax",
    ]


def test_names_and_devices() -> None:
    model = CNNModelHelper(ws_nbytes_limit=100)
    assert model.name == "CNN"
    model.Conv("data", "conv", 3, 4, 3)
    names = {argument.name: argument.i for argument in model.net.Proto().op[0].arg}
    assert names["ws_nbytes_limit"] == 100
    assert model.net.Proto().op[0].engine == "CUDNN"
    assert model.GPU(2) == core.DeviceOption(CUDA, 2)
    assert model.CPU.device_type == 0
    assert model.Sum(["a", "b"], "c") == "c"
    assert model.Negative("c", "d") == "d"  # an operator that is no layer
    assert {"FC", "Negative", "GetWeights"} <= set(dir(model))


def test_what_is_not_there_says_so() -> None:
    with pytest.raises(ValueError, match="NCWH"):
        CNNModelHelper(order="NCWH")
    with pytest.raises(AttributeError, match="NoSuchLayer"):
        CNNModelHelper().NoSuchLayer("x", "y")
