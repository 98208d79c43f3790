"""What adds operators to a net that was built: measures of blobs, clipped gradients."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core, schema


class NetModifier(abc.ABC):
    """Something that is called with a net, and changes it in its `modify_net`."""

    @abc.abstractmethod
    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add operators.

        Args:
            net: Where they go.
            init_net: Where what runs once before goes.
            grad_map: Blob to gradient.
            blob_to_device: Blob to device option.
            modify_output_record: Whether what is computed is added to the net's output record.
        """

    def __call__(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """`modify_net`."""
        self.modify_net(
            net,
            init_net=init_net,
            grad_map=grad_map,
            blob_to_device=blob_to_device,
            modify_output_record=modify_output_record,
        )


class BlobMeasures(NetModifier):
    """A modifier that computes something of each of some blobs, prints it, and adds it to the output record.

    Attributes:
        _type: NumPy's type of what is computed, as the output record says it.
    """

    _type: Any = float

    def __init__(self, blobs: Sequence[Any], logging_frequency: int, suffix: str) -> None:
        """Prepare the measures.

        Args:
            blobs: The blobs' names.
            logging_frequency: In which runs they are printed: in every n-th one; in none if it is below 1.
            suffix: What the names of the results end in.
        """
        self._blobs = list(blobs)
        self._logging_frequency = logging_frequency
        self._field_name_suffix = suffix

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Mapping[Any, DeviceOption] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the measures; see `NetModifier.modify_net`.

        Raises:
            AssertionError: The net doesn't define a blob.
        """
        for name in self._blobs:
            blob = core.BlobReference(str(name))
            assert net.BlobIsDefined(blob), f"blob {blob} is not defined in net {net.Name()}"
            with core.DeviceScope((blob_to_device or {}).get(blob, core.DeviceOption(CPU))):
                measured, result = self._measure(net, blob)
            if modify_output_record:
                self._record(net, f"{measured}{self._field_name_suffix}", result)

    @abc.abstractmethod
    def _measure(self, net: Any, blob: Any) -> tuple[Any, Any]:
        """Add the operators for a blob; returns what was measured (it or a part of it) and the result."""

    def _name(self, net: Any, blob: Any) -> Any:
        return net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")

    def _print(self, net: Any, result: Any) -> None:
        if self._logging_frequency >= 1:
            net.Print(result, [], every_n=self._logging_frequency)

    def _record(self, net: Any, field: str, result: Any) -> None:
        column = schema.Scalar(self._type, result)
        if net.output_record() is None:
            net.set_output_record(schema.Struct((field, column)))
        else:
            net.AppendOutputRecordField(field, column)

    def field_name_suffix(self) -> str:
        """What the names of the results end in."""
        return self._field_name_suffix
