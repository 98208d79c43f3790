"""ONNX models in Caffe2's operators: run in a workspace, they agree with ONNX Runtime on the model."""

from __future__ import annotations

import math
import re

import numpy as np
import onnx
import pytest

import netgrad
from netgrad import caffe2
from netgrad.caffe2 import workspace
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.onnx_import.registry import WRITERS
from netgrad.caffe2.python import core
from netgrad.core import InvalidArgumentError, InvalidModelError, UnsupportedOperatorError
from tests.caffe2.onnx_rows import I3, ROWS, Array, model_of, typed
from tests.caffe2.operator_cases import Case
from tests.caffe2.test_operators import CASES, _as_float32, net
from tests.onnx import zoo


def _run_in_workspace(model: caffe2.SavedModel, inputs: dict[str, Array], wanted: str) -> Array:
    workspace.RunNetOnce(model.init_net)
    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(model.predict_net)
    found: Array = workspace.FetchBlob(wanted)
    return found


@pytest.mark.parametrize("row", ROWS)
def test_an_operator_agrees_with_onnx_runtime(row: str) -> None:
    model, inputs = model_of(row)
    model = typed(model)
    expected = netgrad.run(model, inputs)["y"]
    found = _run_in_workspace(caffe2.from_onnx(model), inputs, "y")
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_every_writer_has_a_row() -> None:
    random = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
    used = {name for row in ROWS for name in re.findall(r"= (\w+)[<(]", row)}
    elsewhere = {"If", "Loop"} | {"BitwiseOr", "BitwiseXor"}  # the latter as BitwiseAnd
    assert set(WRITERS) - used == random | elsewhere


@pytest.mark.parametrize(
    ("row", "moments"),
    [
        ("float[3] x => y = RandomNormal<shape = [200,100], mean = 2.0, scale = 3.0>()", (2.0, 3.0)),
        ("float[200,100] x => y = RandomNormalLike(x)", (0.0, 1.0)),
        (
            "float[3] x => y = RandomUniform<shape = [200,100], low = 1.0, high = 3.0>()",
            (2.0, 2 / math.sqrt(12)),
        ),
        ("float[200,100] x => y = RandomUniformLike(x)", (0.5, 1 / math.sqrt(12))),
    ],
)
def test_draws_have_the_moments_that_are_asked_for(row: str, moments: tuple[float, float]) -> None:
    model, inputs = model_of(row)
    found = _run_in_workspace(caffe2.from_onnx(typed(model)), inputs, "y")
    assert found.shape == (200, 100)
    np.testing.assert_allclose([found.mean(), found.std()], moments, atol=0.1)


def test_dropout_in_training_scales_what_stays() -> None:
    model, inputs = model_of(
        "float[200,100] x => r = 0.25; t = Constant<value = bool {1}>(); y, m = Dropout(x, r, t)"
    )
    found = _run_in_workspace(caffe2.from_onnx(typed(model)), inputs, "y")
    kept = found != 0
    np.testing.assert_allclose(found[kept], inputs["x"][kept] / 0.75, rtol=1e-5)
    assert 0.7 < kept.mean() < 0.8


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet", "inception_v1"])
def test_a_model_of_the_zoo(name: str) -> None:
    model, inputs = zoo.zoo_model(name), zoo.zoo_input(name)
    (expected,) = zoo.run(model, inputs)
    converted = caffe2.from_onnx(model)
    found = _run_in_workspace(converted, inputs, converted.outputs[0])
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5 * np.abs(expected).max())


# ---- nets that come back -----------------------------------------------------------------------------

# What Caffe2 has no words for: sums that run, places of elements, regions.
NOT_BACK = {
    "Compress",
    "CumSum",
    "EyeLike",
    "GatherND",
    "MaxRoiPool",
    "RoiAlign",
    "ScatterND",
    "Unique",
}
# Forms without a way back, of operators that have one: places of maxima, computed parts, bounds, counts and
# sizes, images of three dims, rows that are padded, regions that are turned.
FORMS_NOT_BACK = (
    "DotProductWithPadding(x,w)->(y) {pad_value=0.5,replicate=0}",
    "MaxPoolWithIndex(",
    "ReduceBackMeanGradient(dy,shape,n)",
    "RoIAlignRotated(x,r)->(y) {pooled",
    "ResizeNearest(x,s)",
    "ResizeNearest3D(",
    "TopK(x)->(y,i,n) {k=3}",
    "TopK(x,k)",
    "UpsampleBilinear(x,s)",
)


