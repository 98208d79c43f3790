"""Optimizers: operators that update the parameters of a model after its backward pass.

``build_sgd(model, base_learning_rate=0.1)`` and its siblings add them for every parameter with a gradient.
"""

from netgrad.caffe2.python.optimizer.adaptive import (
    AdagradOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    RmsPropOptimizer,
)
from netgrad.caffe2.python.optimizer.base import AuxParams, Optimizer
from netgrad.caffe2.python.optimizer.build import (
    add_weight_decay,
    build_adagrad,
    build_adam,
    build_ftrl,
    build_rms_prop,
    build_sgd,
    get_lr_injection,
    set_lr_injection,
)
from netgrad.caffe2.python.optimizer.descent import SgdOptimizer, WeightDecayBuilder

__all__ = [
    "AdagradOptimizer",
    "AdamOptimizer",
    "AuxParams",
    "FtrlOptimizer",
    "Optimizer",
    "RmsPropOptimizer",
    "SgdOptimizer",
    "WeightDecayBuilder",
    "add_weight_decay",
    "build_adagrad",
    "build_adam",
    "build_ftrl",
    "build_rms_prop",
    "build_sgd",
    "get_lr_injection",
    "set_lr_injection",
]
