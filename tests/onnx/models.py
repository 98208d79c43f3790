"""Small models for the tests of this room, and ONNX Runtime to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir
from onnx import helper

from tests.onnx.zoo import run

IR_VERSION = 8

Array = np.ndarray[Any, np.dtype[Any]]


def node(
    op_type: str, inputs: Sequence[str], outputs: Sequence[str], name: str = "", **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: Sequence[str] = ("y",),
    *,
    opset: int = 18,
    initializers: Mapping[str, Array] | None = None,
    symbolic: bool = False,
    functions: Sequence[onnx.FunctionProto] = (),
    imports: Mapping[str, int] | None = None,
    ir_version: int = IR_VERSION,
    infer: bool = True,
) -> onnx.ModelProto:
    """A model whose inputs have the types of examples, and their shapes, or as many dims with names."""
    infos = []
    for name, array in inputs.items():
        dims = [f"{name}_{axis}" if symbolic else size for axis, size in enumerate(array.shape)]
        infos.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), dims))
    graph = helper.make_graph(
        nodes,
        "graph",
        infos,
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in (initializers or {}).items()],
    )
    opsets = [
        helper.make_opsetid(domain, version) for domain, version in {"": opset, **(imports or {})}.items()
    ]
    proto = helper.make_model(graph, opset_imports=opsets, ir_version=ir_version, functions=functions)
    return onnx.shape_inference.infer_shapes(proto) if infer else proto


def run_proto(proto: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    return run(onnx_ir.from_proto(proto), feeds)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def operators(prepared: onnx_ir.Model) -> list[str]:
    return [n.op_type for n in prepared.graph]
