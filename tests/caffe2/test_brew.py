"""Models, layers and optimizers: the operators that they add."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.arguments import value_of
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import brew, core, optimizer, workspace
from netgrad.caffe2.python.model_helper import ExtractPredictorNet, ModelHelper
from netgrad.caffe2.python.modeling.initializers import Initializer
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo
from netgrad.caffe2.python.modeling.parameter_sharing import ParameterSharing


def _text(op: OperatorDef, *ignored: str) -> str:
    arguments = {argument.name: value_of(argument) for argument in op.arg if argument.name not in ignored}
    shown = ", ".join(f"{name}={_shown(value)}" for name, value in sorted(arguments.items()))
    return f"{op.type}({','.join(op.input)})->({','.join(op.output)}) {{{shown}}} [{op.engine}]"


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return str(list(value))
    return value.decode() if isinstance(value, bytes) else str(value)


@pytest.fixture
def model() -> ModelHelper:
    return ModelHelper("m")


@pytest.mark.parametrize(
    ("call", "expected", "fills"),
    [
        (
            lambda m: brew.fc(m, "x", "y", 4, 3),
            "FC(x,y_w,y_b)->(y) {cudnn_exhaustive_search=0, order=NCHW, use_cudnn=1} []",
            ["XavierFill()->(y_w) {shape=[3, 4]} []", "ConstantFill()->(y_b) {shape=[3]} []"],
        ),
        (
            lambda m: brew.conv(m, "img", "cv", 3, 8, 3, stride=2),
            "Conv(img,cv_w,cv_b)->(cv) {exhaustive_search=0, kernel=3, order=NCHW, stride=2} [CUDNN]",
            ["XavierFill()->(cv_w) {shape=[8, 3, 3, 3]} []", "ConstantFill()->(cv_b) {shape=[8]} []"],
        ),
        (
            lambda m: brew.max_pool(m, "cv", "mp", kernel=2),
            "MaxPool(cv)->(mp) {cudnn_exhaustive_search=0, kernel=2, order=NCHW} [CUDNN]",
            [],
        ),
    ],
)
def test_layers(model: ModelHelper, call: Any, expected: str, fills: list[str]) -> None:
    call(model)
    assert [_text(op) for op in model.net.Proto().op] == [expected]
    assert [_text(op) for op in model.param_init_net.Proto().op] == fills


def test_batch_normalization_keeps_its_averages_in_place(model: ModelHelper) -> None:
    assert brew.spatial_bn(model, "img", "bn", 3, is_test=0) == "bn"
    (op,) = model.net.Proto().op
    assert list(op.input) == ["img", "bn_s", "bn_b", "bn_rm", "bn_riv"]
    assert list(op.output) == ["bn", "bn_rm", "bn_riv", "bn_sm", "bn_siv"]
    fills = [value_of(one.arg[1]) if len(one.arg) > 1 else 0.0 for one in model.param_init_net.Proto().op]
    assert fills == [1.0, 0.0, 0.0, 1.0]
    assert model.GetComputedParams("") == ["bn_rm", "bn_riv"]


def test_other_layers(model: ModelHelper) -> None:
    brew.dropout(model, "y", "d", ratio=0.5, is_test=0)
    brew.concat(model, ["y", "d"], "cc")
    first, second = model.net.Proto().op
    assert list(first.output) == ["d", "_d_mask"]
    assert list(second.output) == ["cc", "_cc_concat_dims"]
    with pytest.raises(AssertionError, match="is_test"):
        brew.dropout(model, "y", "d2", ratio=0.5)
    with pytest.raises(AttributeError, match="there is no layer no_layer"):
        brew.no_layer(model)


def test_defaults_of_layers_are_scoped(model: ModelHelper) -> None:
    with brew.arg_scope([brew.conv], order="NHWC", no_bias=1):
        brew.conv(model, "img", "a", 3, 8, 3)
    brew.conv(model, "img", "b", 3, 8, 3)
    assert [len(op.input) for op in model.net.Proto().op] == [2, 3]
    assert list(value_of(model.param_init_net.Proto().op[0].arg[0])) == [8, 3, 3, 3]


def test_parameters_get_the_scope_and_can_be_shared(model: ModelHelper) -> None:
    fill = Initializer("ConstantFill")
    with core.NameScope("a"):
        first = model.create_param("w", [2], fill)
    with ParameterSharing({"b": "a"}), core.NameScope("b"):
        assert model.create_param("w", [2], fill) is first
    assert [str(param) for param in model.params] == ["a/w"]
    with core.NameScope("a"):
        assert model.GetParams() == ["a/w"]
    assert model.GetParams("") == ["a/w"]
    with core.NameScope("a"), core.NameScope("b"):
        inner = model.create_param("w", [2], fill)
    assert model.GetParams("a") == ["a/w", inner]
    assert model.GetParams("a/b/") == [inner]
    assert model.GetParams("b") == []
    with core.NameScope("a"), ParameterSharing({"inner": ""}), core.NameScope("inner"):
        assert model.create_param("w", [2], fill) is first  # of the scope around


def _trained(build: Any) -> ModelHelper:
    model = ModelHelper("trained")
    loss = model.net.AveragedLoss(brew.fc(model, "x", "y", 4, 3), "loss")
    model.AddGradientOperators([loss])
    build(model)
    return model


def _added(model: ModelHelper) -> list[str]:
    ops = list(model.net.Proto().op)
    start = next(k for k, op in enumerate(ops) if op.type == "AtomicIter")
    return [_text(op, "engine").replace(" []", "") for op in ops[start:]]


def test_momentum_updates_in_place() -> None:
    model = _trained(
        lambda m: optimizer.build_sgd(m, 0.1, policy="step", stepsize=10, gamma=0.9, momentum=0.9)
    )
    rate = next(op.output[0] for op in model.net.Proto().op if op.type == "LearningRate")
    assert rate.startswith("SgdOptimizer_")
    assert rate.endswith("_lr_cpu")
    added = [line.replace(rate, "lr") for line in _added(model)]
    assert added[0] == "AtomicIter(iteration_mutex,optimizer_iteration)->(optimizer_iteration) {}"
    assert added[1].startswith("LearningRate(optimizer_iteration)->(lr) {base_lr=0.1")
    assert added[2].startswith(
        "MomentumSGDUpdate(y_w_grad,y_w_momentum,lr,y_w)->(y_w_grad,y_w_momentum,y_w) {"
    )
    assert added[2].endswith("nesterov=1}")
    with pytest.raises(RuntimeError, match="called once"):
        model.AddGradientOperators(["loss"])


def test_adam_keeps_two_moments() -> None:
    model = _trained(lambda m: optimizer.build_adam(m, 0.1))
    ops = {op.type: op for op in model.net.Proto().op}
    rate = ops["LearningRate"].output[0]
    assert value_of(ops["LearningRate"].arg[0]) == pytest.approx(-0.1)
    updates = [op for op in model.net.Proto().op if op.type == "Adam"]
    moments = ["y_w_first_moment", "y_w_second_moment"]
    assert list(updates[0].input) == ["y_w", *moments, "y_w_grad", rate, "optimizer_iteration"]
    assert list(updates[0].output) == ["y_w", *moments]


def test_weight_decay_adds_to_the_gradient_of_weights_only() -> None:
    model = ModelHelper("decayed")
    loss = model.net.AveragedLoss(brew.fc(model, "x", "y", 4, 3), "loss")
    model.AddGradientOperators([loss])
    optimizer.add_weight_decay(model, 0.01)
    (added,) = [op for op in model.net.Proto().op if op.type == "WeightedSum"]
    assert list(added.input) == ["y_w_grad", "ONE_0_0", "y_w", "wd_0_0"]
    assert list(added.output) == ["y_w_grad"]


def test_a_predictor_is_the_part_between() -> None:
    model = _trained(lambda m: optimizer.build_sgd(m, 0.1))
    predict, external = ExtractPredictorNet(model.net.Proto(), ["x"], ["y"])
    assert [op.type for op in predict.Proto().op] == ["FC"]
    assert external == ["y_w", "y_b"]
    assert list(predict.Proto().external_output) == ["y"]


@pytest.mark.parametrize(
    ("order", "more", "expected"),
    [
        ("NCHW", {}, [("ImageInput", ["x_nhwc", "label"]), ("NHWC2NCHW", ["x"])]),
        ("NHWC", {}, [("ImageInput", ["x", "label"])]),
        ("NCHW", {"use_gpu_transform": True}, [("ImageInput", ["x", "label"])]),
    ],
)
def test_readers_of_images(order: str, more: dict[str, Any], expected: list[Any]) -> None:
    model = ModelHelper(name="model", arg_scope={"order": order})
    images, labels = brew.image_input(model, "reader", ["x", "label"], is_test=1, **more)
    assert (images, labels) == ("x", "label")
    assert [(op.type, list(op.output)) for op in model.net.Proto().op] == expected


def test_readers_of_databases_and_videos() -> None:
    model = ModelHelper(name="model")
    brew.db_input(model, ["x", "label"], batch_size=4, db="there", db_type="minidb")
    brew.video_input(model, "reader", ["clip", "other"])
    assert [op.type for op in model.param_init_net.Proto().op] == ["CreateDB"]
    read, video = model.net.Proto().op
    assert (read.type, list(read.input), video.type) == (
        "TensorProtosDBInput",
        ["dbreader_there"],
        "VideoInput",
    )


def test_group_normalization() -> None:
    model = ModelHelper(name="model")
    brew.spatial_gn(model, "x", "y", 4, group=2, epsilon=1e-5)
    x = np.random.default_rng(0).normal(size=(2, 4, 3, 3)).astype(np.float32)
    workspace.FeedBlob("x", x)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    groups = x.reshape(2, 2, -1)
    mean, variance = groups.mean(-1, keepdims=True), groups.var(-1, keepdims=True)
    expected = ((groups - mean) / np.sqrt(variance + 1e-5)).reshape(x.shape)
    np.testing.assert_allclose(workspace.FetchBlob("y"), expected, rtol=1e-4, atol=1e-4)
    assert [str(param) for param in model.params] == ["y_s", "y_b"]


def _ran(model: ModelHelper, **given: np.ndarray[Any, Any]) -> None:
    for name, value in given.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)


def _array(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


def test_a_layer_of_two_factors(model: ModelHelper) -> None:
    assert brew.fc_decomp(model, "x", "y", 4, 3, rank_approx=2) == "y"
    model.net.AddGradientOperators(["y"])
    assert [_text(op) for op in model.param_init_net.Proto().op] == [
        "XavierFill()->(y_u) {shape=[3, 2]} []",
        "XavierFill()->(y_v) {shape=[4, 2]} []",
        "ConstantFill()->(y_b) {shape=[3]} []",
    ]
    assert [str(param) for param in model.params] == ["y_u", "y_v", "y_b"]
    assert model.weights == model.biases == []
    x = _array(5, 4)
    _ran(model, x=x)
    u, v, dx = (workspace.FetchBlob(name) for name in ("y_u", "y_v", "x_grad"))
    np.testing.assert_allclose(workspace.FetchBlob("y"), x @ v @ u.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(dx, np.ones((5, 3)) @ u @ v.T, rtol=1e-5, atol=1e-5)


def test_a_layer_that_is_pruned(model: ModelHelper) -> None:
    found = brew.fc_prune(model, "x", "y", 4, 3, need_compress_rate=True, comp_lb=0.25)
    assert found == ("y", "y_compress_rate")
    (op,) = model.net.Proto().op
    assert list(op.input) == ["x", "y_w", "y_m", "y_b", "y_ag_dw", "y_mask_seq", "y_thres", "y_lb"]
    assert [_text(fill) for fill in model.param_init_net.Proto().op] == [
        "ConstantFill()->(y_lb) {shape=[1], value=0.25} []",
        "XavierFill()->(y_w) {shape=[3, 4]} []",
        "ConstantFill()->(y_m) {shape=[3, 4], value=1.0} []",
        "ConstantFill()->(y_ag_dw) {shape=[3, 4]} []",
        "ConstantFill()->(y_b) {shape=[3]} []",
        "ConstantFill()->(y_mask_seq) {shape=[3, 4]} []",
        f"ConstantFill()->(y_thres) {{shape=[1], value={float(np.float32(1e-5))}}} []",
    ]
    assert [str(param) for param in model.params] == ["y_w", "y_b"]
    _ran(model, x=_array(5, 4))
    assert workspace.FetchBlob("y_compress_rate") == 1


def test_a_pruned_layer_of_a_model_that_initializes_nothing() -> None:
    model = ModelHelper("m", init_params=False)
    assert brew.fc_prune(model, "x", "y", 4, 3) == "y"
    assert not model.param_init_net.Proto().op
    assert [str(param) for param in model.params] == ["y_w", "y_b"]


def test_a_layer_with_sparse_weights(model: ModelHelper) -> None:
    weights = [core.BlobReference(name) for name in ("w", "iw", "jw", "b")]
    brew.fc_sparse(model, "x", "y", *weights)
    assert model.params == weights
    x = _array(3, 2)
    starts, columns = np.array([0, 1, 3], np.int32), np.array([2, 0, 1], np.int32)
    _ran(model, x=x, w=np.array([5.0, 1, 2], np.float32), iw=starts, jw=columns, b=np.ones(2, np.float32))
    expected = np.array([[0, 0, 5], [1, 2, 0]]) @ x + 1
    np.testing.assert_allclose(workspace.FetchBlob("y"), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "engine"),
    [
        ({}, "CUDNN"),
        ({"use_cudnn": False}, ""),
        ({"use_cudnn": False, "engine": "DEPTHWISE_3x3"}, "DEPTHWISE_3x3"),
        ({"engine": "CUDNN"}, "CUDNN"),
        ({"engine": ""}, None),
        ({"use_cudnn": False, "engine": "CUDNN"}, None),
    ],
)
def test_engines_of_convolutions_agree_with_use_cudnn(
    model: ModelHelper, arguments: dict[str, Any], engine: str | None
) -> None:
    if engine is None:
        with pytest.raises(ValueError, match="use_cudnn="):
            brew.conv(model, "x", "y", 1, 1, 3, **arguments)
    else:
        brew.conv(model, "x", "y", 1, 1, 3, **arguments)
        assert model.net.Proto().op[-1].engine == engine


def test_inputs_of_a_convolution_are_changed(model: ModelHelper) -> None:
    def transform(given: Any, name: str, inputs: list[Any]) -> None:
        inputs[0] = given.net.Relu(inputs[0], f"{name}_input")

    brew.conv(model, "x", "y", 1, 1, 3, transform_inputs=transform)
    assert [op.type for op in model.net.Proto().op] == ["Relu", "Conv"]
    assert model.net.Proto().op[-1].input[0] == "y_input"


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_groups_as_convolutions_of_parts(order: str) -> None:
    model = ModelHelper("m", arg_scope={"order": order})
    assert brew.group_conv_deprecated(model, "x", "y", 4, 6, 3, group=2, pad=1) == "y"
    ops = list(model.net.Proto().op)
    assert [(op.type, list(op.input), list(op.output)) for op in ops] == [
        ("DepthSplit", ["x"], ["_y_gconv_split_0", "_y_gconv_split_1"]),
        ("Conv", ["_y_gconv_split_0", "y_gconv_0_w", "y_gconv_0_b"], ["y_gconv_0"]),
        ("Conv", ["_y_gconv_split_1", "y_gconv_1_w", "y_gconv_1_b"], ["y_gconv_1"]),
        ("Concat", ["y_gconv_0", "y_gconv_1"], ["y", "_y_concat_dims"]),
    ]
    assert [op.engine for op in ops] == ["", "CUDNN", "CUDNN", ""]
    assert [str(weight) for weight in model.weights] == ["y_gconv_0_w", "y_gconv_1_w"]
    whole = ModelHelper("whole", arg_scope={"order": order}, init_params=False)
    brew.group_conv(whole, "x", "z", 4, 6, 3, group=2, pad=1)
    _ran(model, x=_array(2, 4, 5, 5) if order == "NCHW" else _array(2, 5, 5, 4))
    parts = [workspace.FetchBlob(f"y_gconv_{at}_w") for at in range(2)]
    _ran(whole, z_w=np.concatenate(parts), z_b=np.zeros(6, np.float32))
    np.testing.assert_allclose(workspace.FetchBlob("y"), workspace.FetchBlob("z"), rtol=1e-5, atol=1e-5)


def test_one_group_without_a_bias_and_groups_that_do_not_fit(model: ModelHelper) -> None:
    brew.group_conv_deprecated(model, "x", "y", 4, 6, 3, no_bias=1)
    assert [list(op.input) for op in model.net.Proto().op] == [
        ["x"],
        ["_y_gconv_split_0", "y_gconv_0_w"],
        ["y_gconv_0"],
    ]
    with pytest.raises(ValueError, match="4 and 6 channels can't be divided into 4 groups"):
        brew.group_conv_deprecated(model, "x", "z", 4, 6, 3, group=4)


@pytest.mark.parametrize(("order", "axes"), [("NCHW", (0, 2, 3)), ("NHWC", (0, 1, 2))])
def test_moments_of_channels(order: str, axes: tuple[int, ...]) -> None:
    model = ModelHelper("m", arg_scope={"order": order})
    mean, variance = brew.moments_with_running_stats(model, "x", "y", 3)
    assert (mean, variance) == ("y_sm", "y_sv")
    assert model.GetComputedParams("") == ["y_rm", "y_riv"]
    x = _array(2, 3, 4, 3)
    _ran(model, x=x)
    np.testing.assert_allclose(workspace.FetchBlob("y_sm"), x.mean(axes), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(workspace.FetchBlob("y_sv"), x.var(axes), rtol=1e-4, atol=1e-5)
    assert [workspace.FetchBlob(name).tolist() for name in ("y_rm", "y_riv")] == [[0, 0, 0], [1, 1, 1]]
    with pytest.raises(ValueError, match="NCHW or NHWC, not NC"):
        brew.moments_with_running_stats(model, "x", "z", 3, order="NC")


def test_rows_of_eight_bits_as_a_layer(model: ModelHelper) -> None:
    brew.fused_8bit_rowwise_quantized_to_float(model, "x", "y")
    (op,) = model.net.Proto().op
    assert _text(op) == "Fused8BitRowwiseQuantizedToFloat(x)->(y) {} []"


@pytest.mark.parametrize(("skipped", "expected"), [(False, ["table", "y_w", "y_b"]), (True, ["y_w", "y_b"])])
def test_tables_can_be_left_out_of_training(skipped: bool, expected: list[str]) -> None:
    model = ModelHelper("m", skip_sparse_optim=skipped)
    table = model.create_param("table", [5, 4], Initializer("XavierFill"))
    rows = model.net.Gather([table, "ids"], "rows")
    model.AddGradientOperators([brew.fc(model, rows, "y", 4, 3)])
    assert sorted(map(str, model.GetOptimizationParamInfo())) == sorted(expected)


@pytest.mark.parametrize("dims", [(3, 4), [3, 4], np.array([3, 4])])
def test_a_layer_is_normalized_over_several_axes(dims: Any) -> None:
    """The scale and the bias have all dims from the axis on."""
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
    workspace.FeedBlob("x", x)
    model = ModelHelper(name="several")
    brew.layer_norm(model, "x", "y", dim_in=dims, axis=1, epsilon=0.5, initial_scale=2.0, initial_bias=1.0)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("y_scale").shape == workspace.FetchBlob("y_bias").shape == (3, 4)
    rows = x.reshape(2, 12)
    expected = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 0.5)
    np.testing.assert_allclose(
        workspace.FetchBlob("y").reshape(2, 12), 2 * expected + 1, rtol=1e-5, atol=1e-6
    )


def test_the_size_of_a_parameter() -> None:
    """Some programs give an argument of a fill as its shape, which says no number."""
    fill = core.CreateOperator("ConstantFill", [], "w", shape=[2, 3])
    sizes = [ParameterInfo(None, "w", shape=shape).size for shape in ([2, 3], (4,), [], 5, None, fill.arg[0])]
    assert sizes == [6, 4, 1, 5, None, None]
