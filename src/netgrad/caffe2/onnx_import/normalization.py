"""Normalizations, and the softmax."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("BatchNormalization")
def _batch_norm(n: Node) -> None:
    if n.attribute("training_mode", 0):
        raise n.refused(
            "Caffe2's SpatialBN updates its running statistics in place, and here they get other names",
            hint="export the model for inference",
        )
    n.write("SpatialBN", n.inputs, is_test=1, epsilon=n.attribute("epsilon", 1e-5))


@writes("InstanceNormalization")
def _instance_norm(n: Node) -> None:
    n.write("InstanceNorm", n.inputs, epsilon=n.attribute("epsilon", 1e-5))


@writes("LayerNormalization")
def _layer_norm(n: Node) -> None:
    """Scale and bias have the shape of what is normalized, or are multiplied and added afterwards."""
    if n.reads_output(1) or n.reads_output(2):
        raise n.refused("Caffe2's LayerNorm gives mean and deviation in another form")
    axis = n.axis(n.attribute("axis", -1))
    arguments = {"axis": axis, "epsilon": n.attribute("epsilon", 1e-5)}
    others = [n.fresh("mean"), n.fresh("deviation")]
    inner = (n.info(0).shape or ())[axis:]
    scale = n.info(1).shape
    if scale == inner and None not in inner and (not n.has(2) or n.info(2).shape == inner):
        bias = n.inputs[2] if n.has(2) else n.parameter(np.zeros(n.dims(1), np.float32), "bias")
        n.write(
            "LayerNorm",
            [*n.inputs[:2], bias],
            [n.outputs[0], *others],
            **arguments,
            elementwise_affine=1,
        )
        return
    normal = n.fresh("normal")
    n.write("LayerNorm", n.inputs[:1], [normal, *others], **arguments)
    if not n.has(2):
        n.write("Mul", [normal, n.inputs[1]])
        return
    n.write("Add", [n.step("Mul", [normal, n.inputs[1]]), n.inputs[2]])


@writes("GroupNormalization")
def _group_norm(n: Node) -> None:
    """Written from the version on that has a scale for each channel."""
    n.write(
        "GroupNorm",
        n.inputs,
        [n.outputs[0], n.fresh("mean"), n.fresh("deviation")],
        group=n.attribute("num_groups", 0),
        epsilon=n.attribute("epsilon", 1e-5),
    )


@writes("Softmax")
def _softmax(n: Node) -> None:
    """Caffe2's is over all dims from the axis on, so the axis has to be the last one."""
    rank = n.rank()
    axis, last = n.axis(n.attribute("axis", -1)), rank - 1
    if axis == last:
        n.write("Softmax", axis=last)
        return
    order = list(range(rank))
    order[axis], order[last] = last, axis
    turned = n.step("Transpose", n.inputs[:1], axes=order)
    n.write("Transpose", [n.step("Softmax", [turned], axis=last)], axes=order)
