"""Caffe2's operators, forward and gradient, written in ONNX's."""

from netgrad.caffe2.lowering import (  # noqa: F401  their lowerings are registered
    activations,
    arithmetic,
    choices,
    criteria,
    fills,
    images,
    layers,
    losses,
    normalization,
    optimizers,
    packing,
    rates,
    recurrent,
    reductions,
    regions,
    segments,
    sets,
    shapes,
    sparse_optimizers,
)
