"""Caffe2's nets: read, differentiated by Caffe2's own gradient operators, and run on ONNX Runtime."""

from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.execute import Program, run
from netgrad.caffe2.gradients import gradients
from netgrad.caffe2.read import parse_net

__all__ = ["Program", "differentiate", "gradients", "parse_net", "run"]
