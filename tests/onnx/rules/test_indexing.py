"""What the table cannot say of shape and indexing rules: short forms, threads, half precision, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import netgrad
from netgrad.transforms.grad import differentiate

Shape = Sequence[int | str | None] | None


def model(
    op_type: str,
    x: Shape,
    constants: Sequence[Any] = (),
    *,
    fed: Sequence[tuple[type, Sequence[int]]] = (),
    outputs: int | Sequence[str] = 1,
    of: Sequence[str] = ("y0",),
    y_rank: int | None = None,
    dtype: int = TensorProto.FLOAT,
    opset: int = 19,
    **attributes: Any,
) -> onnx.ModelProto:
    """One operator on input x0 of shape ``x``, further inputs ``fed``, then constants (None: left out)."""
    inputs = [helper.make_tensor_value_info("x0", dtype, x)]
    initializers, names = [], ["x0"]
    for k, (kind, dims) in enumerate(fed, start=1):
        inputs.append(
            helper.make_tensor_value_info(f"x{k}", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), dims)
        )
        names.append(f"x{k}")
    for content in constants:
        names.append("" if content is None else f"x{len(names)}")
        if content is not None:
            initializers.append(numpy_helper.from_array(np.asarray(content), names[-1]))
    made = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op_type, names, made, name="node", **attributes)
    rank = None if y_rank is None else [None] * y_rank
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_tensor_value_info(name, dtype, rank) for name in of], initializers
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def written(source: onnx.ModelProto, of: Sequence[str] = ("y0",)) -> list[str]:
    """Types of the gradient's operators, in order."""
    result = differentiate(source, wrt=["x0"], of=list(of), cotangent="input")
    return [node.op_type for node in result.model.graph if node.name != "node"]


SHORT = [
    (model("Reshape", [2, 3, 4], [[6, 4]]), ["Reshape"]),
    (model("Reshape", ["N", 3, 4], [[-1, 12]]), ["Reshape"]),
    (model("Flatten", ["N", 3, 4]), ["Reshape"]),
    (model("Transpose", ["N", "H", "W"], perm=[0, 2, 1]), ["Transpose"]),
    (model("Transpose", None, y_rank=2), ["Transpose"]),
    (model("Squeeze", ["N", 1, "H"], [[1]]), ["Unsqueeze"]),
    (model("Unsqueeze", ["N", "H"], [[0]]), ["Squeeze"]),
    (model("Expand", ["N", 1], [[1, 5]]), ["ReduceSum"]),
    (model("Tile", ["N", 3], [[1, 2]]), ["Reshape", "ReduceSum"]),
    (model("Split", ["N", 6], [[4, 2]], outputs=2, of=["y0", "y1"], axis=1), ["Concat"]),
    (model("Split", ["N", 6], [[4, 2]], outputs=2, axis=1), ["Pad"]),
    (model("Slice", ["N", 6], [[1], [-1], [1]]), ["Pad"]),
    (model("Slice", ["N", 6, 5], [[1, 0], [5, 2], [1, 2]]), ["Pad"]),
    (model("Slice", ["N", 6], [[5], [-100], [1], [-1]]), ["Slice"]),
    (model("Slice", ["N", 6, "C"], [[0], [6], [1], [2]]), ["Pad", "Gather"]),
    (model("Slice", ["N", "T"], [[0], [-1], [1]]), ["Shape", "Shape", "Sub", "Concat", "Pad"]),
    (model("Pad", ["N", "H"], [[0, 1, 0, 2]]), ["Slice"]),
    (model("Pad", ["N", "H"], [[0, 1, 0, -2]]), ["Pad"]),
    (model("Gather", ["N", 6, "C"], [1], axis=1), ["Unsqueeze", "Pad"]),
    (model("Gather", ["N", "T", 3], [0], axis=1), ["Unsqueeze", "Shape", "Sub", "Concat", "Pad"]),
    (model("Gather", ["N", 4, "C"], [[2, 0, 3, 1]], axis=1), ["Gather"]),
    (
        model("Gather", [9, 4], fed=[(np.int64, [3])]),
        ["Reshape", "Expand", "ConstantOfShape", "ScatterElements"],
    ),
    (model("GatherElements", [9, 4], fed=[(np.int64, [3, 2])]), ["ConstantOfShape", "ScatterElements"]),
    (model("TopK", [9, 4], [[2]], outputs=2), ["ConstantOfShape", "ScatterElements"]),
    (model("DepthToSpace", ["N", 8, "H", "W"], blocksize=2), ["SpaceToDepth"]),
    (model("DepthToSpace", ["N", 8, "H", "W"], blocksize=2, mode="CRD"), ["SpaceToDepth", "Gather"]),
    (model("SpaceToDepth", ["N", 2, "H", "W"], blocksize=2), ["DepthToSpace"]),
    (model("Trilu", ["N", "T", "T"]), ["Trilu"]),
    (model("ReverseSequence", ["T", "N"], fed=[(np.int64, ["N"])]), ["ReverseSequence"]),
]


