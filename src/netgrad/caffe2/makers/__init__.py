"""Gradient makers: which gradient operators Caffe2 writes for each of its operators."""

from netgrad.caffe2.makers import (  # noqa: F401  their makers are registered
    control,
    conv,
    copies,
    detection,
    elementwise,
    index,
    later,
    linear,
    loop,
    loss,
    norm,
    recurrent,
    reduce,
    segment,
    shape,
    without_gradient,
)
