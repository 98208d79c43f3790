"""Optimizers: operators that update the parameters of a model after its backward pass.

``build_sgd(model, base_learning_rate=0.1)`` and its siblings add them for every parameter with a gradient.
"""

from netgrad.caffe2.python.optimizer.adagrad import FP16_ENGINES, AdagradOptimizer
from netgrad.caffe2.python.optimizer.adam import AdamOptimizer
from netgrad.caffe2.python.optimizer.adaptive import (
    AdadeltaOptimizer,
    DecayAdagradOptimizer,
    RmsPropOptimizer,
    StormOptimizer,
    WngradOptimizer,
    YellowFinOptimizer,
)
from netgrad.caffe2.python.optimizer.base import (
    AuxOptimizerParams,
    Optimizer,
    _optimizer_instance_count,
    reset_optimizer_instance_count,
)
from netgrad.caffe2.python.optimizer.build import (
    _get_param_to_device,
    add_weight_decay,
    build_adadelta,
    build_adagrad,
    build_adam,
    build_decay_adagrad,
    build_fp16_sgd,
    build_ftrl,
    build_gftrl,
    build_multi_precision_sgd,
    build_rms_prop,
    build_sgd,
    build_storm,
    build_wngrad,
    build_yellowfin,
    get_lr_injection,
    get_param_device,
    set_lr_injection,
)
from netgrad.caffe2.python.optimizer.descent import (
    FP16SgdOptimizer,
    MultiPrecisionSgdOptimizer,
    SgdOptimizer,
    WeightDecayBuilder,
)
from netgrad.caffe2.python.optimizer.leaders import FtrlOptimizer, GFtrlOptimizer

__all__ = [
    "FP16_ENGINES",
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AuxOptimizerParams",
    "DecayAdagradOptimizer",
    "FP16SgdOptimizer",
    "FtrlOptimizer",
    "GFtrlOptimizer",
    "MultiPrecisionSgdOptimizer",
    "Optimizer",
    "RmsPropOptimizer",
    "SgdOptimizer",
    "StormOptimizer",
    "WeightDecayBuilder",
    "WngradOptimizer",
    "YellowFinOptimizer",
    "_get_param_to_device",
    "_optimizer_instance_count",
    "add_weight_decay",
    "build_adadelta",
    "build_adagrad",
    "build_adam",
    "build_decay_adagrad",
    "build_fp16_sgd",
    "build_ftrl",
    "build_gftrl",
    "build_multi_precision_sgd",
    "build_rms_prop",
    "build_sgd",
    "build_storm",
    "build_wngrad",
    "build_yellowfin",
    "get_lr_injection",
    "get_param_device",
    "reset_optimizer_instance_count",
    "set_lr_injection",
]
