"""Layers of models that are built by `netgrad.caffe2.python.layer_model_helper`, one class per file.

A model makes a layer by the name of its class: ``model.FC(record, 10)``. Classes of scripts are added by
``layers.layers.register_layer``.
"""

import importlib
import pkgutil

from netgrad.caffe2.python.layers.model_layer import ModelLayer
from netgrad.caffe2.python.layers.registry import layer_exists, register_layer

for _found in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_found.name}")


def _register(base: type[ModelLayer]) -> None:
    for layer in base.__subclasses__():
        if not layer_exists(layer.__name__) and "_is_base" not in vars(layer):
            register_layer(layer.__name__, layer)
        _register(layer)


_register(ModelLayer)
