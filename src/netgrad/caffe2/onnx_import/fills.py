"""Fills: constants and random draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("ConstantOfShape")
def _constant_of_shape(n: Node) -> None:
    value = n.attribute("value", None)
    content = np.zeros(1, np.float32) if value is None else value.numpy()
    dtype = n.number_of(ir.DataType.from_numpy(content.dtype))
    element = content.reshape(-1)[0].item()
    arguments: dict[str, Any] = {
        "value": int(element) if isinstance(element, bool) else element,
        "dtype": dtype,
    }
    shape = n.info(0).constant
    if shape is not None:
        n.write("ConstantFill", [], shape=[int(dim) for dim in shape], **arguments)
    else:
        n.write("ConstantFill", input_as_shape=1, **arguments)


@writes("Range")
def _range(n: Node) -> None:
    n.write("Range", n.inputs)


@writes("RandomNormal", "RandomNormalLike")
def _normal(n: Node) -> None:
    _drawn(n, "GaussianFill", mean=n.attribute("mean", 0.0), std=n.attribute("scale", 1.0))


@writes("RandomUniform", "RandomUniformLike")
def _uniform(n: Node) -> None:
    _drawn(n, "UniformFill", min=n.attribute("low", 0.0), max=n.attribute("high", 1.0))


def _drawn(n: Node, type_: str, **arguments: Any) -> None:
    """Draws are those of Caffe2: a seed belongs to its device option, which gives other numbers."""
    like = n.op.type.endswith("Like")
    default = int(n.info(0).dtype or ir.DataType.FLOAT) if like else int(ir.DataType.FLOAT)
    if ir.DataType(n.attribute("dtype", default)) is not ir.DataType.FLOAT:
        raise n.refused("Caffe2 draws float32")
    if n.attribute("seed", None) is not None:
        raise n.refused("its seed would give other numbers")
    if like:
        n.write(type_, **arguments)
    else:
        n.write(type_, [], shape=n.attribute("shape", []), **arguments)
