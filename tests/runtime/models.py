"""Small models for the tests of the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

FLOAT = onnx.TensorProto.FLOAT
DOUBLE = onnx.TensorProto.DOUBLE


def node(op_type: str, inputs: str, outputs: str, name: str = "", **attributes: Any) -> onnx.NodeProto:
    """A node; inputs and outputs are names separated by blanks."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), name=name or None, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[int | str | None] | None]],
    outputs: Mapping[str, int],
    initializers: Mapping[str, np.ndarray] | None = None,
    *,
    opset: int = 18,
    ir_version: int = 10,
) -> onnx.ModelProto:
    """A model of the given nodes; output shapes are left open."""
    graph = helper.make_graph(
        list(nodes),
        "test",
        [helper.make_tensor_value_info(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    """Normal numbers with two decimals, so that a failure can be read."""
    return np.round(np.random.default_rng(seed).normal(size=shape), 2).astype(dtype)
