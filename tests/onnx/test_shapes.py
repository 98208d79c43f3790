"""Types and shapes where the standard has no inference of its own."""

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from netgrad.onnx.shapes import infer_shapes


@pytest.mark.parametrize(
    ("opset", "node"),
    [
        (21, "GroupNormalization<num_groups = 2>(x, s, s)"),
        (21, "GroupNormalization<num_groups = 4>(h, s, s)"),
        (18, "MeanVarianceNormalization(h)"),
    ],
)
def test_operators_without_inference_are_like_their_input(opset: int, node: str) -> None:
    """What follows them is inferred too, and the operator itself stays."""
    text = f"""<ir_version: 10, opset_import: ["": {opset}]>
        g (double[N, 4, 3, 5] x, double[4] s) => (z) {{
            h = Relu(x)
            y = {node}
            z = ReduceSum<keepdims = 0>(y)
        }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    infer_shapes(model)
    before, operator, after = model.graph
    for value in (before.outputs[0], operator.outputs[0]):
        assert value.dtype is ir.DataType.DOUBLE
        assert str(value.shape) == "[N,4,3,5]"
    assert after.outputs[0].dtype is ir.DataType.DOUBLE
    assert str(after.outputs[0].shape) == "[]"
    assert operator.op_type == node.split("<")[0].split("(")[0]
    assert len(operator.inputs) == node.count(",") + 1


@pytest.mark.parametrize(
    ("inputs", "heads", "wanted"),
    [
        (
            "float[B, 4, L, 8] q, float[B, 2, M, 8] k, float[B, 2, M, 6] v"
            ", float[B, 2, P, 8] p, float[B, 2, P, 6] r",
            "",
            ["[B,4,L,6]", "[B,2,None,8]", "[B,2,None,6]", "[B,4,L,None]"],
        ),
        (
            "float[B, L, 32] q, float[B, 3, 16] k, float[B, 3, 12] v"
            ", float[B, 2, 5, 8] p, float[B, 2, 5, 6] r",
            "q_num_heads = 4, kv_num_heads = 2, ",
            ["[B,L,24]", "[B,2,8,8]", "[B,2,8,6]", "[B,4,L,8]"],
        ),
        (
            "float[B, L, D] q, float[B, M, D] k, float[B, M, E] v, float[B, 2, 5, 8] p, float[B, 2, 5, 6] r",
            "q_num_heads = 4, kv_num_heads = 2, ",
            ["[B,L,None]", "[B,2,None,None]", "[B,2,None,None]", "[B,4,L,None]"],
        ),
    ],
)
def test_unknown_dims_of_attention_are_not_taken_for_zero(inputs: str, heads: str, wanted: list[str]) -> None:
    text = f"""<ir_version: 10, opset_import: ["": 23]>
        g ({inputs}) => (y, pk, pv, s) {{
            y, pk, pv, s = Attention<{heads}scale = 1.0>(q, k, v, , p, r)
        }}"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    infer_shapes(model)
    assert [str(output.shape) for output in model.graph.outputs] == wanted
    assert {output.dtype for output in model.graph.outputs} == {ir.DataType.FLOAT}
