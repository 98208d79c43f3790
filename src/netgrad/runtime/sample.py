"""Random inputs for a model, made from what it says about its inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes
from netgrad.runtime.tensors import TensorSpec, spec_of

_SYMBOL_SIZES = (2, 3, 4, 5, 6, 7)
"""Sizes that the symbolic dims get, in order of appearance: small, and different so that a mix-up shows."""

_SPATIAL_SIZE = 12
"""Size of symbolic dims of images, which small kernels and a few poolings have to fit into."""

_KEEP_VALUES = frozenset(
    {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Transpose", "Expand"}
)
"""Operators through which an index goes unchanged."""

_INDEX_INPUT = {"Gather": (1, 0), "GatherElements": (1, 0), "ScatterElements": (1, 0)}
"""Operators that index along ``axis``: position of the indices, position of the data."""

_LABEL_INPUT = {"SoftmaxCrossEntropyLoss": (1, 0), "NegativeLogLikelihoodLoss": (1, 0)}
"""Operators with class numbers: position of the labels, position of the scores with the classes on axis 1."""


def sample_inputs(
    model: ModelSource, given: Mapping[str, Any] | None = None, *, seed: int = 0
) -> dict[str, Any]:
    """Inputs for every input that ``given`` lacks.

    Floating-point inputs are normal numbers with two decimals. Integers are indices or class numbers in range
    where the model uses them so, else 0 or 1. A symbolic dim has one size throughout, the one in ``given``
    where it occurs there.

    Args:
        model: The model; it is not changed.
        given: Inputs that are known.
        seed: Of the random numbers.

    Raises:
        InvalidArgumentError: An input has an unknown rank or is no tensor of numbers.
    """
    loaded = load(model)
    infer_shapes(loaded)
    initializers = loaded.graph.initializers
    inputs = {value.name or "": value for value in loaded.graph.inputs if value.name not in initializers}
    feeds: dict[str, Any] = dict(given or {})
    sizes: dict[str, int] = {}
    for name, array in feeds.items():
        spec = spec_of(inputs[name]) if name in inputs else None
        if spec is None or spec.dtype is None:
            continue  # a sequence, perhaps of tensors of different shapes
        shape = np.shape(array)
        if spec.shape is not None and len(spec.shape) == len(shape):
            sizes.update(
                {dim: size for dim, size in zip(spec.shape, shape, strict=True) if isinstance(dim, str)}
            )
    rng = np.random.default_rng(seed)
    for name, value in inputs.items():
        if name not in feeds:
            feeds[name] = _draw(value, spec_of(value), sizes, rng)
    return feeds


def _draw(
    value: onnx_ir.Value, spec: TensorSpec, sizes: dict[str, int], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    if spec.shape is None or spec.dtype is None or spec.dtype == onnx_ir.DataType.STRING:
        raise InvalidArgumentError(
            f"cannot make up a value for input '{spec.name}' ({spec})", hint="give it in `inputs`"
        )
    shape = tuple(_size(dim, axis, len(spec.shape), sizes) for axis, dim in enumerate(spec.shape))
    dtype = spec.dtype.numpy()
    if spec.dtype == onnx_ir.DataType.BOOL:
        return rng.integers(0, 2, shape).astype(dtype)
    if spec.dtype.is_floating_point():
        return np.round(rng.standard_normal(shape), 2).astype(dtype)
    return rng.integers(0, max(1, min(_bounds(value), default=2)), shape).astype(dtype)


def _size(dim: int | str | None, axis: int, rank: int, sizes: dict[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    spatial = rank >= 4 and axis >= 2
    if dim is None:
        return _SPATIAL_SIZE if spatial else _SYMBOL_SIZES[0]
    if dim not in sizes:
        sizes[dim] = _SPATIAL_SIZE if spatial else _SYMBOL_SIZES[len(sizes) % len(_SYMBOL_SIZES)]
    return sizes[dim]


def _bounds(value: onnx_ir.Value) -> Iterator[int]:
    """Numbers that the integers in ``value`` have to stay below, by the operators that use them."""
    pending, seen = [value], {value}
    while pending:
        current = pending.pop()
        for node, position in current.uses():
            bound = _bound(node, position)
            if bound is not None:
                yield bound
            if node.op_type in _KEEP_VALUES and position == 0:
                fresh = [output for output in node.outputs if output not in seen]
                seen.update(fresh)
                pending += fresh


def _bound(node: onnx_ir.Node, position: int) -> int | None:
    """The size of what ``node`` indexes by its input ``position``, if it indexes and the size is known."""
    if _INDEX_INPUT.get(node.op_type, (None,))[0] == position:
        data, axis = node.inputs[_INDEX_INPUT[node.op_type][1]], int(_attribute(node, "axis", 0))
    elif _LABEL_INPUT.get(node.op_type, (None,))[0] == position:
        data, axis = node.inputs[_LABEL_INPUT[node.op_type][1]], 1
    elif node.op_type == "OneHot" and position == 0:
        depth = node.inputs[1]
        tensor = None if depth is None else onnx_ir.convenience.get_const_tensor(depth)
        return None if tensor is None else int(tensor.numpy().reshape(-1)[0])
    else:
        return None
    shape = None if data is None else data.shape
    if shape is None or axis >= len(shape):
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None


def _attribute(node: onnx_ir.Node, name: str, default: int) -> int:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_int()
