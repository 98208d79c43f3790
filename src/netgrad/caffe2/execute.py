"""Running operators on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx_ir as ir
from onnxruntime import OrtValue

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.context import StaticShapeNeededError
from netgrad.caffe2.lowering.held import ControlFlowError
from netgrad.caffe2.lowering.net import Lowered, lowered
from netgrad.caffe2.reads import outside_reads, perhaps_kept, reads_inside
from netgrad.caffe2.recurrence import with_kept
from netgrad.core import InvalidArgumentError, UnsupportedOperatorError
from netgrad.onnx.view import TensorInfo
from netgrad.runtime.session import Session
from netgrad.runtime.values import share_as_value

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
_T = TypeVar("_T")
_Types = Mapping[str, "tuple[ir.DataType, tuple[int, ...]]"]

_MODELS = 64  # compiled ones that are kept, for nets that need a model for each shape

_OVER_STEPS = ("RecurrentNetwork", "RecurrentNetworkGradient")


class ShapeOfValuesError(UnsupportedOperatorError):
    """An operator needs to know a shape that only running the operators before it tells.

    Cause: for example a gathering by what ``Unique`` has found, in front of an operator whose form in ONNX
    depends on the number of rows.

    What to do: run the operators before it on their own, as workspaces do.
    """


class Program:
    """A list of operators, compiled for the element types and ranks of what it reads.

    Args:
        definitions: The operators in order.
        wanted: The blobs that it gives; None for all that it writes.
        complete: Whether workspaces that a ``Do`` leaves for its gradient must be taken up by it in the list.
    """

    def __init__(
        self,
        definitions: Sequence[OperatorDef],
        wanted: Iterable[str] | None = None,
        *,
        complete: bool = False,
    ) -> None:
        self._definitions = with_kept(definitions)
        self._complete = complete
        self._wanted = None if wanted is None else list(wanted)
        self._compiled: dict[Any, tuple[Lowered, Session | None]] = {}
        self._fixed_shapes = False  # whether some operator needs to know all dims
        # Nets over steps have another form for no steps, of which only the shapes tell.
        self._steps = any(op.type in _OVER_STEPS for op in self._definitions)

    def reads(self) -> list[str]:
        """The blobs that its operators read before they write them."""
        return outside_reads(self._definitions)

    def reads_perhaps(self) -> list[str]:
        """The blobs that only nets inside of its operators read, or write or leave as they are."""
        return list(dict.fromkeys([*reads_inside(self._definitions), *perhaps_kept(self._definitions)]))

    def run(self, blobs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Run it once.

        Args:
            blobs: What it reads, and perhaps more.

        Returns:
            The blobs that it gives; without those that it hasn't written, as the nets that do weren't run.

        Raises:
            InvalidArgumentError: A blob that it reads isn't there.
            UnsupportedOperatorError: An operator can't be written in ONNX.
            RuntimeFailureError: ONNX Runtime can't run it.
        """
        reads = self.reads()
        missing = [blob for blob in reads if blob not in blobs]
        if missing:
            raise InvalidArgumentError(f"the net reads blobs that nobody has given: {', '.join(missing)}")
        perhaps = [blob for blob in self.reads_perhaps() if blob in blobs]
        given = {blob: np.asarray(blobs[blob]) for blob in dict.fromkeys((*reads, *perhaps))}
        if not self._definitions:
            return {}
        net, session = self._session(
            {blob: (ir.DataType.from_numpy(array.dtype), array.shape) for blob, array in given.items()}
        )
        if session is None:
            return {}
        return _written(net, session.run({f"in:{k}": given[blob] for k, blob in enumerate(net.inputs)}))

    def run_values(self, blobs: Mapping[str, OrtValue | np.ndarray[Any, Any]]) -> dict[str, OrtValue]:
        """Run it once on values that ONNX Runtime owns, and on arrays, whose memory is read in place.

        Args:
            blobs: All that it reads; no texts.

        Raises:
            UnsupportedOperatorError: An operator can't be written in ONNX.
            RuntimeFailureError: ONNX Runtime can't run it.
        """
        given = {
            blob: value if isinstance(value, OrtValue) else share_as_value(np.require(value, None, "C"))
            for blob, value in blobs.items()
        }
        net, session = self._session(
            {blob: (ir.DataType(value.element_type()), tuple(value.shape())) for blob, value in given.items()}
        )
        if session is None:
            return {}
        return _written(
            net, session.run_values({f"in:{k}": given[blob] for k, blob in enumerate(net.inputs)})
        )

    @property
    def definitions(self) -> list[OperatorDef]:
        """The operators, with what recurrent nets keep written out; see `with_kept`."""
        return self._definitions

    @property
    def compiled(self) -> int:
        """How many models it has been compiled to."""
        return len(self._compiled)

    def _session(self, types: _Types) -> tuple[Lowered, Session | None]:
        """The model, and its session unless it gives nothing."""
        static = self._fixed_shapes or (self._steps and any(0 in shape for _, shape in types.values()))
        key = tuple((blob, dtype, shape if static else len(shape)) for blob, (dtype, shape) in types.items())
        if key not in self._compiled:
            try:
                net = lowered(self._definitions, _infos(types, static=static), self._wanted)
            except StaticShapeNeededError as error:
                if static:
                    raise ShapeOfValuesError(
                        f"{error} can't be compiled with the operators before it: it needs to know the shape "
                        "of what it reads, which depends on values that they compute"
                    ) from error
                self._fixed_shapes = True
                return self._session(types)
            left = [blob for blob, count in net.stacks.items() if count]
            if left and self._complete:
                raise ControlFlowError(f"the workspaces that are left on '{left[0]}' can't be kept")
            if len(self._compiled) >= _MODELS:
                self._compiled.pop(next(iter(self._compiled)))
            self._compiled[key] = net, Session(net.model) if net.outputs or net.perhaps else None
        return self._compiled[key]


def _written(net: Lowered, results: Mapping[str, _T]) -> dict[str, _T]:
    """The blobs that a run has written."""
    found = {blob: results[f"out:{k}"] for k, blob in enumerate(net.outputs)}
    for k, (blob, holds) in enumerate(net.perhaps.items()):
        truth: Any = results[f"whether:{k}"]
        if bool(truth.numpy() if isinstance(truth, OrtValue) else truth) == holds:
            found[blob] = results[f"perhaps:{k}"]
    return found


def _infos(types: _Types, *, static: bool) -> dict[str, TensorInfo]:
    return {
        blob: TensorInfo(dtype, tuple(shape if static else (f"{blob}:{axis}" for axis in range(len(shape)))))
        for blob, (dtype, shape) in types.items()
    }


def run(net: NetDef, blobs: Arrays, outputs: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Run a net once.

    Args:
        net: The net.
        blobs: The blobs that it reads.
        outputs: The blobs wanted; None for all that it writes.

    Raises:
        InvalidArgumentError: A blob that it reads isn't there.
        UnsupportedOperatorError: An operator can't be written in ONNX.
        RuntimeFailureError: ONNX Runtime can't run it.
    """
    return Program(net.op, outputs).run(blobs)
