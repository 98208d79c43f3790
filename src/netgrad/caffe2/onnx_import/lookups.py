"""Lookups, and places of what is looked for."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import TensorProto
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_INT64 = TensorProto.INT64


@writes("Gather")
def _gather(n: Node) -> None:
    """Caffe2 counts from the front: negative places that are known are changed."""
    axis = n.axis(n.attribute("axis", 0))
    places = n.info(1).constant
    reads = list(n.inputs)
    if places is not None and places.size and places.min() < 0:
        counted = np.where(places < 0, places + n.dim(0, axis), places).astype(places.dtype)
        reads[1] = n.parameter(counted, "places")
    n.write("Gather", reads, axis=axis or None)


@writes("GatherElements")
def _gather_elements(n: Node) -> None:
    """A lookup in the flat tensor, at places that are counted from its first element."""
    dims, wanted = n.dims(0), n.dims(1)
    axis = n.axis(n.attribute("axis", 0))
    strides = [int(np.prod(dims[at + 1 :], dtype=np.int64)) for at in range(len(dims))]
    others = np.indices(wanted, dtype=np.int64)
    first = sum(others[at] * strides[at] for at in range(len(dims)) if at != axis)
    flat = n.write("Reshape", n.inputs[:1], [n.fresh("flat"), n.fresh("old_shape")], shape=[-1])
    along = n.write("Reshape", [n.inputs[1]], [n.fresh("along"), n.fresh("old_shape")], shape=[-1])
    places = from_the_front(n, n.step("Cast", [along], to=_INT64), dims[axis], "Add")
    if strides[axis] != 1:
        places = n.step("Mul", [places, n.parameter(np.asarray([strides[axis]]), "stride")], broadcast=1)
    if len(dims) > 1:
        places = n.step("Add", [places, n.parameter(np.asarray(first).reshape(-1), "first")])
    found = n.step("Gather", [flat, places], dense_gradient=1)
    n.write("Reshape", [found], [n.outputs[0], n.fresh("old_shape")], shape=list(wanted))


@writes("ScatterElements")
def _scatter_elements(n: Node) -> None:
    if n.attribute("reduction", "none") != "none":
        raise n.refused("Caffe2's Scatter replaces what is there")
    axis = n.axis(n.attribute("axis", 0))
    shape = n.fresh("old_shape")
    flat = n.write("Reshape", [n.inputs[1]], [n.fresh("flat"), shape], shape=[-1])
    counted = from_the_front(n, n.step("Cast", [flat], to=_INT64), n.dim(0, axis), "Add")
    places = n.write("Reshape", [counted, shape], [n.fresh("places"), n.fresh("old_shape")])
    n.write("Scatter", [n.inputs[0], places, n.inputs[2]], axis=axis)


def from_the_front(n: Node, numbers: str, amount: int, type_: str) -> str:
    """The numbers of a vector, those below 0 with an amount added or taken away."""
    zero, other = (n.parameter(np.asarray([x], np.int64), "number") for x in (0, amount))
    changed = n.step(type_, [numbers, other], broadcast=1)
    return n.step("Conditional", [n.step("LT", [numbers, zero], broadcast=1), changed, numbers])


@writes("NonZero")
def _non_zero(n: Node) -> None:
    """The places in the flat tensor, taken apart into one along each axis."""
    dims = n.dims()
    if not dims:
        raise n.refused("a tensor without dims has no axes to count along")
    flat = n.write("Reshape", n.inputs[:1], [n.fresh("flat"), n.fresh("old_shape")], shape=[-1])
    dtype = n.info(0).dtype
    if dtype is None:
        raise n.refused("the type of its elements is not known")
    mask = flat
    if dtype is not ir.DataType.BOOL:
        zero = n.parameter(np.zeros(1, dtype.numpy()), "zero")
        mask = n.step("NE", [flat, zero], broadcast=1)
    places = n.fresh("places")
    n.write("BooleanMask", [flat, mask], [n.fresh("kept"), places])
    along = []
    for at, dim in enumerate(dims):
        stride = int(np.prod(dims[at + 1 :], dtype=np.int64))
        found = places
        if stride != 1:
            found = n.step("Div", [found, n.parameter(np.asarray([stride]), "stride")], broadcast=1)
        along.append(n.step("Mod", [found], divisor=dim) if at else found)
    n.write("Concat", along, [n.outputs[0], n.fresh("sizes")], axis=0, add_axis=1)


@writes("OneHot")
def _one_hot(n: Node) -> None:
    """Where a place is the number along the new axis, or that less the depth."""
    (depth,) = n.numbers(1)
    rank = n.rank()
    axis = n.attribute("axis", -1)
    axis = axis + rank + 1 if axis < 0 else axis
    values = n.constant(2)
    off, on = values.reshape(-1)
    if values.dtype == np.bool_ or not np.isfinite([off, on]).all():
        raise n.refused("its values are multiplied and added in Caffe2, so they have to be finite numbers")
    places = n.step("ExpandDims", [n.step("Cast", n.inputs[:1], to=_INT64)], dims=[axis])
    along = np.arange(depth, dtype=np.int64).reshape(depth, *[1] * (rank - axis))
    either = [n.step("EQ", [places, n.parameter(numbers, "numbers")]) for numbers in (along, along - depth)]
    hot = n.step("Cast", [n.step("Or", either)], to=n.number_of(ir.DataType.from_numpy(values.dtype)))
    scaled = n.step("Mul", [hot, n.parameter(np.asarray([on - off], values.dtype), "step")], broadcast=1)
    n.write("Add", [scaled, n.parameter(np.asarray([off], values.dtype), "off")], broadcast=1)
