"""A change to the standard's definition of Attention, so that rows without a key have gradients, too."""

from __future__ import annotations

import onnx
from onnx import TensorProto, helper


def guard_masked_rows(function: onnx.FunctionProto) -> None:
    """Let the softmax in the body of Attention see zeros in rows in which every key is masked, in place.

    The body replaces what the softmax gives for such a row by zeros. Before that it is NaN, and although its
    cotangent is zero, so would be the gradient. What the body gives stays the same.
    """
    softmax = next((node for node in function.node if node.op_type == "Softmax"), None)
    if softmax is None:
        return
    behind = set(softmax.output)
    for node in function.node:
        if behind.intersection(node.input):
            behind.update(node.output)
    # Where(every key is masked, zero, what the softmax gave)
    guard = next(
        (
            node
            for node in function.node
            if node.op_type == "Where" and node.input[2] in behind and node.input[0] not in behind
        ),
        None,
    )
    if guard is None:
        return
    scores = softmax.input[0]
    zero = helper.make_tensor("value", TensorProto.FLOAT, [1], [0.0])
    added = [
        helper.make_node("Constant", [], ["MaskedScore"], value=zero),
        helper.make_node("CastLike", ["MaskedScore", scores], ["MaskedScoreT"]),
        helper.make_node("Where", [guard.input[0], "MaskedScoreT", scores], ["ScoresSafe"]),
    ]
    before = [node for node in function.node if not behind.intersection(node.output)]
    after = [node for node in function.node if behind.intersection(node.output)]
    softmax.input[0] = "ScoresSafe"
    ordered = [*before, *added, *after]
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in ordered]
    del function.node[:]
    function.node.extend(copies)
