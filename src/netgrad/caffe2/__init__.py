"""Caffe2's nets: read, differentiated by Caffe2's own gradient operators, and run on ONNX Runtime."""

from importlib import import_module
from typing import Any

from netgrad.caffe2.backward import differentiate
from netgrad.caffe2.convert import to_onnx
from netgrad.caffe2.execute import Program, run
from netgrad.caffe2.gradient_net import GradientNet, gradient_net
from netgrad.caffe2.gradients import gradients
from netgrad.caffe2.install import install
from netgrad.caffe2.load import load, read_net, save, save_net, save_predictor
from netgrad.caffe2.onnx_import.model import from_onnx
from netgrad.caffe2.read import parse_net
from netgrad.caffe2.saved_model import SavedModel, init_net_of

__all__ = [
    "GradientNet",
    "Program",
    "SavedModel",
    "differentiate",
    "from_onnx",
    "gradient_net",
    "gradients",
    "init_net_of",
    "install",
    "load",
    "parse_net",
    "read_net",
    "run",
    "save",
    "save_net",
    "save_predictor",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    """The modules of the Python interface that programs use on their own: ``core`` and ``workspace``."""
    if name in ("core", "workspace"):
        return import_module(f"netgrad.caffe2.python.{name}")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
