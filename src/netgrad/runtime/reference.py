"""The evaluator of the onnx package as a session: slow, but with float64 where ONNX Runtime has no kernel."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx_ir
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from netgrad.core.errors import InvalidArgumentError, RuntimeFailureError, nearest
from netgrad.onnx.read import ModelSource, load
from netgrad.runtime.tensors import TensorSpec, fit_inputs, spec_of

_erf = np.frompyfunc(math.erf, 1, 1)


class Erf(OpRun):
    """Erf in the precision of its input; the package's own rounds to float32."""

    op_domain = ""

    def _run(self, x: Any) -> tuple[Any]:
        return (np.asarray(_erf(x)).astype(x.dtype),)


class Gelu(OpRun):
    """Gelu in the precision of its input; the package's own is built on its Erf."""

    op_domain = ""

    def _run(self, x: Any, approximate: str | None = None) -> tuple[Any]:
        if approximate == "tanh":
            return ((x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2).astype(x.dtype),)
        return ((x * (1 + np.asarray(_erf(x / math.sqrt(2))).astype(x.dtype)) / 2).astype(x.dtype),)


class LogSoftmax(OpRun):
    """LogSoftmax that stays finite; the package's own takes the logarithm of a softmax that underflows."""

    op_domain = ""

    def _run(self, x: Any, axis: int | None = None) -> tuple[Any]:
        if not x.size:
            return (x,)
        shifted = x - x.max(axis=axis, keepdims=True)
        return ((shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))).astype(x.dtype),)


class LRN(OpRun):
    """Local response normalisation over all channels; the package's own stops at the batch size."""

    op_domain = ""

    def _run(
        self,
        x: Any,
        alpha: Any = None,  # the evaluator reads the defaults None as "an attribute of the node"
        beta: Any = None,
        bias: Any = None,
        size: int | None = None,
    ) -> tuple[Any]:
        assert size is not None, "the standard requires it"
        before, after = (size - 1) // 2, size // 2
        squares = np.pad(x**2, [(0, 0), (before, after)] + [(0, 0)] * (x.ndim - 2))
        sums = sum(squares[:, k : k + x.shape[1]] for k in range(size))
        return ((x / (bias + alpha / size * sums) ** beta).astype(x.dtype),)


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
            self._evaluator = ReferenceEvaluator(
                onnx_ir.to_proto(loaded), new_ops=[Erf, Gelu, LogSoftmax, LRN]
            )
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
