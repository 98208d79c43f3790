"""Shape and type inference over a whole model."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import onnx_ir
from onnx_ir.passes import common


def infer_shapes(model: onnx_ir.Model) -> None:
    """Give every value of the model, in place, the type and shape that follow from its inputs and initializers.

    Dims may be numbers, named (symbolic) or unknown. What the model says already is kept where nothing better follows.
    """
    logger = logging.getLogger("onnx_ir.passes.common.shape_inference")
    level = logger.level
    logger.setLevel(
        logging.ERROR
    )  # an inference that gives up is no news for the user: the shape stays unknown
    try:
        common.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    finally:
        logger.setLevel(level)


def values(graph: onnx_ir.Graph) -> Iterator[onnx_ir.Value]:
    """Inputs, initializers and node outputs of one graph, without the graphs inside it."""
    yield from graph.inputs
    for value in graph.initializers.values():
        if not value.is_graph_input():
            yield value
    for node in graph:
        yield from node.outputs
