"""Which initializers are weights, and why."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import helper

from netgrad.onnx.expand import expand
from netgrad.onnx.prepare import prepare
from netgrad.onnx.weights import initializer_roles, weight_names
from tests.onnx.models import Array, model, node, normal

X = normal(1, 2, 3, 8, 8)


def _case(
    nodes: list[onnx.NodeProto], initializers: dict[str, Array], inputs: dict[str, Array] | None = None
) -> onnx.ModelProto:
    outputs = [nodes[-1].output[0]]
    return model(nodes, inputs or {"x": X}, outputs, initializers=initializers, symbolic=False)


def _one(op_type: str, position: int, shape: tuple[int, ...], x: Array = X) -> onnx.ModelProto:
    """x and an initializer w in one operator."""
    inputs = ["x"] * (position + 1)
    inputs[position] = "w"
    if position == 0:
        inputs.append("x")
    return _case([node(op_type, inputs, ["y"])], {"w": normal(2, *shape)}, {"x": x})


ROWS = normal(1, 5, 8)
SEQUENCE = normal(1, 5, 2, 8)

KERNEL = {"k": normal(2, 4, 3, 3, 3)}
WEIGHTS: dict[str, tuple[onnx.ModelProto, list[str]]] = {
    "conv": (
        _case([node("Conv", ["x", "k", "b"], ["y"])], KERNEL | {"b": normal(3, 4)}),
        ["k", "b"],
    ),
    "conv-transpose": (
        _case(
            [node("ConvTranspose", ["x", "k", "b"], ["y"])], {"k": normal(2, 3, 4, 2, 2), "b": normal(3, 4)}
        ),
        ["k", "b"],
    ),
    "gemm": (
        _case([node("Gemm", ["x", "w", "b"], ["y"])], {"w": normal(2, 8, 4), "b": normal(3, 4)}, {"x": ROWS}),
        ["w", "b"],
    ),
    "matmul-right": (_one("MatMul", 1, (8, 4), ROWS), ["w"]),
    "matmul-left": (_one("MatMul", 0, (4, 5), ROWS), ["w"]),
    "embedding": (
        _case([node("Gather", ["table", "i"], ["y"])], {"table": normal(2, 9, 4)}, {"i": np.array([1, 2])}),
        ["table"],
    ),
    "positions": (
        _case(
            [
                node("Shape", ["x"], ["n"], start=0, end=1),
                node("Slice", ["table", "zero", "n", "zero"], ["p"]),
                node("Add", ["x", "p"], ["y"]),
            ],
            {"table": normal(2, 9, 8), "zero": np.array([0])},
            {"x": ROWS},
        ),
        ["table"],
    ),
    "batch-norm": (
        _case(
            [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
            {"s": normal(2, 3), "b": normal(3, 3), "m": normal(4, 3), "v": np.abs(normal(5, 3))},
        ),
        ["s", "b"],
    ),
    "layer-norm": (
        _case(
            [node("LayerNormalization", ["x", "s", "b"], ["y"])],
            {"s": normal(2, 8), "b": normal(3, 8)},
        ),
        ["s", "b"],
    ),
    "prelu": (_one("PRelu", 1, (3, 1, 1)), ["w"]),
    "lstm": (
        _case(
            [node("LSTM", ["x", "w", "r", "b", "", "h", "c", "p"], ["y"], hidden_size=5)],
            {
                "w": normal(2, 1, 20, 8),
                "r": normal(3, 1, 20, 5),
                "b": normal(4, 1, 40),
                "h": normal(5, 1, 2, 5),
                "c": normal(6, 1, 2, 5),
                "p": normal(7, 1, 15),
            },
            {"x": SEQUENCE},
        ),
        ["w", "r", "b", "p"],
    ),
    "einsum": (
        _case([node("Einsum", ["w", "x"], ["y"], equation="kd,nd->nk")], {"w": normal(2, 4, 8)}, {"x": ROWS}),
        ["w"],
    ),
    **{
        f"elementwise-{op_type}-{position}": (_one(op_type, position, (3, 1, 1)), ["w"])
        for op_type in ("Add", "Sub", "Mul", "Div", "Min", "Max", "Pow", "Sum", "Mean")
        for position in (0, 1)
    },
    "where": (
        _case(
            [node("Where", ["c", "x", "w"], ["y"])],
            {"w": normal(2, 8)},
            {"x": ROWS, "c": np.ones((5, 8), bool)},
        ),
        ["w"],
    ),
    "through-moves": (
        _case(
            [
                node("Transpose", ["w"], ["t"], perm=[1, 0]),
                node("Cast", ["t"], ["f"], to=onnx.TensorProto.FLOAT),
                node("Reshape", ["f", "shape"], ["r"]),
                node("Identity", ["r"], ["i"]),
                node("MatMul", ["x", "i"], ["y"]),
            ],
            {"w": normal(2, 4, 8).astype(np.float16), "shape": np.array([8, 4])},
            {"x": ROWS},
        ),
        ["w"],
    ),
    "weight-normalisation": (
        _case(
            [
                node("ReduceL2", ["v", "axes"], ["n"]),
                node("Div", ["v", "n"], ["u"]),
                node("Mul", ["g", "u"], ["w"]),
                node("MatMul", ["x", "w"], ["y"]),
            ],
            {"v": normal(2, 8, 4), "g": normal(3, 1, 4), "axes": np.array([0])},
            {"x": ROWS},
        ),
        ["v", "g"],
    ),
    "class-token": (
        _case([node("Concat", ["token", "x"], ["y"], axis=0)], {"token": normal(2, 1, 8)}, {"x": ROWS}),
        ["token"],
    ),
    "named-scalar": (
        _case(
            [node("Exp", ["logit_scale"], ["e"]), node("Mul", ["x", "e"], ["y"])],
            {"logit_scale": np.array(2.0, np.float32)},
        ),
        ["logit_scale"],
    ),
    "tied": (
        _case(
            [
                node("Gather", ["table", "i"], ["h"]),
                node("Transpose", ["table"], ["t"], perm=[1, 0]),
                node("MatMul", ["h", "t"], ["y"]),
            ],
            {"table": normal(2, 9, 4)},
            {"i": np.array([1, 2])},
        ),
        ["table"],
    ),
    "double": (
        _case(
            [node("MatMul", ["x", "w"], ["y"])],
            {"w": normal(2, 8, 4).astype(np.float64)},
            {"x": ROWS.astype(np.float64)},
        ),
        ["w"],
    ),
}

CONSTANTS: dict[str, onnx.ModelProto] = {
    "clip-bounds": _case(
        [node("Clip", ["x", "a", "b"], ["y"])],
        {"a": np.array(-1, np.float32), "b": np.array(6, np.float32)},
    ),
    "pad-value": _case(
        [node("Pad", ["x", "p", "v"], ["y"])],
        {"p": np.zeros(8, np.int64), "v": np.array(0.5, np.float32)},
    ),
    "resize-scales": _case(
        [node("Resize", ["x", "", "s"], ["y"])], {"s": np.array([1, 1, 2, 2], np.float32)}
    ),
    "dropout-ratio": _case([node("Dropout", ["x", "r"], ["y"])], {"r": np.array(0.5, np.float32)}),
    "half-from-constant": _case(
        [node("Constant", [], ["gamma"], value_float=0.5), node("Mul", ["x", "gamma"], ["y"])], {}
    ),
    "one-element-from-constant": _case(
        [node("Constant", [], ["c"], value_floats=[0.5]), node("Mul", ["x", "c"], ["y"])], {}
    ),
    "unnamed-scalar": _case([node("Mul", ["x", "val_7"], ["y"])], {"val_7": np.array(0.125, np.float32)}),
    "exponent": _case([node("Pow", ["x", "two"], ["y"])], {"two": np.array(2, np.float32)}),
    "epsilon": _case([node("Add", ["x", "eps"], ["y"])], {"eps": np.array([1e-5], np.float32)}),
    "infinite-mask": _case(
        [node("Add", ["x", "mask"], ["y"])], {"mask": np.triu(np.full((8, 8), -np.inf, np.float32), 1)}
    ),
    "large-mask": _case(
        [node("Add", ["x", "mask"], ["y"])], {"mask": np.triu(np.full((8, 8), -1e9, np.float32), 1)}
    ),
    "joined-zeros": _case(
        [node("Concat", ["x", "z"], ["y"], axis=0)], {"z": np.zeros((2, 8), np.float32)}, {"x": ROWS}
    ),
    "comparison": _case([node("Greater", ["x", "t"], ["y"])], {"t": normal(2, 8)}),
    "one-hot-values": _case(
        [node("OneHot", ["i", "n", "v"], ["y"])],
        {"n": np.array(4), "v": np.array([0, 1], np.float32)},
        {"i": np.array([1, 2])},
    ),
    "range": _case(
        [node("Range", ["a", "n", "d"], ["r"]), node("Identity", ["r"], ["y"])],
        {"a": np.array(0, np.float32), "d": np.array(1, np.float32)},
        {"n": np.array(5, np.float32)},
    ),
    "integers": _case([node("Add", ["x", "w"], ["y"])], {"w": np.array([1, 2])}, {"x": np.array([3, 4])}),
    "unused": _case([node("Neg", ["x"], ["y"])], {"w": normal(2, 3)}),
    "only-an-output": _case([node("Neg", ["x"], ["z"]), node("Identity", ["w"], ["y"])], {"w": normal(2, 3)}),
}


@pytest.mark.parametrize("case", WEIGHTS, ids=str)
def test_parameters_are_weights(case: str) -> None:
    proto, expected = WEIGHTS[case]
    assert weight_names(prepare(proto).model) == expected


@pytest.mark.parametrize("case", CONSTANTS, ids=str)
def test_constants_are_none(case: str) -> None:
    assert weight_names(prepare(CONSTANTS[case]).model) == []


def test_every_floating_initializer_has_a_role_and_a_reason() -> None:
    proto, _ = WEIGHTS["batch-norm"]
    roles = {entry.name: entry for entry in initializer_roles(prepare(proto).model)}
    assert [(name, entry.role, entry.is_weight) for name, entry in roles.items()] == [
        ("s", "scale", True),
        ("b", "bias", True),
        ("m", "running mean", False),
        ("v", "running variance", False),
    ]
    assert roles["m"].reason.startswith("running mean of BatchNormalization node 'BatchNormalization")
    assert roles["s"].reason.startswith("scale of BatchNormalization node 'BatchNormalization")


def test_a_running_statistic_is_no_weight_whatever_else_reads_it() -> None:
    nodes = [node("BatchNormalization", ["x", "s", "b", "m", "m"], ["h"]), node("Mul", ["h", "m3"], ["y"])]
    nodes.insert(0, node("Unsqueeze", ["m", "axes"], ["m3"]))
    proto = _case(
        nodes, {"s": normal(2, 3), "b": normal(3, 3), "m": np.ones(3, np.float32), "axes": np.array([1, 2])}
    )
    assert weight_names(prepare(proto).model) == ["s", "b"]


def test_what_was_a_constant_stays_one_in_a_file() -> None:
    nodes = [
        node("Constant", [], ["gamma"], value_floats=[0.5]),
        node("Mul", ["x", "gamma"], ["h"]),
        node("Softplus", ["h"], ["y"]),
    ]
    prepared = prepare(_case(nodes, {})).model
    expand(prepared, lambda n: n.op_type == "Softplus")
    assert len(prepared.graph.initializers) > 1
    again = prepare(onnx_ir.to_proto(prepared).SerializeToString()).model
    # A constant of the expansion that was folded into another is dropped when the model is read again.
    assert 1 < len(again.graph.initializers) <= len(prepared.graph.initializers)
    assert set(again.graph.initializers) <= set(prepared.graph.initializers)
    assert weight_names(again) == []


def test_weights_inside_branches_and_loops_are_found() -> None:
    def branch(name: str, weight: str) -> onnx.GraphProto:
        return helper.make_graph(
            [node("MatMul", ["x", weight], [f"{name}_y"])],
            name,
            [],
            [helper.make_value_info(f"{name}_y", onnx.TypeProto())],
        )

    choice = node("If", ["c"], ["y"], then_branch=branch("t", "v"), else_branch=branch("e", "w"))
    inputs = {"x": ROWS, "c": np.array(True)}
    proto = model(
        [choice], inputs, initializers={"v": normal(2, 8, 4), "w": normal(3, 8, 4), "u": normal(4, 8)}
    )
    assert weight_names(prepare(proto).model) == ["v", "w"]


def test_the_state_that_a_loop_starts_with_is_no_weight() -> None:
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["s2"]), node("Identity", ["go"], ["go2"])],
        "body",
        [
            helper.make_tensor_value_info("i", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("go", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [5, 8]),
        ],
        [
            helper.make_tensor_value_info("go2", onnx.TensorProto.BOOL, []),
            helper.make_tensor_value_info("s2", onnx.TensorProto.FLOAT, [5, 8]),
        ],
    )
    proto = model(
        [node("Loop", ["n", "", "s0"], ["y"], body=body)],
        {"x": ROWS, "n": np.array(3)},
        initializers={"s0": normal(2, 5, 8)},
    )
    assert weight_names(prepare(proto).model) == []


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("folded_211", 1.0, []),
        ("folded_211", -0.5, []),
        ("folded_211", 0.37, ["folded_211"]),
        ("layer.scale", 1.0, ["layer.scale"]),
    ],
)
def test_a_single_round_number_is_a_weight_only_by_its_name(
    name: str, value: float, found: list[str]
) -> None:
    """Exporters write the numbers of a Gelu as tensors of one element, of any rank."""
    proto = _case([node("Add", ["x", name], ["y"])], {name: np.full((1, 1, 1), value, np.float32)})
    assert weight_names(prepare(proto).model) == found
