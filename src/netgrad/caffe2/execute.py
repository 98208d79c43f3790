"""Running operators on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np
import onnx
import onnx_ir as ir
from onnxruntime import OrtValue

from netgrad.caffe2 import threads
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.context import StaticShapeNeededError
from netgrad.caffe2.lowering.held import ControlFlowError
from netgrad.caffe2.lowering.net import Lowered, lowered
from netgrad.caffe2.reads import outside_reads, perhaps_kept, reads_inside
from netgrad.caffe2.recurrence import with_kept
from netgrad.core import InvalidArgumentError, UnsupportedOperatorError
from netgrad.onnx.view import TensorInfo
from netgrad.runtime.results import Results
from netgrad.runtime.session import Session

Arrays = Mapping[str, "np.ndarray[Any, Any]"]
_T = TypeVar("_T")
_Types = Mapping[str, "tuple[int, Sequence[int]]"]

_MODELS = 64  # compiled ones that are kept, for nets that need a model for each shape

_OVER_STEPS = ("RecurrentNetwork", "RecurrentNetworkGradient")


class ShapeOfValuesError(UnsupportedOperatorError):
    """An operator needs to know a shape that only running the operators before it tells.

    Cause: for example a gathering by what ``Unique`` has found, in front of an operator whose form in ONNX
    depends on the number of rows.

    What to do: run the operators before it on their own, as workspaces do.
    """


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A model for the element types and ranks, or shapes, of what it reads.

    Attributes:
        net: The model and the blobs that it reads and writes.
        session: What runs it; None where it gives nothing.
        inputs: The name of each input, with its blob.
        outputs: The names of all outputs: of blobs, of blobs that are perhaps written, and whether they are.
        texts: The blobs that are texts.
    """

    net: Lowered
    session: Session | None
    inputs: tuple[tuple[str, str], ...]
    outputs: list[str]
    texts: tuple[str, ...]

    @staticmethod
    def of(net: Lowered) -> _Compiled:
        """The model, loaded."""
        session = None
        if net.outputs or net.perhaps:
            session = Session.of_written(net.model, threads=threads.number())
        outputs = [] if session is None else list(net.model.graph.output)
        return _Compiled(
            net,
            session,
            tuple((f"in:{k}", blob) for k, blob in enumerate(net.inputs)),
            [value.name for value in outputs],
            tuple(
                blob
                for blob, value in zip((*net.outputs, *net.perhaps), outputs, strict=False)
                if value.type.tensor_type.elem_type == onnx.TensorProto.STRING
            ),
        )

    def written(self, results: Sequence[_T]) -> dict[str, _T]:
        """The blobs that a run has written."""
        found = dict(zip(self.net.outputs, results, strict=False))
        perhaps = self.net.perhaps
        if perhaps:
            values, truths = results[len(found) :], results[len(found) + len(perhaps) :]
            for (blob, holds), value, whether in zip(perhaps.items(), values, truths, strict=False):
                truth: Any = whether
                if bool(truth.numpy() if isinstance(truth, OrtValue) else truth) == holds:
                    found[blob] = value
        return found