@pytest.mark.parametrize(
    ("source", "expected"), SHORT, ids=[f"{k}-{row[0].graph.node[0].op_type}" for k, row in enumerate(SHORT)]
)
def test_the_short_form_is_written(source: onnx.ModelProto, expected: list[str]) -> None:
    of = [output.name for output in source.graph.output]
    assert sorted(written(source, of)) == sorted(expected)


def test_concat_is_one_split_and_a_single_part_one_slice() -> None:
    inputs = [helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, ["N", k + 1]) for k in range(3)]
    node = helper.make_node("Concat", ["x0", "x1", "x2"], ["y0"], name="node", axis=1)
    graph = helper.make_graph(
        [node], "one", inputs, [helper.make_tensor_value_info("y0", TensorProto.FLOAT, ["N", 6])]
    )
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    for wrt, expected in ((["x0", "x1", "x2"], ["Split"]), (["x1"], ["Slice"])):
        result = differentiate(source, wrt=wrt, of=["y0"], cotangent="input")
        assert [n.op_type for n in result.model.graph if n.name != "node"] == expected


@pytest.mark.parametrize(
    ("sizes", "outputs", "of"),
    [([1, 3, 2], ("y0", "", "y2"), ("y0", "y2")), ([1, 3, 2], ("", "y1", ""), ("y1",))],
)
@pytest.mark.parametrize("axis_size", [6, "T"])
def test_outputs_of_split_that_are_left_out(
    sizes: list[int], outputs: Sequence[str], of: Sequence[str], axis_size: int | str
) -> None:
    """On the reference evaluator: ONNX Runtime crashes when the model itself runs."""
    source = model("Split", [2, axis_size], [sizes], outputs=outputs, of=of, axis=1, y_rank=2)
    proto = ir.to_proto(netgrad.grad(source, wrt=["x0"], of=list(of), cotangent="input"))
    starts = np.cumsum([0, *sizes])
    x, expected = np.zeros((2, 6), np.float32), np.zeros((2, 6), np.float32)
    feed = {"x0": x}
    for k, name in enumerate(outputs):
        if name:
            part = np.arange(1.0, 2 * sizes[k] + 1, dtype=np.float32).reshape(2, -1)
            feed[f"{name}_grad"] = expected[:, starts[k] : starts[k + 1]] = part
    (gradient,) = ReferenceEvaluator(proto).run(["x0_grad"], feed)
    np.testing.assert_array_equal(gradient, expected)


# ---- repeated places -----------------------------------------------------------------------------------


@pytest.mark.parametrize("op_type", ["Gather", "GatherND"])
def test_rows_that_repeat_add_up_on_several_threads(op_type: str) -> None:
    """ONNX Runtime's ScatterND loses updates here in nearly every run; small integers add exactly."""
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, 20_000)
    seed = rng.integers(-3, 4, (20_000, 64)).astype(np.float32)
    expected = np.zeros((3, 64))
    np.add.at(expected, rows, seed)
    dims = [20_000] if op_type == "Gather" else [20_000, 1]
    source = model(op_type, [3, 64], fed=[(np.int64, dims)])
    proto = ir.to_proto(netgrad.grad(source, wrt=["x0"], cotangent="input"))
    assert isinstance(proto, onnx.ModelProto)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 4
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feed = {"x0": np.zeros((3, 64), np.float32), "x1": rows.reshape(dims), "y0_grad": seed}
    for _ in range(3):
        (gradient,) = session.run(["x0_grad"], feed)
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize(
    ("op_type", "dims"), [("Gather", [5000]), ("GatherElements", [5000, 1]), ("GatherND", [5000, 1])]
)
def test_many_equal_rows_do_not_stall_in_half_precision(op_type: str, dims: list[int]) -> None:
    """Adding ones in float16 would stop at 2048."""
    source = model(op_type, [2, 1], fed=[(np.int64, dims)], dtype=TensorProto.FLOAT16)
    result = netgrad.grad(source, wrt=["x0"])
    feed = {"x0": np.zeros((2, 1), np.float16), "x1": np.ones(dims, np.int64)}
    gradient = netgrad.run(result, feed)["x0_grad"]
    assert gradient.dtype == np.float16
    np.testing.assert_array_equal(gradient, [[0], [5000]])


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
@pytest.mark.parametrize("op_type", ["ScatterElements", "ScatterND"])
def test_reductions_in_half_precision(op_type: str, reduction: str) -> None:
    """The forward pass of most reductions has no float16 kernel; the gradient must not need one either."""
    source = model(
        op_type,
        [3, 1],
        fed=[(np.int64, [2, 1]), (np.float16, [2, 1])],
        dtype=TensorProto.FLOAT16,
        reduction=reduction,
    )
    proto = ir.to_proto(netgrad.grad(source, wrt=["x0", "x2"], of="y0"))
    assert isinstance(proto, onnx.ModelProto)
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    types = {value.name: value.type.tensor_type.elem_type for value in inferred.value_info}
    scattered = [n for n in inferred.node if n.name != "node" and n.op_type.startswith("Scatter")]
    assert {types[node.output[0]] for node in scattered} <= {TensorProto.FLOAT}
    assert bool(scattered) == (reduction != "add")


