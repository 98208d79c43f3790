"""CausalConvWithState where the number of channels or the kernel's size is known only when the model runs."""

from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir

_HALF = (onnx_ir.DataType.FLOAT16, onnx_ir.DataType.BFLOAT16)


def causal_conv_definition(node: onnx_ir.Node) -> onnx.FunctionProto:
    """The definition of one CausalConvWithState node, by windows in place of a Conv.

    The standard's own definition is a Conv with as many groups as there are channels, which is an attribute.
    Here each of the L positions gathers its k elements: with P the last k - 1 elements of the past, then X,
    Y[n, c, i] = sum over j of P[n, c, i + j] W[c, 0, j] + B[c]. The last k - 1 of P are the next state.
    """
    given = [value is not None for value in node.inputs] + [False] * 4
    activation = node.attributes.get("activation")
    name = "none" if activation is None else activation.as_string()
    dtype = node.inputs[0].dtype if node.inputs[0] is not None else None
    lines = [
        "zero = Constant<value = int64 {0}>()",
        "one = Constant<value = int64 {1}>()",
        "ones = Constant<value = int64[1] {1}>()",
        "channels_axis = Constant<value = int64[1] {1}>()",
        "time_axis = Constant<value = int64[1] {2}>()",
        "last_axis = Constant<value = int64[1] {-1}>()",
        "length = Shape<start = 2, end = 3>(X)",
        "size = Shape<start = 2, end = 3>(W)",
        "before = Sub(size, ones)",
    ]
    if given[3]:
        lines.append("state = Identity(past)")
    else:
        lines += [
            "outer = Shape<start = 0, end = 2>(X)",
            "empty = Concat<axis = 0>(outer, before)",
            "zeros = ConstantOfShape(empty)",
            "state = CastLike(zeros, X)",
        ]
    lines += [
        "P = Concat<axis = 2>(state, X)",
        "count = Squeeze(length)",
        "numbers = Range(zero, count, one)",
        "starts = Unsqueeze(numbers, channels_axis)",
        "width = Squeeze(size)",
        "offsets = Range(zero, width, one)",
        "places = Add(starts, offsets)",
        "windows = Gather<axis = 2>(P, places)",
        "products = Mul(windows, W)",
        "plain = ReduceSum<keepdims = 0>(products, last_axis)",
    ]
    if given[2]:
        lines += ["column = Unsqueeze(B, channels_axis)", "sums = Add(plain, column)"]
    else:
        lines.append("sums = Identity(plain)")
    if name in ("silu", "swish"):
        # the standard computes it in float32
        cast = "Cast<to = 1>" if dtype in _HALF else "Identity"
        lines += [
            f"wide = {cast}(sums)",
            "gate = Sigmoid(wide)",
            "gated = Mul(wide, gate)",
            "Y = CastLike(gated, sums)",
        ]
    else:
        lines.append("Y = Identity(sums)")
    lines += ["ends = Add(length, before)", "present = Slice(P, length, ends, time_axis)"]
    inputs = [n if k else f"absent_{n}" for n, k in zip(("X", "W", "B", "past"), given, strict=False)]
    body = "\n".join(lines)
    return onnx.parser.parse_function(
        f'<domain: "netgrad", opset_import: ["": 18]> CausalConvWithState '
        f"({', '.join(inputs[: len(node.inputs)])}) => (Y, present) {{\n{body}\n}}"
    )
