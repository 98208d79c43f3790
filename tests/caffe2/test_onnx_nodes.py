"""Nodes of ONNX by themselves, tensors as fills, and Caffe2's own operators in ONNX models."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from netgrad import caffe2
from netgrad.caffe2 import workspace
from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import _import_c_extension as native
from netgrad.caffe2.python.onnx import backend
from netgrad.caffe2.python.onnx import helper as tools
from netgrad.core import InvalidArgumentError, UnsupportedOperatorError

Array = np.ndarray[Any, Any]


def _info(name: str, *shape: int, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _model(node: onnx.NodeProto, *infos: onnx.ValueInfoProto) -> onnx.ModelProto:
    graph = helper.make_graph([node], "own", infos, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=4)


def _converted(node: onnx.NodeProto, *infos: onnx.ValueInfoProto, opset: int = 9) -> list[OperatorDef]:
    converter = native.Caffe2Backend(native.DummyName())
    first, then = converter.convert_node(
        node.SerializeToString(), [info.SerializeToString() for info in infos], opset
    )
    return [OperatorDef.FromString(op) for op in (*first, *then)]


# ---- nodes by themselves -----------------------------------------------------------------------------


def test_a_node_without_types_is_converted() -> None:
    gemm = helper.make_node("Gemm", ["a", "w", "OC2_DUMMY_1"], ["y"], alpha=2.0, beta=3.0)
    ops = _converted(gemm)
    assert [op.type for op in ops] == ["Scale", "Scale", "MatMul", "Add"]
    new = {name for op in ops for name in op.output} - {"y"}
    assert new == {"OC2_DUMMY_2", "OC2_DUMMY_3", "OC2_DUMMY_4"}  # and not what the node reads
    a, w, c = (np.random.default_rng(0).normal(size=(2, 2)).astype(np.float32) for _ in range(3))
    for name, array in {"a": a, "w": w, "OC2_DUMMY_1": c}.items():
        workspace.FeedBlob(name, array)
    workspace.RunOperatorsOnce(ops)
    np.testing.assert_allclose(workspace.FetchBlob("y"), 2 * a @ w + 3 * c, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("bias", "weights", "attributes", "opset", "last"),
    [
        ((3,), None, {"transB": 1}, 7, "FC"),
        ((3,), None, {}, 7, "FCTransposed"),
        ((3,), None, {"broadcast": 1}, 6, "FCTransposed"),
        ((1,), (2, 1), {}, 7, "FCTransposed"),
        ((1,), (2, 2), {}, 7, "Add"),
        ((1,), None, {}, 7, "Add"),
        ((3,), None, {"transA": 1}, 7, "Add"),
        ((3, 3), (2, 3), {}, 6, "Add"),
    ],
)
def test_a_product_and_a_bias_are_a_layer(
    bias: tuple[int, ...], weights: tuple[int, ...] | None, attributes: Any, opset: int, last: str
) -> None:
    node = helper.make_node("Gemm", ["a", "w", "c"], ["y"], **attributes)
    infos = [_info("c", *bias)] + ([_info("w", *weights)] if weights else [])
    assert _converted(node, *infos, opset=opset)[-1].type == last


def test_what_a_node_needs_besides_its_inputs_comes_first() -> None:
    constant = helper.make_node("Constant", [], ["y"], value=numpy_helper.from_array(np.float32([1, 2])))
    assert [op.type for op in _converted(constant)] == ["GivenTensorFill", "Copy"]


def test_a_node_that_cannot_be_converted_says_why() -> None:
    with pytest.raises(RuntimeError, match="unexpected argument foo"):
        _converted(helper.make_node("Add", ["a", "b"], ["y"], foo=1))
    with pytest.raises(RuntimeError, match=r"no such operator.*Nothing"):
        _converted(helper.make_node("Nothing", ["a"], ["y"]))
    with pytest.raises(RuntimeError, match="the rank of 'x' is not known"):
        _converted(helper.make_node("Slice", ["x"], ["y"], starts=[1], ends=[2]))
    converter = native.Caffe2Backend()
    supported = [
        type_ for type_ in ("Gemm", "FC", "Asinh", "Nothing") if converter.support_onnx_import(type_)
    ]
    assert supported == ["Gemm", "FC"]
    assert native.support_onnx_export("FC")
    assert not native.support_onnx_export("Nothing")


# ---- tensors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "type_", "given"),
    [
        ("float32", "GivenTensorFill", "float32"),
        ("float64", "GivenTensorDoubleFill", "float64"),
        ("bool", "GivenTensorBoolFill", "bool"),
        ("int8", "GivenTensorIntFill", "int32"),
        ("uint16", "GivenTensorIntFill", "int32"),
        ("uint32", "GivenTensorInt64Fill", "int64"),
        ("int64", "GivenTensorInt64Fill", "int64"),
    ],
)
def test_a_tensor_becomes_a_fill(dtype: str, type_: str, given: str) -> None:
    array = np.array([[0, 1, 2], [3, 100, 1]]).astype(dtype)
    fill = backend.Caffe2Backend._create_tensor_filling_op(numpy_helper.from_array(array, "t"), "w")
    assert (fill.type, list(fill.output)) == (type_, ["w"])
    _, outputs = tools.c2_native_run_op(fill, [])
    assert outputs.w.dtype == given
    np.testing.assert_array_equal(outputs.w, array)
    same = native.Caffe2Backend()._build_tensor_filling_op(
        numpy_helper.from_array(array, "w").SerializeToString(), ""
    )
    assert OperatorDef.FromString(same) == fill


def test_tensors_of_texts_and_those_that_no_fill_holds() -> None:
    texts = numpy_helper.from_array(np.array(["a", "b"], object), "t")
    fill = backend.Caffe2Backend._create_tensor_filling_op(texts)
    assert list(tools.c2_native_run_op(fill, [])[1].t) == [b"a", b"b"]
    half = numpy_helper.from_array(np.ones(2, np.float16), "h")
    with pytest.raises(RuntimeError, match=r"'h' is of TensorProto\.FLOAT16, which no fill can hold"):
        backend.Caffe2Backend._create_tensor_filling_op(half)
    half.name = ""
    with pytest.raises(RuntimeError, match="without a name"):
        backend.Caffe2Backend._create_tensor_filling_op(half)


# ---- Caffe2's own operators --------------------------------------------------------------------------


@pytest.mark.parametrize("domain", ["", "org.pytorch._caffe2"])
def test_operators_of_caffe2_stay_what_they_are(domain: str) -> None:
    node = helper.make_node("Scale", ["x"], ["y"], scale=2.0, domain=domain)
    model = _model(node, _info("x", 2, 3))
    if domain:
        model.opset_import.append(helper.make_opsetid(domain, 1))
    op = caffe2.from_onnx(model).predict_net.op[0]
    assert (op.type, op.arg[0].name, op.arg[0].f) == ("Scale", "scale", 2.0)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(backend.run_model(model, [x]).y, 2 * x)


def test_forms_of_them_that_caffe2_does_not_have_are_refused() -> None:
    gap = helper.make_node("FC", ["x", "", "x"], ["y"])
    with pytest.raises(UnsupportedOperatorError, match=r"FC.*left out in between"):
        caffe2.from_onnx(_model(gap, _info("x", 2, 3)))
    value = numpy_helper.from_array(np.ones(1, np.float32))
    tensor = helper.make_node("Scale", ["x"], ["y"], scale=value)
    with pytest.raises(UnsupportedOperatorError, match="attribute 'scale' is neither"):
        caffe2.from_onnx(_model(tensor, _info("x", 2, 3)))
    unknown = _model(helper.make_node("Nothing", ["x"], ["y"], domain="org.pytorch._caffe2"), _info("x", 2))
    unknown.opset_import.append(helper.make_opsetid("org.pytorch._caffe2", 1))
    with pytest.raises(UnsupportedOperatorError, match="no operator of that type"):
        caffe2.from_onnx(unknown)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (([0, 0], [-1, 4]), np.s_[:-1, :4]),
        (([-9, -2], [9, 9]), np.s_[-9:9, -2:]),
        (([0, 1], [4, 5], [1, 0]), np.s_[1:5, 0:4]),
        (([-3, 0], [-1, 1], [-1, -2]), np.s_[0:1, -3:-1]),
    ],
)
def test_a_slice_with_bounds_that_are_computed(bounds: tuple[list[int], ...], expected: Any) -> None:
    """As the operator was when it was tried out, of types that the model says otherwise."""
    names = ["x", "starts", "ends", "axes"][: len(bounds) + 1]
    infos = [_info(name, 1, 2, dtype=TensorProto.INT32) for name in names[1:]]
    x = np.arange(8).reshape(2, 4)
    rep = backend.prepare(_model(helper.make_node("DynamicSlice", names, ["y"]), _info("x", 2, 4), *infos))
    np.testing.assert_array_equal(rep.run([x, *map(np.array, bounds)]).y, x[expected])


# ---- nodes as objects --------------------------------------------------------------------------------


def test_nodes_and_attributes_as_objects() -> None:
    node = backend.OnnxNode(helper.make_node("Pad", ["x"], ["y"], "n", pads=[1, 2], mode="edge", value=0.5))
    assert (node.name, node.op_type, node.inputs, node.outputs) == ("n", "Pad", ["x"], ["y"])
    assert node.attrs == {"pads": [1, 2], "mode": b"edge", "value": 0.5}
    named = {arg.name: arg for arg in node.attrs.caffe2(lambda name: {"mode": ""}.get(name, f"c2_{name}"))}
    assert list(named["c2_pads"].ints) == [1, 2]
    assert set(named) == {"c2_pads", "c2_value"}
    assert backend.force_unicode(b"a") == backend.force_unicode("a") == "a"
    graph = helper.make_attribute("body", helper.make_graph([], "g", [], []))
    with pytest.raises(InvalidArgumentError, match="'body' is of the kind graph"):
        backend.convertAttributeProto(graph)
