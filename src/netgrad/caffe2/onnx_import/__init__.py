"""ONNX's operators written in Caffe2's."""

from netgrad.caffe2.onnx_import import (  # noqa: F401  their writers are registered
    control,
    elementwise,
    fills,
    images,
    layers,
    lookups,
    normalization,
    pools,
    recurrent,
    reductions,
    shapes,
    slices,
)
