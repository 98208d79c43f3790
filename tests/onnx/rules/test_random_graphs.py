"""Random graphs of elementwise operators: fan-out, broadcasting, selections, any mixture of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import on_onnxruntime

SHAPES = [(2, 3), (3,), (2, 1), (), (1, 3), (4, 1, 1)]
UNARY = [
    "Tanh",
    "Sigmoid",
    "Softplus",
    "Abs",
    "Neg",
    "Relu",
    "Softsign",
    "Elu",
    "Sin",
    "Identity",
    "LeakyRelu",
]
BINARY = ["Add", "Sub", "Mul", "Max", "Min", "Sum", "PRelu"]
SAFE = ["Log", "Sqrt", "Reciprocal", "Pow", "Div"]  # of an operand that is made at least 1
SELECTIVE = ["Where", "Clip", "Dropout"]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of some inputs, one float64 output and a chain of operators, each on values made before."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    shapes = draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=3))
    feeds = {f"x{k}": np.asarray(np.round(rng.normal(size=shape), 3)) for k, shape in enumerate(shapes)}
    ranks = {name: array.ndim for name, array in feeds.items()}
    nodes: list[onnx.NodeProto] = []

    def write(kind: str, *operands: str) -> str:
        out = f"v{len(nodes)}"
        nodes.append(helper.make_node(kind, list(operands), [out]))
        ranks[out] = max(ranks.get(name, 0) for name in operands if name)
        return out

    last = "x0"
    for kind in draw(st.lists(st.sampled_from(UNARY + BINARY + SAFE + SELECTIVE), min_size=1, max_size=8)):
        a, b = (draw(st.sampled_from(sorted(ranks))) for _ in range(2))
        if kind == "PRelu" and ranks[b] > ranks[a]:
            a, b = b, a
        if kind in UNARY:
            last = write(kind, a)
        elif kind in BINARY:
            if kind == "PRelu":
                b = draw(st.sampled_from(["half", "two"]))
            last = write(kind, a, b)
        elif kind in SAFE:
            large = write("Add", write("Mul", a, a), "one")
            last = write(kind, b, large) if kind == "Div" else write(kind, large)
            if kind == "Pow":
                nodes[-1].input.append("two")
        elif kind == "Where":
            condition = write("Greater", a, "half")
            last = write("Where", condition, a, b)
            del ranks[condition]
        elif kind == "Clip":
            last = write("Clip", a, "minus", "half")
        else:
            last = write("Dropout", a)
    values = {"one": 1.0, "half": 0.5, "two": 2.0, "minus": -0.5}
    graph = helper.make_graph(
        nodes,
        "random",
        [helper.make_tensor_value_info(n, TensorProto.DOUBLE, list(a.shape)) for n, a in feeds.items()],
        [onnx.ValueInfoProto(name=last)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True), feeds


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_gradients_of_random_graphs(drawn: tuple[onnx.ModelProto, dict[str, np.ndarray]]) -> None:
    model, feeds = drawn
    forward = on_onnxruntime(model)
    assert forward is not None
    out = model.graph.output[0].name
    result = differentiate(model, wrt=list(feeds), of=out)
    proto = ir.to_proto(result.model)
    onnx.checker.check_model(proto, full_check=True)
    backward = on_onnxruntime(proto)
    assert backward is not None
    needed = {value.name for value in proto.graph.input}
    got = backward({name: array for name, array in feeds.items() if name in needed})
    step = 1e-5
    for name, array in feeds.items():
        gradient = got[result.outputs[name]]
        assert gradient.shape == array.shape
        want = np.zeros_like(array)
        for index in np.ndindex(*array.shape):
            low, high = array.copy(), array.copy()
            high[index] += step
            low[index] -= step
            difference = forward({**feeds, name: high})[out].sum() - forward({**feeds, name: low})[out].sum()
            want[index] = difference / (high[index] - low[index])
        np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=1e-4)
