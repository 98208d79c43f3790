"""Models of layers: what scripts know as ``caffe2.python.layer_model_helper``.

`LayerModelHelper` holds layers and their parameters; nets are made of it by
`netgrad.caffe2.python.layer_model_instantiator`.
"""

from netgrad.caffe2.python.layer_model_helper.model import LayerModelHelper

__all__ = ["LayerModelHelper"]