@pytest.mark.parametrize("zeros", [[], [0], [0, 1], [0, 1, 2], [3, 4]])
def test_third_derivatives_of_products(zeros: list[int]) -> None:
    """z = 2 u0 u1 u2 + 3 u3 u4: a product of the factors left, 0 by one factor twice."""
    update = np.array([1.5, -2.0, 0.75, 1.25, 0.5])
    update[zeros] = 0.0
    source = model("ScatterElements", [2], [[0, 0, 0, 1, 1]], dtype=TensorProto.DOUBLE, reduction="mul")
    source.graph.input.append(helper.make_tensor_value_info("u", TensorProto.DOUBLE, [5]))
    source.graph.node[0].input.append("u")
    first = differentiate(source, wrt=["u"], of="y0")
    second = differentiate(first.model, wrt=["u"], of=first.outputs["u"], cotangent="input")
    third = differentiate(second.model, wrt=["u"], of=second.outputs["u"], cotangent="input")
    (inner,), (outer,) = second.seeds.values(), third.seeds.values()
    for k, m in np.ndindex(3, 3):
        feed = {"x0": np.array([2.0, 3.0]), "u": update, inner: np.eye(5)[k], outer: np.eye(5)[m]}
        got = netgrad.run(third.model, feed)[third.outputs["u"]]
        want = np.zeros(5)
        if k != m:
            want[3 - k - m] = 2.0
        np.testing.assert_allclose(got, want, atol=1e-12)


