from __future__ import annotations

import onnx
import onnx_ir
import pytest

from netgrad.core.errors import RuntimeFailureError
from netgrad.onnx.provenance import Provenance, from_properties, provenance_of, record
from netgrad.runtime.session import run
from netgrad.runtime.trace_error import node_in
from tests.runtime.models import DOUBLE, FLOAT, model, node, numbers


def failure(proto, inputs=None) -> str:
    with pytest.raises(RuntimeFailureError) as caught:
        run(proto, inputs or {})
    return str(caught.value)


def test_a_missing_kernel_names_the_node_its_types_and_what_to_do():
    proto = model(
        [node("Conv", "x w", "y", "stem")],
        {"x": (DOUBLE, [1, 1, 4, 5]), "w": (DOUBLE, [1, 1, 3, 2])},
        {"y": DOUBLE},
    )
    text = failure(proto)
    assert "NOT_IMPLEMENTED" in text
    assert "Could not find an implementation for Conv" in text
    assert (
        "at Conv node 'stem' (x: float64[1, 1, 4, 5], w: float64[1, 1, 3, 2] -> y: float64[1, 1, 2, 4])"
        in text
    )
    assert "hint: this ONNX Runtime has no float64 kernel for Conv" in text


def test_a_failure_at_run_time_names_the_node():
    proto = model(
        [node("Relu", "x", "h", "first"), node("Reshape", "h s", "y", "second")],
        {"x": (FLOAT, ["N"]), "s": (onnx.TensorProto.INT64, [2])},
        {"y": FLOAT},
    )
    text = failure(proto, {"x": numbers(6), "s": [4, 4]})
    assert "cannot be reshaped" in text
    assert "at Reshape node 'second'" in text
    assert "onnxruntime_src" not in text


def test_a_fused_node_leads_back_to_the_one_it_came_from():
    proto = model(
        [node("MatMul", "x w", "h", "project"), node("Add", "h b", "y", "shift")],
        {"x": (FLOAT, ["n", 3]), "w": (FLOAT, ["k", 5]), "b": (FLOAT, [5])},
        {"y": FLOAT},
    )
    assert "at MatMul node 'project'" in failure(
        proto, {"x": numbers(2, 3), "w": numbers(4, 5), "b": numbers(5)}
    )


def test_a_rewritten_node_leads_back_to_the_one_whose_output_it_is_called_after():
    proto = model(
        [
            node("Relu", "x", "r", "relu"),
            node("Conv", "r w", "c", "stem", group=2),
            node("Relu", "c", "y", "end"),
        ],
        {"x": (FLOAT, ["N", 8, "H", "W"])},
        {"y": FLOAT},
        {"w": numbers(16, 8, 3, 3)},
    )
    assert "at Conv node 'stem'" in failure(proto, {"x": numbers(1, 8, 4, 5)})


def test_a_generated_node_leads_back_to_its_forward_node_and_rule():
    proto = model(
        [node("Conv", "x w", "y", "n1")],
        {"x": (DOUBLE, [1, 1, 4, 5]), "w": (DOUBLE, [1, 1, 3, 2])},
        {"y": DOUBLE},
    )
    ir_model = onnx_ir.from_proto(proto)
    record(ir_model.graph[0], Provenance("stem", "Conv", "conv (netgrad/onnx/rules/conv.py:12)"))
    text = failure(ir_model)
    assert (
        "which belongs to the gradient of Conv node 'stem', written by the rule "
        "conv (netgrad/onnx/rules/conv.py:12)" in text
    )


def test_the_error_carries_the_operator():
    proto = model(
        [node("Conv", "x w", "y", "c")],
        {"x": (DOUBLE, [1, 1, 4, 5]), "w": (DOUBLE, [1, 1, 3, 2])},
        {"y": DOUBLE},
    )
    with pytest.raises(RuntimeFailureError) as caught:
        run(proto, {})
    assert [op.name for op in caught.value.operators] == ["c"]


@pytest.mark.parametrize(
    ("op", "opset", "hint"),
    [
        (node("Unheard", "x", "y", "n"), 18, "does not know the operator in this opset"),
        (node("Unheard", "x", "y", "n", domain="my.own"), 18, "has to import an opset of that domain"),
        (node("Relu", "x", "y", "n"), 9999, "newer than the installed ONNX Runtime"),
    ],
)
def test_hints(op, opset, hint):
    assert hint in failure(model([op], {"x": (FLOAT, ["N"])}, {"y": FLOAT}, opset=opset))


def test_an_unnamed_node_gets_a_name_that_says_where_it_is():
    proto = model([node("Relu", "x", "h"), node("MatMul", "h h", "y")], {"x": (FLOAT, [2, 3])}, {"y": FLOAT})
    assert "at MatMul node 'MatMul_1' (h: float32[2, 3], h: float32[2, 3] -> y: float32[...])" in failure(
        proto
    )


def test_a_kernel_that_refuses_its_attributes_is_found_by_its_type():
    lrn = node("LRN", "h", "y", "odd", size=4)
    inputs = {"x": (FLOAT, [1, 5, 3, 2])}
    assert "at LRN node 'odd'" in failure(model([node("Relu", "x", "h"), lrn], inputs, {"y": FLOAT}))
    twice = model([node("LRN", "x", "h", size=4), lrn], inputs, {"y": FLOAT})
    assert "at LRN" not in failure(twice)


def test_short_names_are_not_found_inside_words():
    proto = model(
        [node("Relu", "x", "h", "r"), node("Neg", "h", "y", "err")], {"x": (FLOAT, [2])}, {"y": FLOAT}
    )
    assert node_in(onnx_ir.from_proto(proto), "an error that names nobody") is None
    assert node_in(onnx_ir.from_proto(proto), "Name:'other'") is None


def test_provenance_survives_the_file_format():
    ir_model = onnx_ir.from_proto(model([node("Neg", "x", "y", "n")], {"x": (FLOAT, [2])}, {"y": FLOAT}))
    assert provenance_of(ir_model.graph[0]) is None
    given = Provenance("fc1", "MatMul", "matmul (netgrad/onnx/rules/linear.py:20)")
    record(ir_model.graph[0], given)
    read = onnx_ir.from_proto(onnx_ir.to_proto(ir_model))
    assert provenance_of(read.graph[0]) == given
    assert from_properties({}) is None
    assert str(Provenance("", "Add")) == "the gradient of Add node"
