"""Models of Caffe, the framework before Caffe2, as nets.

    python -m netgrad.caffe2.python.caffe_translator deploy.prototxt model.caffemodel

writes ``predict_net.pb``, the same as text, and ``init_net.pb``. Layers of one's own are translated by
functions that `TranslatorRegistry.Register` knows.
"""

from netgrad.caffe2 import caffe_pb2
from netgrad.caffe2.python.caffe_translator import layers, weights, windows  # noqa: F401  they are registered
from netgrad.caffe2.python.caffe_translator.registry import (
    ConvertTensorProtosToInitNet,
    TranslateModel,
    TranslatorRegistry,
)
from netgrad.caffe2.python.caffe_translator.tools import AddArgument, BaseTranslate

__all__ = [
    "AddArgument",
    "BaseTranslate",
    "ConvertTensorProtosToInitNet",
    "TranslateModel",
    "TranslatorRegistry",
    "caffe_pb2",
]