# ---- what is not known -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op_type", "constants", "attributes", "y"),
    [
        ("Slice", [[1], [5], [-1], [2]], {}, lambda x: x[..., 1:5:2]),
        ("Slice", [[1], [3], [0]], {}, lambda x: x[1:3]),
        ("Pad", [[1, 2], None, [-1]], {"mode": "reflect"}, lambda x: np.pad(x, ((0, 0), (1, 2)), "reflect")),
        ("Pad", [[1, 2], None, [-1]], {"mode": "constant"}, lambda x: np.pad(x, ((0, 0), (1, 2)))),
        ("Reshape", [[-1]], {}, lambda x: x.reshape(-1)),
        ("Expand", [[2, 1, 1]], {}, lambda x: np.stack([x, x])),
        ("Squeeze", [], {}, lambda x: np.squeeze(x)),
        ("Compress", [[False, True, True]], {}, lambda x: x.ravel()[1:3]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_an_unknown_rank_is_found_at_run_time(
    op_type: str, constants: list[Any], attributes: dict[str, Any], y: Any
) -> None:
    x = np.arange(1.0, 22.0).reshape(3, 7)
    seed = np.random.default_rng(0).integers(-4, 5, y(x).shape).astype(np.float64)
    source = model(op_type, None, constants, y_rank=seed.ndim, dtype=TensorProto.DOUBLE, **attributes)
    result = netgrad.grad(source, wrt=["x0"], cotangent="input")
    gradient = netgrad.run(result, {"x0": x, "y0_grad": seed})["x0_grad"]
    expected = np.zeros(x.shape)
    for place in np.ndindex(*x.shape):  # all of these operators are linear
        unit = np.zeros(x.shape)
        unit[place] = 1.0
        expected[place] = (y(unit) * seed).sum()
    np.testing.assert_array_equal(gradient, expected)


# ---- any places --------------------------------------------------------------------------------------


def linear_gradient(source: onnx.ModelProto, feed: dict[str, np.ndarray], seed: np.ndarray) -> np.ndarray:
    """The gradient of input x0 of a model whose output is y0, for the cotangent ``seed``."""
    result = netgrad.grad(source, wrt=["x0"], cotangent="input")
    gradient: np.ndarray = netgrad.run(result, {**feed, "y0_grad": seed})["x0_grad"]
    return gradient


@st.composite
def gathers(draw: st.DrawFn) -> tuple[tuple[int, ...], int, list[int]]:
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = draw(st.integers(0, len(shape) - 1))
    size = draw(st.integers(1, 12))
    shape = (*shape[:axis], size, *shape[axis + 1 :])
    parts = draw(
        st.lists(
            st.one_of(
                st.lists(st.integers(-size, size - 1), max_size=8),
                st.just(list(range(size))),
                st.just(list(range(size))[::-1]),
                st.integers(0, size - 1).map(lambda place: [place] * 3),
            ),
            max_size=3,
        )
    )
    return shape, axis, [place for part in parts for place in part]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(gathers(), st.sampled_from(["constant", "constant, unknown dims", "run time"]))
def test_gather_adds_every_entry_back(row: tuple[tuple[int, ...], int, list[int]], known: str) -> None:
    """Whatever form the places call for: runs, rounds, or one by one."""
    shape, axis, places = row
    indices = np.asarray(places, dtype=np.int64)
    y_shape = (*shape[:axis], len(places), *shape[axis + 1 :])
    seed = np.random.default_rng(0).integers(-4, 5, y_shape).astype(np.float64)
    expected = np.zeros(shape)
    np.add.at(np.moveaxis(expected, axis, 0), indices, np.moveaxis(seed, axis, 0))
    x = np.zeros(shape)
    if known != "run time":
        dims = list(shape) if known == "constant" else [f"d{k}" for k in range(len(shape))]
        source = model("Gather", dims, [indices], dtype=TensorProto.DOUBLE, axis=axis)
        got = linear_gradient(source, {"x0": x}, seed)
    else:
        source = model("Gather", shape, fed=[(np.int64, indices.shape)], dtype=TensorProto.DOUBLE, axis=axis)
        got = linear_gradient(source, {"x0": x, "x1": indices}, seed)
    np.testing.assert_array_equal(got, expected)


BOUNDS = st.one_of(st.integers(-9, 9), st.sampled_from([-(1 << 62), 1 << 62]))
STEPS = st.integers(-3, 3).filter(bool)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.tuples(BOUNDS, BOUNDS, STEPS), min_size=2, max_size=2), st.integers(0, 2))
def test_slice_puts_every_entry_back(cuts: list[tuple[int, int, int]], unknown: int) -> None:
    """With everything constant; with unknown dims; with bounds, axes and steps at run time."""
    x = np.arange(30.0).reshape(6, 5)
    starts, ends, steps = (np.asarray(column) for column in zip(*cuts, strict=True))
    operands = [starts, ends, np.asarray([0, -1]), steps]
    feed = {"x0": x}
    if unknown == 2:
        source = model("Slice", [6, 5], fed=[(np.int64, [2])] * 4, dtype=TensorProto.DOUBLE, y_rank=2)
        feed |= {f"x{k}": operand for k, operand in enumerate(operands, start=1)}
    else:
        shape = ["N", "C"] if unknown else [6, 5]
        source = model("Slice", shape, operands, dtype=TensorProto.DOUBLE, y_rank=2)
    places = netgrad.run(source, feed)["y0"].astype(np.int64)
    seed = np.random.default_rng(0).integers(-4, 5, places.shape).astype(np.float64)
    expected = np.zeros(x.shape)
    expected.ravel()[places] = seed
    np.testing.assert_array_equal(linear_gradient(source, feed, seed), expected)


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        ("t = Transpose<perm = [2, 0, 1]>(s)  u = Slice(t, one, end, one)", [1]),
        ("t = Transpose<perm = [2, 0, 1]>(s)  u = Slice(t, zero, end, one)", [0, 1]),
        ("t = Transpose<perm = [2, 0, 1]>(s)  u = Gather<axis = 1>(t, places)", [0, 1]),
        ("u = Pad(s, pads, , one)", [0, 1]),  # a Pad behind the Transpose would not run even forward
    ],
)
def test_padding_between_transpositions_survives_the_optimizer(cut: str, kept: list[int]) -> None:
    """ONNX Runtime's optimizer takes a Pad for one of all axes; see `placing.pad_axes`."""
    text = f"""<ir_version: 10, opset_import: ["": 18]>
        net (float[a, b, 4] x, int64[1] end, int64[2] pads) => (float[p, q, r] y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}, int64[2] places = {{0, 1}}>
        {{ s = Mul(x, x)  {cut}  y = Transpose<perm = [1, 2, 0]>(u) }}"""
    gradient = netgrad.grad(onnx.parser.parse_model(text), wrt="x")
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    feeds = {"x": x, "end": np.array([2]), "pads": np.array([1, 2])}
    want = np.zeros_like(x)
    want[kept] = 2 * x[kept]
    np.testing.assert_allclose(netgrad.run(gradient, feeds, ["x_grad"])["x_grad"], want)