def _is_not_back(node: onnx.NodeProto) -> bool:
    scatters = node.op_type == "ScatterElements" and any(one.name == "reduction" for one in node.attribute)
    return node.op_type in NOT_BACK or scatters  # which is with a sum, say


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_net_comes_back_from_onnx(case: Case) -> None:
    """The operators' table: a net as an ONNX model, as a net again, run beside the ONNX model."""
    blobs = _as_float32(case.blobs)
    model = caffe2.SavedModel(net(case.net), NetDef())
    shapes = {name: blobs[name].shape for name in model.inputs}
    types = {name: str(blobs[name].dtype) for name in model.inputs}
    converted = caffe2.to_onnx(model, shapes, types=types, outputs=list(case.formula(case.blobs)))
    if case.net.startswith(FORMS_NOT_BACK) or any(map(_is_not_back, converted.graph.node)):
        with pytest.raises(UnsupportedOperatorError):
            caffe2.from_onnx(converted)
        return
    again = caffe2.from_onnx(converted)
    inputs = {name: blobs[name] for name in model.inputs}
    for name, expected in netgrad.run(converted, inputs).items():
        found = _run_in_workspace(again, inputs, name)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


# ---- parameters, shapes, refusals --------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "int8", "int16", "bool"]
)
def test_parameters_of_all_types(dtype: str) -> None:
    value = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Concat", ["x", "w"], ["y"], axis=0)],
        "typed",
        [
            onnx.helper.make_tensor_value_info(
                "x", onnx.helper.np_dtype_to_tensor_dtype(value.dtype), ["N", 3]
            )
        ],
        [
            onnx.helper.make_tensor_value_info(
                "y", onnx.helper.np_dtype_to_tensor_dtype(value.dtype), ["M", 3]
            )
        ],
        [onnx.numpy_helper.from_array(value, "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    found = _run_in_workspace(caffe2.from_onnx(model), {"x": value[:1]}, "y")
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, np.concatenate([value[:1], value]))


@pytest.mark.parametrize("row", [row for row in ROWS if re.search("= (RNN|GRU|LSTM)", row)])
def test_recurrent_nets_have_gradients(row: str) -> None:
    """They agree with those of the ONNX model."""
    model, inputs = model_of(row)
    model = typed(model)
    wrt = [name for name in inputs if any(name in node.input for node in model.graph.node)]
    expected = netgrad.run(netgrad.grad(model, wrt=wrt), inputs)
    converted = caffe2.from_onnx(model)
    net = core.Net(converted.predict_net)
    net.SumElements("y", "loss")
    gradients = net.AddGradientOperators(["loss"])
    workspace.RunNetOnce(converted.init_net)
    for name, array in inputs.items():
        workspace.FeedBlob(name, array)
    workspace.RunNetOnce(net)
    for name in wrt:
        found = workspace.FetchBlob(gradients[name])
        np.testing.assert_allclose(found, expected[f"{name}_grad"], rtol=1e-4, atol=1e-5)


def test_sequences_whose_batch_comes_first() -> None:
    """Which ONNX Runtime doesn't run: the same after turning the axes."""
    row = "float[4,3,5] x, float[2,6,5] w, float[2,6,2] r, float[2,3,2] h => y, z = GRU<{}>(x, w, r, , , h)"
    written = 'hidden_size = 2, direction = "bidirectional"'
    model, inputs = model_of(row.format(written))
    model.graph.output.append(onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, None))
    expected = netgrad.run(typed(model), inputs)
    turned, _ = model_of(row.format(f"{written}, layout = 1"))
    for value in turned.graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in ("x", "h"):
            dims[0].dim_value, dims[1].dim_value = dims[1].dim_value, dims[0].dim_value
            inputs[value.name] = inputs[value.name].swapaxes(0, 1)
    converted = caffe2.from_onnx(typed(turned))
    for name, order in (("y", (2, 0, 1, 3)), ("z", (1, 0, 2))):
        found = _run_in_workspace(converted, inputs, name)
        np.testing.assert_allclose(found, expected[name].transpose(order), rtol=1e-5, atol=1e-5)


def test_the_other_order_of_space_to_depth() -> None:
    """Of later versions of the operator: channels first, then the places within a block."""
    row = 'float[1,2,4,6] x => y = SpaceToDepth<blocksize = 2, mode = "CRD">(x)'
    model, inputs = model_of(row, onnx.defs.onnx_opset_version())
    found = _run_in_workspace(caffe2.from_onnx(typed(model)), inputs, "y")
    blocks = inputs["x"].reshape(1, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4)
    np.testing.assert_array_equal(found, blocks.reshape(1, 8, 2, 3))


def test_an_output_that_is_constant_is_written() -> None:
    model, inputs = model_of("float[3] x => y = Constant<value_floats = [1.0, 2.0]>()")
    found = _run_in_workspace(caffe2.from_onnx(typed(model)), inputs, "y")
    np.testing.assert_array_equal(found, [1, 2])


def test_shapes_may_be_given() -> None:
    model, inputs = model_of(
        'float[N,1,M,6] x => y = AveragePool<kernel_shape = [2,2], auto_pad = "SAME_UPPER">(x)'
    )
    model = typed(model)
    with pytest.raises(UnsupportedOperatorError, match="dim 2 of 'x' is not known"):
        caffe2.from_onnx(model)
    converted = caffe2.from_onnx(model, shapes={"x": ("N", 1, 5, 6)})
    found = _run_in_workspace(converted, inputs, "y")
    np.testing.assert_allclose(found, netgrad.run(model, inputs)["y"], rtol=1e-5)
    with pytest.raises(InvalidArgumentError, match="no input 'z'"):
        caffe2.from_onnx(model, shapes={"z": (1,)})
    with pytest.raises(InvalidArgumentError, match="has 1 dims"):
        caffe2.from_onnx(model, shapes={"x": (1,)})


