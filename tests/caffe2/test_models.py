"""Models that are built by one call, and models in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import core, optimizer, workspace
from netgrad.caffe2.python.cnn import CNNModelHelper
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.models import imagenet_trainer_test_utils as shared_blobs
from netgrad.caffe2.python.models import resnet, shufflenet
from netgrad.caffe2.python.models.download import ModelDownloader, downloadModel
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper


def _numbers(model: ModelHelper) -> int:
    """How many numbers the parameters have."""
    return sum(int(np.prod(info.shape)) for info in model.param_info if info.blob in model.params)


@pytest.mark.parametrize(
    ("groups", "width", "numbers"),
    # The well-known sizes of ResNet-50 and ResNeXt-50 (32x4d) for 1000 classes.
    [(1, 64, 25_557_032), (32, 4, 25_028_904)],
)
def test_sizes_of_the_papers(groups: int, width: int, numbers: int) -> None:
    model = ModelHelper("sized")
    resnet.create_resnext(model, "data", 3, 1000, 50, groups, width)
    assert _numbers(model) == numbers


def test_resnet50_runs_and_has_gradients() -> None:
    model = ModelHelper("fifty")
    with core.NameScope("gpu_0"):
        softmax, loss = resnet.create_resnet50(model, "data", 3, 10, label="label")
    assert str(softmax) == "gpu_0/softmax"
    model.AddGradientOperators([loss])
    types = [op.type for op in model.net.Proto().op]
    assert (types.count("Conv"), types.count("ConvGradient"), types.count("SpatialBN")) == (53, 53, 53)
    random = np.random.default_rng(0)
    workspace.FeedBlob("gpu_0/data", random.normal(size=(2, 3, 33, 33)).astype(np.float32))
    workspace.FeedBlob("gpu_0/label", np.array([1, 7], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob("gpu_0/softmax").sum(1), [1, 1], rtol=1e-5)
    assert workspace.FetchBlob("gpu_0/comp_15_sum_3").shape == (2, 2048, 2, 2)
    slope = workspace.FetchBlob("gpu_0/conv1_w_grad")
    assert slope.shape == (64, 3, 7, 7)
    assert np.isfinite(slope).all()
    assert slope.any()


@pytest.mark.parametrize("is_test", [False, True])
def test_small_images_are_learned(is_test: bool) -> None:
    """While training, and with running averages that stand."""
    model = ModelHelper("small")
    softmax = resnet.create_resnet_32x32(model, "data", 1, num_groups=1, num_labels=3, is_test=is_test)
    loss = model.net.AveragedLoss(model.net.LabelCrossEntropy([softmax, "label"], "xent"), "loss")
    model.AddGradientOperators([loss])
    optimizer.build_adam(model, base_learning_rate=0.002)
    assert [op.type for op in model.net.Proto().op].count("Conv") == 1 + 3 * 2 * 2 + 2
    model.param_init_net.set_rand_seed(5)
    random = np.random.default_rng(1)
    workspace.FeedBlob("data", random.normal(size=(6, 1, 32, 32)).astype(np.float32))
    workspace.FeedBlob("label", np.array([0, 1, 2, 0, 1, 2], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.CreateNet(model.net)
    losses = []
    for _ in range(12):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert losses[-1] < 0.3 * losses[0]


def test_scores_without_a_loss_and_layers_that_are_not_there() -> None:
    model = ModelHelper("scores")
    assert resnet.create_resnet50(model, "data", 3, 10, no_loss=True) == "last_out_L10"
    wide = ModelHelper("wide")
    shufflenet.ShuffleNetV2Builder(wide, "data", 3, 10, width="0.5x", detection=True).create()
    # Another one in each branch that convolves: two in each block of stride 2, one in each of stride 1.
    assert [op.type for op in wide.net.Proto().op].count("Conv") == 2 + 7 * 3 + 4 * 13
    with pytest.raises(ValueError, match="and not 42"):
        resnet.create_resnext(model, "data", 3, 10, 42, 1, 64)


def _shuffled_sizes(channels: list[int], labels: int) -> int:
    """The numbers that the paper's layers have, with biases and with scale and shift in the blocks."""

    def pointwise(dim_in: int, dim_out: int) -> int:
        return dim_in * dim_out + 3 * dim_out

    def depthwise(dim: int) -> int:
        return 9 * dim + 3 * dim

    total = 3 * 9 * channels[0] + channels[0]
    before = channels[0]
    for after, repeat in zip(channels[1:4], (3, 7, 3), strict=True):
        half = after // 2
        total += depthwise(before) + 2 * pointwise(before, half) + depthwise(half) + pointwise(half, half)
        total += repeat * (2 * pointwise(half, half) + depthwise(half))
        before = after
    return total + before * channels[4] + channels[4] + channels[4] * labels + labels


