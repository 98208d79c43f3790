from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper

from netgrad.onnx.edit import all_values
from netgrad.runtime.differences import float_types
from netgrad.runtime.double_kernels import with_double_kernels
from netgrad.runtime.float64 import narrowed, to_float64
from netgrad.runtime.reference import ReferenceSession
from netgrad.runtime.session import Session
from tests.runtime.models import FLOAT, model, node, numbers

FLOAT16 = onnx.TensorProto.FLOAT16


def test_everything_becomes_float64_and_the_model_stays():
    proto = model(
        [
            node("Constant", "", "c", value=onnx.numpy_helper.from_array(np.float32([0.5, 2]))),
            node("Constant", "", "f", value_float=0.1),
            node("Constant", "", "g", value_floats=[1.0, 3.0]),
            node("Cast", "x", "narrow", to=FLOAT16),
            node("Cast", "narrow", "back", to=FLOAT),
            node("Shape", "x", "s"),
            node("ConstantOfShape", "s", "z"),
            node("EyeLike", "square", "eye", dtype=FLOAT),
            node("MatMul", "back eye", "p"),
            node("Sum", "p c f g z w", "y"),
        ],
        {"x": (FLOAT, ["N", 2]), "square": (FLOAT, [2, 2])},
        {"y": FLOAT},
        {"w": numbers(2)},
    )
    before = proto.SerializeToString()
    wide = to_float64(proto)
    assert proto.SerializeToString() == before
    assert float_types(wide) == {onnx_ir.DataType.DOUBLE}
    x = numbers(3, 2)
    result = Session(wide).run({"x": x, "square": np.zeros((2, 2))})["y"]
    assert result.dtype == np.float64
    constants = np.array([0.5 + 1, 2 + 3]) + np.float64(np.float32(0.1))
    expected = x.astype(np.float64) + constants + numbers(2).astype(np.float64)
    np.testing.assert_allclose(result, expected, rtol=1e-15)


def test_inner_graphs_and_functions_are_changed_too():
    branch = [
        model([node("Mul", "x k", "z")], {}, {"z": FLOAT}, {"k": np.float32([3])}).graph,
        model([node("Cast", "x", "a", to=FLOAT16), node("Cast", "a", "z", to=FLOAT)], {}, {"z": FLOAT}).graph,
    ]
    proto = model(
        [
            node("If", "choice", "h", then_branch=branch[0], else_branch=branch[1]),
            helper.make_node("Twice", ["h"], ["y"], domain="my"),
        ],
        {"x": (FLOAT, [2]), "choice": (onnx.TensorProto.BOOL, [])},
        {"y": FLOAT},
    )
    proto.functions.append(
        helper.make_function(
            "my",
            "Twice",
            ["a"],
            ["b"],
            [node("Constant", "", "two", value_float=2.0), node("Mul", "a two", "b")],
            [helper.make_opsetid("", 18)],
        )
    )
    proto.opset_import.append(helper.make_opsetid("my", 1))
    session = Session(to_float64(proto))
    x = np.array([0.1, 1 / 3])
    np.testing.assert_array_equal(session.run({"x": x, "choice": True})["y"], x * 3 * 2)
    np.testing.assert_array_equal(session.run({"x": x, "choice": False})["y"], x * 2)


