"""Running operators on ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.context import StaticShapeNeededError
from netgrad.caffe2.lowering.net import Lowered, lowered
from netgrad.core import InvalidArgumentError
from netgrad.onnx.view import TensorInfo
from netgrad.runtime.session import Session

Arrays = Mapping[str, "np.ndarray[Any, Any]"]


class Program:
    """A list of operators, compiled for the element types and ranks of what it reads.

    Args:
        definitions: The operators in order.
        wanted: The blobs that it gives; None for all that it writes.
    """

    def __init__(self, definitions: Sequence[OperatorDef], wanted: Iterable[str] | None = None) -> None:
        self._definitions = list(definitions)
        self._wanted = None if wanted is None else list(wanted)
        self._compiled: dict[Any, tuple[Lowered, Session]] = {}
        self._fixed_shapes = False  # whether some operator needs to know all dims

    def reads(self) -> list[str]:
        """The blobs that it reads before it writes them."""
        written: set[str] = set()
        found: dict[str, None] = {}
        for definition in self._definitions:
            found.update(dict.fromkeys(blob for blob in definition.input if blob not in written))
            written.update(definition.output)
        return list(found)

    def run(self, blobs: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """Run it once.

        Args:
            blobs: What it reads, and perhaps more.

        Returns:
            The blobs that it gives.

        Raises:
            InvalidArgumentError: A blob that it reads isn't there.
            UnsupportedOperatorError: An operator can't be written in ONNX.
            RuntimeFailureError: ONNX Runtime can't run it.
        """
        missing = [blob for blob in self.reads() if blob not in blobs]
        if missing:
            raise InvalidArgumentError(f"the net reads blobs that nobody has given: {', '.join(missing)}")
        given = {blob: np.asarray(blobs[blob]) for blob in self.reads()}
        if not self._definitions:
            return {}
        net, session = self._session(given)
        if not net.outputs:
            return {}
        results = session.run({f"in:{k}": given[blob] for k, blob in enumerate(net.inputs)})
        return {blob: results[f"out:{k}"] for k, blob in enumerate(net.outputs)}

    def _session(self, given: Arrays) -> tuple[Lowered, Session]:
        key = self._key(given)
        if key not in self._compiled:
            try:
                net = lowered(self._definitions, _types(given, static=self._fixed_shapes), self._wanted)
            except StaticShapeNeededError:
                self._fixed_shapes = True
                return self._session(given)
            self._compiled[key] = net, Session(net.model)
        return self._compiled[key]

    def _key(self, given: Arrays) -> Any:
        if self._fixed_shapes:
            return tuple((blob, array.dtype, array.shape) for blob, array in given.items())
        return tuple((blob, array.dtype, array.ndim) for blob, array in given.items())


def _types(given: Arrays, *, static: bool) -> dict[str, TensorInfo]:
    return {
        blob: TensorInfo(
            ir.DataType.from_numpy(array.dtype),
            tuple(array.shape if static else (f"{blob}:{axis}" for axis in range(array.ndim))),
        )
        for blob, array in given.items()
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
