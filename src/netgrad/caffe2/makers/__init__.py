"""Gradient makers: which gradient operators Caffe2 writes for each of its operators."""

from netgrad.caffe2.makers import basic as _basic  # noqa: F401  its makers are registered