@pytest.mark.parametrize(
    ("op", "opset", "shapes"),
    [
        (node("GroupNormalization", "a b c", "y", num_groups=2), 21, [(2, 4, 5), (4,), (4,)]),
        (node("RMSNormalization", "a b", "y"), 23, [(2, 4, 5), (5,)]),
        (node("LayerNormalization", "a b", "y"), 18, [(2, 4, 5), (5,)]),
    ],
)
def test_normalisations_compute_in_float64(op, opset, shapes):
    arrays = {
        name: numbers(*shape, seed=k) for k, (name, shape) in enumerate(zip("abc", shapes, strict=False))
    }
    proto = model(
        [op], {name: (FLOAT, array.shape) for name, array in arrays.items()}, {"y": FLOAT}, opset=opset
    )
    a = arrays["a"].astype(np.float64)
    if op.op_type == "GroupNormalization":
        grouped = a.reshape(2, 2, -1)
        normal = (grouped - grouped.mean(-1, keepdims=True)) / np.sqrt(
            grouped.var(-1, keepdims=True) + np.float32(1e-5)
        )
        expected = normal.reshape(a.shape) * arrays["b"][:, None] + arrays["c"][:, None]
    elif op.op_type == "RMSNormalization":
        expected = a / np.sqrt((a**2).mean(-1, keepdims=True) + np.float32(1e-5)) * arrays["b"]
    else:
        expected = (
            (a - a.mean(-1, keepdims=True))
            / np.sqrt(a.var(-1, keepdims=True) + np.float32(1e-5))
            * arrays["b"]
        )
    result = Session(to_float64(proto)).run(arrays)["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


def test_what_is_float32_by_definition_keeps_its_type_behind_casts():
    proto = model(
        [node("Mul", "s two", "scales"), node("Resize", "x a scales", "y", mode="linear")],
        {"x": (FLOAT, [1, 1, 3, 4]), "s": (FLOAT, [4])},
        {"y": FLOAT},
        {"two": np.float32([1, 1, 1, 1])},
    )
    proto.graph.node[1].input[1] = ""
    x, s = numbers(1, 1, 3, 4), np.float32([1, 1, 2, 2])
    result = ReferenceSession(to_float64(proto)).run({"x": x, "s": s})["y"]
    assert result.dtype == np.float64
    np.testing.assert_allclose(result, Session(proto).run({"x": x, "s": s})["y"], rtol=1e-6, atol=1e-6)


def test_outputs_that_are_float32_by_definition_are_cast_behind():
    proto = model(
        [node("DequantizeLinear", "q s", "d"), node("Mul", "d x", "y")],
        {"x": (FLOAT, [3]), "s": (FLOAT, []), "q": (onnx.TensorProto.UINT8, [3])},
        {"y": FLOAT, "d": FLOAT},
    )
    x, q = np.array([-1, 0.5, 2]) / 3, np.array([1, 7, 255], np.uint8)
    wide = to_float64(proto)
    result = Session(wide).run({"x": x, "s": 0.1, "q": q})
    assert {array.dtype for array in result.values()} == {np.dtype(np.float64)}
    np.testing.assert_array_equal(result["d"], q * np.float32(0.1))
    np.testing.assert_array_equal(result["y"], x * result["d"])
    assert narrowed(wide, ["s"])
    assert not narrowed(wide, ["x"])


@pytest.mark.parametrize(
    ("op", "opset", "outputs"),
    [
        (node("DynamicQuantizeLinear", "x", "q y z"), 18, {"y": FLOAT}),
        (node("LayerNormalization", "x w", "y mean deviation"), 18, {"y": FLOAT, "mean": FLOAT}),
        (node("RotaryEmbedding", "x c c", "y"), 23, {"y": FLOAT}),
        (node("CausalConvWithState", "x k", "y state"), 27, {"y": FLOAT, "state": FLOAT}),
    ],
)
def test_what_runtimes_compute_in_float32_is_expanded(op, opset, outputs):
    """Third differences over points close together see no noise of float32."""
    shapes = {"x": (2, 3, 4) if "Rotary" not in op.op_type else (2, 1, 3, 4), "w": (4,), "c": (2, 3, 2)}
    shapes["k"] = (3, 1, 2)
    taken = {name: (FLOAT, shapes[name]) for name in op.input}
    session = Session(with_double_kernels(to_float64(model([op], taken, outputs, opset=opset))))
    arrays = {name: numbers(*shapes[name], seed=k) for k, name in enumerate(taken)}
    x = arrays["x"].astype(np.float64)
    moved = [session.run({**arrays, "x": x + k * 2.0**-20 * numbers(*x.shape, seed=7)}) for k in range(4)]
    for name in outputs:
        third = np.diff([result[name] for result in moved], 3, axis=0)
        assert np.abs(third).max() < 1e-10


def test_sequences_of_floats():
    proto = model(
        [
            node("SequenceEmpty", "", "e"),
            node("SequenceInsert", "e x", "q"),
            node("SequenceAt", "q zero", "y"),
        ],
        {"x": (FLOAT, [2])},
        {"y": FLOAT},
        {"zero": np.array(0)},
    )
    x = np.array([1 / 3, 2])
    np.testing.assert_array_equal(Session(to_float64(proto)).run({"x": x})["y"], x)


def test_integers_stay():
    wide = to_float64(model([node("Shape", "x", "y")], {"x": (FLOAT, [2, 3])}, {"y": 7}))
    assert {value.dtype for value in all_values(wide)} == {onnx_ir.DataType.DOUBLE, onnx_ir.DataType.INT64}