@dataclass(frozen=True, slots=True)
class Run:
    """What a run on values of ONNX Runtime has written."""

    _compiled: _Compiled
    _results: Results | None

    @property
    def in_order(self) -> tuple[tuple[str, ...], Results] | None:
        """Blobs, and their values in the same order; None if some are texts or perhaps not written."""
        if self._results is None or self._compiled.net.perhaps or self._compiled.texts:
            return None
        return self._compiled.net.outputs, self._results

    def written(self) -> dict[str, OrtValue | np.ndarray[Any, Any]]:
        """The blobs that were written; texts are arrays."""
        if self._results is None:
            return {}
        results = [self._results[at] for at in range(len(self._results))]
        found: dict[str, Any] = self._compiled.written(results)
        for blob in self._compiled.texts:
            if blob in found:
                found[blob] = found[blob].numpy()
        return found


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
        self._compiled: dict[Any, _Compiled] = {}
        self._fixed_shapes = False  # whether some operator needs to know all dims
        # Nets over steps have another form for no steps, of which only the shapes tell.
        self._steps = any(op.type in _OVER_STEPS for op in self._definitions)

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """The blobs that its operators read before they write them."""
        return tuple(outside_reads(self._definitions))

    @cached_property
    def reads_perhaps(self) -> tuple[str, ...]:
        """The blobs that only nets inside of its operators read, or write or leave as they are."""
        inside = (*reads_inside(self._definitions), *perhaps_kept(self._definitions))
        return tuple(dict.fromkeys(inside))

    @cached_property
    def writes(self) -> frozenset[str]:
        """The blobs that its operators write."""
        return frozenset(blob for op in self._definitions for blob in op.output)

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
        reads = self.reads
        missing = [blob for blob in reads if blob not in blobs]
        if missing:
            raise InvalidArgumentError(f"the net reads blobs that nobody has given: {', '.join(missing)}")
        perhaps = [blob for blob in self.reads_perhaps if blob in blobs]
        given = {blob: np.asarray(blobs[blob]) for blob in dict.fromkeys((*reads, *perhaps))}
        if not self._definitions:
            return {}
        compiled = self._for(
            {blob: (_element_type(array.dtype), array.shape) for blob, array in given.items()}
        )
        if compiled.session is None:
            return {}
        found = compiled.session.run({name: given[blob] for name, blob in compiled.inputs}, compiled.outputs)
        return compiled.written(list(found.values()))

    def run_values(self, blobs: Mapping[str, OrtValue]) -> Run:
        """Run it once on values of ONNX Runtime.

        Args:
            blobs: All that it reads; no texts.

        Raises:
            UnsupportedOperatorError: An operator can't be written in ONNX.
            RuntimeFailureError: ONNX Runtime can't run it.
        """
        compiled = self._for({blob: (value.element_type(), value.shape()) for blob, value in blobs.items()})
        if compiled.session is None:
            return Run(compiled, None)
        given = {name: blobs[blob] for name, blob in compiled.inputs}
        return Run(compiled, compiled.session.run_results(given, compiled.outputs))

    @property
    def definitions(self) -> list[OperatorDef]:
        """The operators, with what recurrent nets keep written out; see `with_kept`."""
        return self._definitions

    @property
    def compiled(self) -> int:
        """How many models it has been compiled to."""
        return len(self._compiled)

    def _for(self, types: _Types) -> _Compiled:
        """The model for what is read."""
        if self._fixed_shapes or (self._steps and any(0 in shape for _, shape in types.values())):
            return self._with_shapes(types)
        key = tuple([(blob, dtype, len(shape)) for blob, (dtype, shape) in types.items()])
        found = self._compiled.get(key)
        if found is not None:
            return found
        try:
            return self._keep(key, _infos(types, static=False))
        except StaticShapeNeededError:
            self._fixed_shapes = True
            return self._with_shapes(types)

    def _with_shapes(self, types: _Types) -> _Compiled:
        key = tuple([(blob, dtype, tuple(shape)) for blob, (dtype, shape) in types.items()])
        found = self._compiled.get(key)
        if found is not None:
            return found
        try:
            return self._keep(key, _infos(types, static=True))
        except StaticShapeNeededError as error:
            raise ShapeOfValuesError(
                f"{error} can't be compiled with the operators before it: it needs to know the shape of what "
                "it reads, which depends on values that they compute"
            ) from error

    def _keep(self, key: Any, infos: Mapping[str, TensorInfo]) -> _Compiled:
        net = lowered(self._definitions, infos, self._wanted)
        left = [blob for blob, count in net.stacks.items() if count]
        if left and self._complete:
            raise ControlFlowError(f"the workspaces that are left on '{left[0]}' can't be kept")
        if len(self._compiled) >= _MODELS:
            self._compiled.pop(next(iter(self._compiled)))
        found = self._compiled[key] = _Compiled.of(net)
        return found


@cache
def _element_type(dtype: np.dtype[Any]) -> int:
    return int(ir.DataType.from_numpy(dtype))


def _infos(types: _Types, *, static: bool) -> dict[str, TensorInfo]:
    return {
        blob: TensorInfo(
            ir.DataType(dtype), tuple(shape if static else (f"{blob}:{axis}" for axis in range(len(shape))))
        )
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
