"""netgrad: gradients for operator graphs.

A net is an ordered list of operators on named blobs. netgrad reads one (an ONNX model first of all), writes
its backward pass as ordinary operators and gives back a plain net: gradients, or a whole training step.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Public name -> module that defines it. Loaded on first use, so that `netgrad --help` needs neither onnx nor
# onnxruntime.
_LAZY = {
    "AccumulationError": "netgrad.core.errors",
    "CheckReport": "netgrad.transforms.check",
    "Inspection": "netgrad.transforms.inspect",
    "InvalidArgumentError": "netgrad.core.errors",
    "InvalidModelError": "netgrad.core.errors",
    "NetgradError": "netgrad.core.errors",
    "NetgradWarning": "netgrad.core.errors",
    "OverwrittenBlobError": "netgrad.core.errors",
    "RuleError": "netgrad.core.errors",
    "RuntimeFailureError": "netgrad.core.errors",
    "Trainer": "netgrad.train.loop",
    "TrainingStep": "netgrad.train.step",
    "UnsupportedOperatorError": "netgrad.core.errors",
    "check": "netgrad.transforms.check",
    "grad": "netgrad.transforms.grad",
    "inspect": "netgrad.transforms.inspect",
    "load": "netgrad.onnx.read",
    "local_rules": "netgrad.onnx.rules.user",
    "lower": "netgrad.transforms.lower",
    "rule": "netgrad.onnx.rules.user",
    "run": "netgrad.runtime.session",
    "save": "netgrad.onnx.write",
    "training_step": "netgrad.train.step",
}
_MODULES = {
    "core": "netgrad.core",
    "losses": "netgrad.train.losses",
    "optimizers": "netgrad.train.optimizers",
}

__all__ = sorted([*_LAZY, *_MODULES, "__version__"])

if TYPE_CHECKING:
    from netgrad import core as core
    from netgrad.core.errors import AccumulationError as AccumulationError
    from netgrad.core.errors import InvalidArgumentError as InvalidArgumentError
    from netgrad.core.errors import InvalidModelError as InvalidModelError
    from netgrad.core.errors import NetgradError as NetgradError
    from netgrad.core.errors import NetgradWarning as NetgradWarning
    from netgrad.core.errors import OverwrittenBlobError as OverwrittenBlobError
    from netgrad.core.errors import RuleError as RuleError
    from netgrad.core.errors import RuntimeFailureError as RuntimeFailureError
    from netgrad.core.errors import UnsupportedOperatorError as UnsupportedOperatorError
    from netgrad.onnx.read import load as load
    from netgrad.onnx.rules.user import local_rules as local_rules
    from netgrad.onnx.rules.user import rule as rule
    from netgrad.onnx.write import save as save
    from netgrad.runtime.session import run as run
    from netgrad.train import losses as losses
    from netgrad.train import optimizers as optimizers
    from netgrad.train.loop import Trainer as Trainer
    from netgrad.train.step import TrainingStep as TrainingStep
    from netgrad.train.step import training_step as training_step
    from netgrad.transforms.check import CheckReport as CheckReport
    from netgrad.transforms.check import check as check
    from netgrad.transforms.grad import grad as grad
    from netgrad.transforms.inspect import Inspection as Inspection
    from netgrad.transforms.inspect import inspect as inspect
    from netgrad.transforms.lower import lower as lower


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(_MODULES[name])
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'netgrad' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