_RNN3 = "float[3,2,4] x, float[1,8,4] w, float[1,8,2] r"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("float[3] x => y = Round(x)", "Round.*Caffe2 has no operator for it"),
        ("float[3,4] x => y = Det(x)", "Det.*Caffe2 has no operator for it"),
        (f"{_RNN3} => y = LSTM<clip = 1.0>(x, w, r)", "don't clip"),
        (f"{_RNN3} => y = LSTM<input_forget = 1>(x, w, r)", "of its own for forgetting"),
        (f"{_RNN3}, float[1,6] p => y = LSTM(x, w, r, , , , , p)", "no peepholes"),
        (f'{_RNN3} => y = LSTM<direction = "up">(x, w, r)', "direction 'up'"),
        (f'{_RNN3} => y = LSTM<activations = ["Tanh", "Tanh", "Tanh"]>(x, w, r)', "Sigmoid, Tanh, Tanh"),
        (f"{I3} => v, y = MaxPool<kernel_shape = [2,2]>(x)", "places of maxima"),
        (f"{I3} => y = AveragePool<kernel_shape = [2,2], dilations = [2,2]>(x)", "no dilations"),
        (
            f"{I3} => y = AveragePool<kernel_shape = [3,3], strides = [2,2], ceil_mode = 1, "
            "count_include_pad = 1, pads = [1,1,1,1]>(x)",
            "leave padding out",
        ),
        (f"{I3}, float[3,4,3,3] w => y = ConvTranspose<dilations = [2,2]>(x, w)", "no dilations"),
        ("float[2,3] x => p = [0,1,0,1]; y = Pad(x, p)", "height and width"),
        (
            f'{I3} => p = [0,0,1,1,0,0,1,1]; y = Pad<mode = "wrap">(x, p)',
            "mode 'wrap'",
        ),
        ("float[2,3,4] x, float[4] w => y = PRelu(x, w)", "one per channel"),
        (
            "float[1,2,3,3] x => r = Constant<value_floats = [1.0,1.0,2.0,3.0]>(); y = Resize(x, , r)",
            "nearest",
        ),
        (
            "float[1,1,2,4] x => r = Constant<value_floats = [1.0,1.0,1.0,0.6]>(); "
            'y = Resize<mode = "linear", coordinate_transformation_mode = "align_corners">(x, , r)',
            "no whole number of pixels",
        ),
        ("float[2,3] x => y = ArgMax<select_last_index = 1>(x)", "takes the first"),
        ("float[2,3] x => y = RandomNormalLike<seed = 1.0>(x)", "other numbers"),
        ("float[2,3] x => y = RandomNormalLike<dtype = 11>(x)", "draws float32"),
        (
            "int64[2] x => d = 4; v = Constant<value = bool[2] {0, 1}>(); y = OneHot(x, d, v)",
            "finite numbers",
        ),
        ("float x => y = NonZero(x)", "no axes"),
        (
            'float[2,3] x, int64[2,3] i => y = ScatterElements<reduction = "add">(x, i, x)',
            "replaces what is there",
        ),
        ("float[2,3] x => y = Cast<to = 16>(x)", "no tensors of bfloat16"),
        ("float[5] x, int64[1] s, int64[1] e => t = [2]; y = Slice(x, s, e, , t)", "steps of 1"),
    ],
)
def test_what_caffe2_has_no_words_for_is_refused(row: str, said: str) -> None:
    model, _ = model_of(row)
    with pytest.raises(UnsupportedOperatorError, match=said):
        caffe2.from_onnx(model)


def test_all_refused_operators_are_named() -> None:
    model, _ = model_of("float[3,3] x => a = Round(x); b = Det(x); y = Add(a, b)")
    with pytest.raises(UnsupportedOperatorError) as caught:
        caffe2.from_onnx(model)
    assert [one.operator.type for one in caught.value.operators] == ["Round", "Det"]


def test_batch_normalization_in_training_is_refused() -> None:
    model, _ = model_of(
        f"{I3}, float[3] s, float[3] b, float[3] m, float[3] v => "
        "y, p, q = BatchNormalization<training_mode = 1>(x, s, b, m, v)"
    )
    with pytest.raises(UnsupportedOperatorError, match="for inference"):
        caffe2.from_onnx(model)


def test_an_input_that_is_no_blob_is_refused() -> None:
    model, _ = model_of("float[2,3] x => y = Relu(x)")
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    with pytest.raises(InvalidModelError, match="no blobs of that type"):
        caffe2.from_onnx(model)