def test_shuffled_channels() -> None:
    model = ModelHelper("shuffled")
    with core.NameScope("gpu_0"):
        softmax, loss = shufflenet.create_shufflenet(model, "data", 3, 10, label="label")
    assert _numbers(model) == _shuffled_sizes(shufflenet.OUTPUT_CHANNELS["1.0x"], 10)
    assert "gpu_0/stage4_stride1_repeat3_right_conv2_bn_s" in model.params
    model.AddGradientOperators([loss])
    types = [op.type for op in model.net.Proto().op]
    # Two at the ends, five in each of three blocks of stride 2, and three in each of thirteen of stride 1.
    assert types.count("Conv") == 2 + 5 * 3 + 3 * 13
    random = np.random.default_rng(4)
    workspace.FeedBlob("gpu_0/data", random.normal(size=(2, 3, 224, 224)).astype(np.float32))
    workspace.FeedBlob("gpu_0/label", np.array([1, 7], np.int32))
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(softmax).sum(1), [1, 1], rtol=1e-5)
    assert workspace.FetchBlob("gpu_0/stage4_stride1_repeat3_ch_shuffle").shape == (2, 464, 7, 7)
    assert workspace.FetchBlob("gpu_0/stage1_conv_w_grad").any()
    assert shufflenet.create_shufflenet(ModelHelper("scores"), "data", 3, 10, no_loss=True) == "last_out_L10"
    wide = ModelHelper("wide")
    shufflenet.ShuffleNetV2Builder(wide, "data", 3, 10, width="0.5x", detection=True).create()
    # Another one in each branch that convolves: two in each block of stride 2, one in each of stride 1.
    assert [op.type for op in wide.net.Proto().op].count("Conv") == 2 + 7 * 3 + 4 * 13


def test_models_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CAFFE2_MODELS", str(tmp_path))
    nets: dict[str, Any] = {part: NetDef(name=part) for part in ("init", "predict")}
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "init_net.pb").write_bytes(nets["init"].SerializeToString())
    with pytest.raises(NotImplementedError, match=r"tiny.*put predict_net.pb into"):
        ModelDownloader().getC2Model("tiny")
    (folder / "predict_net.pb").write_bytes(nets["predict"].SerializeToString())
    assert ModelDownloader().getC2Model("tiny") == (nets["init"], nets["predict"])
    with pytest.raises(NotImplementedError, match="squeezenet: the original's store is gone"):
        downloadModel("squeezenet")


def test_parameters_that_are_fixed() -> None:
    model = Seq2SeqModelHelper(name="model", ws_nbytes_limit=5)
    assert model.arg_scope == {
        "use_cudnn": True,
        "cudnn_exhaustive_search": False,
        "order": "NHWC",
        "ws_nbytes_limit": 5,
    }
    trained = model.AddParam("trained", init_value=2.0)
    fixed = model.AddParam("fixed", init=("ConstantFill", {"shape": [2], "value": 3.0}), trainable=False)
    with core.NameScope("inner"):
        inner = model.AddParam("fixed", init_value=1, trainable=False)
        assert model.GetNonTrainableParams() == [inner]
    assert model.GetNonTrainableParams() == [fixed, inner]
    assert model.GetNonTrainableParams("inner") == [inner]
    assert model.GetAllParams() == [trained, fixed, inner]
    assert model.GetParams() == [trained]
    workspace.RunNetOnce(model.param_init_net)
    assert [workspace.FetchBlob(name).tolist() for name in ("trained", "fixed", inner)] == [[2], [3, 3], [1]]
    with pytest.raises(ValueError, match="parameter 'no' needs either init or init_value"):
        model.AddParam("no")


def test_parameters_without_fills() -> None:
    model = Seq2SeqModelHelper(init_params=False)
    model.AddParam("given", init_value=2.0)
    assert list(model.net.Proto().external_input) == ["given"]
    assert not model.param_init_net.Proto().op


def _small(
    model: CNNModelHelper,
    data: Any,
    num_input_channels: int,
    num_labels: int,
    label: Any = None,
    is_test: bool = False,
) -> Any:
    """Two convolutions with large strides, and a layer."""
    model.Conv(data, "c1", num_input_channels, 4, 3, stride=16)
    model.Relu("c1", "r1")
    model.Conv("r1", "c2", 4, 4, 3, stride=4)
    model.Relu("c2", "r2")
    last = model.FC("r2", "last", 4 * 4 * 4, num_labels)
    return (
        model.Softmax(last, "softmax")
        if is_test
        else model.SoftmaxWithLoss([last, label], ["softmax", "loss"])
    )


@pytest.mark.parametrize("with_shapes", [True, False])
def test_a_step_of_training_with_shared_gradients(with_shapes: bool) -> None:
    counts, results, slopes = shared_blobs.test_shared_grads(
        with_shapes, _small, "gpu_0/c1_w", "gpu_0/last", num_labels=5
    )
    assert counts[0] < counts[1]
    assert results[0].shape == (4, 5)
    assert slopes[0].shape == (4, 3, 3, 3)
    assert np.abs(slopes[0]).max() > 0
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "run", [shared_blobs.test_forward_only, shared_blobs.test_forward_only_fast_simplenet]
)
def test_a_prediction_with_shared_activations(run: Any) -> None:
    counts, shared, results = run(_small, "gpu_0/softmax", num_labels=5)
    assert counts[0] < counts[1]
    assert shared > 0
    np.testing.assert_allclose(results[0].sum(1), np.ones(4), rtol=1e-5)
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5)


def test_counts_of_blobs() -> None:
    net = core.Net("net")
    net.Add(["x", "a_shared"], "b_shared")
    assert shared_blobs.has_blob(net.Proto(), "x")
    assert not shared_blobs.has_blob(net.Proto(), "y")
    assert (shared_blobs.count_blobs(net.Proto()), shared_blobs.count_shared_blobs(net.Proto())) == (3, 2)
