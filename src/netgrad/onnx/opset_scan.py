"""The opset adapter of Scan, which had a batch axis in opset 8."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.edit import CannotRewriteError, Editor


def scan_over_batch(node: onnx_ir.Node, editor: Editor) -> None:
    """Write a Scan over the batch around a Scan without one, in place.

    In opset 8 the first axis of everything is the batch and the second of what is scanned the time, and each
    sequence of the batch runs by itself. Sequences of different lengths are refused: the later form has none.
    """
    lengths, *given = node.inputs
    if lengths is not None:
        raise CannotRewriteError("its sequences have lengths, which has no equivalent")
    steps = node.attributes["num_scan_inputs"].as_int()
    body = node.attributes.pop("body").as_graph()
    directions = node.attributes.pop("directions", None)
    states = len(given) - steps
    own = [_like(value, editor, whole=position >= states) for position, value in enumerate(body.inputs)]
    attributes: list[onnx_ir.Attr] = [
        onnx_ir.AttrGraph("body", body),
        onnx_ir.AttrInt64("num_scan_inputs", steps),
    ]
    if directions is not None:
        attributes.append(onnx_ir.AttrInt64s("scan_input_directions", directions.as_ints()))
    results = [_like(value, editor, whole=position >= states) for position, value in enumerate(body.outputs)]
    inner = onnx_ir.Node(
        "",
        "Scan",
        own,
        attributes,
        outputs=results,
        name=editor.fresh_node(f"{node.name or node.op_type}_of_one"),
        version=node.version,
        metadata_props=dict(node.metadata_props),
    )
    around = onnx_ir.Graph(
        own, results, nodes=[inner], name=editor.fresh_node(f"{body.name or 'body'}_of_one")
    )
    node.attributes["body"] = onnx_ir.AttrGraph("body", around)
    node.attributes["num_scan_inputs"] = onnx_ir.AttrInt64("num_scan_inputs", len(given))
    for position, value in enumerate(given):
        node.replace_input_with(position, value)
    node.resize_inputs(len(given))


def _like(value: onnx_ir.Value, editor: Editor, *, whole: bool) -> onnx_ir.Value:
    """A new value like one of the body's, for one sequence; ``whole``: with a time axis in front."""
    shape = value.shape
    if shape is not None:
        shape = onnx_ir.Shape([None, *shape] if whole else list(shape))
    return onnx_ir.Value(name=editor.fresh(f"{value.name}_of_one"), type=value.type, shape=shape)
