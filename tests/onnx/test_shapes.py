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


def test_attention_of_unknown_sizes_is_not_taken_for_empty() -> None:
    """The standard's inference computes with a dim that has no number as if it were 0."""
    text = """<ir_version: 10, opset_import: ["": 23]>
        g (float[N, 2, S, 8] q, float[N, 2, T, 8] k, float[N, 2, T, 8] v, float[N, 2, P, 8] past) => (y) {
            y, key, value, scores = Attention(q, k, v, , past, past)
        }"""
    model = ir.from_proto(onnx.parser.parse_model(text))
    infer_shapes(model)
    shapes = {output.name: output.shape for output in model.graph[0].outputs}
    assert not [name for name, shape in shapes.items() if shape is not None and 0 in shape.dims]
    assert str(shapes["y"]) == "[N,2,S,8]"
