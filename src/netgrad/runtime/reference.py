"""The evaluator of the onnx package as a session: slow, but with float64 where ONNX Runtime has no kernel."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir
from onnx.reference import ReferenceEvaluator

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError, nearest
from netgrad.onnx.read import ModelSource, load
from netgrad.runtime.reference_operators import OPERATORS
from netgrad.runtime.tensors import TensorSpec, fit_inputs, spec_of


class ReferenceSession:
    """A model on the reference evaluator, with the part of `Session`'s interface that measuring needs.

    The evaluator deviates from the standard in places (`Loop` without a condition, old forms of `Softmax`),
    so its results are not to be trusted before they have been compared with ONNX Runtime's.

    Attributes:
        inputs: What the model takes, by name.
        outputs: What the model gives, by name.
    """

    def __init__(self, model: ModelSource) -> None:
        """Load ``model``.

        Raises:
            RuntimeFailureError: The evaluator does not know an operator of the model.
        """
        loaded = load(model)
        graph = loaded.graph
        self.inputs: dict[str, TensorSpec] = {
            v.name or "": spec_of(v, optional=v.name in graph.initializers) for v in graph.inputs
        }
        self.outputs: dict[str, TensorSpec] = {v.name or "": spec_of(v) for v in graph.outputs}
        try:
            self._evaluator = ReferenceEvaluator(onnx_ir.to_proto(loaded), new_ops=list(OPERATORS))
        except Exception as error:  # the evaluator raises whatever it meets
            raise RuntimeFailureError(f"the reference evaluator cannot load the model: {error}") from error

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Run the model once (see `Session.run`).

        Raises:
            InvalidArgumentError: Inputs that do not fit, or an unknown output.
            RuntimeFailureError: The evaluator failed.
        """
        names = list(self.outputs) if outputs is None else list(outputs)
        for name in names:
            if name not in self.outputs:
                raise InvalidArgumentError(f"no output '{name}'{nearest(name, self.outputs)}")
        feeds = fit_inputs(inputs, self.inputs)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = self._evaluator.run(names, feeds)
        except Exception as error:  # the evaluator raises whatever NumPy does
            raise RuntimeFailureError(f"the reference evaluator failed: {error}") from error
        return dict(zip(names, results, strict=True))
