"""A net under construction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.makers.types import is_operator, near_types, registered_types
from netgrad.caffe2.python.core.blob_reference import (
    BlobReference,
    ScopedBlobReference,
    ScopedName,
    references,
)
from netgrad.caffe2.python.core.copies import cloned, part_of
from netgrad.caffe2.python.core.gradient import IR, GradientRegistry, GradientSlice
from netgrad.caffe2.python.core.net_edits import NetEdits
from netgrad.caffe2.python.core.net_names import next_blob_number, unique_net_name
from netgrad.caffe2.python.core.net_operators import NetOperators
from netgrad.caffe2.python.core.net_records import NetRecords, blobs_of
from netgrad.caffe2.python.core.net_settings import NetSettings
from netgrad.caffe2.python.core.operators import CreateOperator
from netgrad.caffe2.python.core.remap import RemapFunction
from netgrad.caffe2.python.core.tracebacks import remember


class Net(NetOperators, NetEdits, NetSettings, NetRecords):
    """A `NetDef` that operators are added to: ``net.OpType(inputs, outputs, arguments...)``.

    Raw names get the current name scope. What an operator reads and nothing in the net has written becomes an
    external input by itself.
    """

    def __init__(self, name_or_proto: str | NetDef | None, inplace: bool = False) -> None:
        """Start an empty net of this name, or copy a message; with ``inplace`` the message is the net's own.

        The name is made unique in the process, and gets that of the active net builder in front.
        """
        self._net = NetDef()
        if isinstance(name_or_proto, NetDef):
            self._next_blob = next_blob_number(name_or_proto)
            if inplace:
                self._net = name_or_proto
            else:
                self._net.CopyFrom(name_or_proto)
            self._net.name = unique_net_name(self._net.name)
        else:
            self._net.name = unique_net_name(name_or_proto)
            self._next_blob = 0
        self._attributes: dict[str, list[Any]] = {}
        self._given_blobs: dict[str, int] = {}
        self._next_numbers: dict[str, int] = {}
        self._written: set[str] | None = None  # None: the message may have been changed from outside
        self._external: set[str] = set()

    # ---- what it is --------------------------------------------------------------------------------

    def Proto(self) -> NetDef:
        """The net's own message, which may be changed."""
        self._written = None
        return self._net

    def Name(self) -> str:
        """The net's name."""
        return self._net.name

    def __str__(self) -> str:
        return self._net.name

    @property
    def external_inputs(self) -> list[BlobReference]:
        """References to the external inputs."""
        return [BlobReference(name) for name in self._net.external_input]

    @property
    def external_outputs(self) -> list[BlobReference]:
        """References to the external outputs."""
        return [BlobReference(name) for name in self._net.external_output]

    def is_external_input(self, blob: Any) -> bool:
        """Whether a blob is an external input."""
        self._look_up()
        return str(blob) in self._external

    def BlobIsDefined(self, blob: Any) -> bool:
        """Whether an operator writes the blob or it is an external input."""
        self._look_up()
        assert self._written is not None
        return str(blob) in self._external or str(blob) in self._written

    def UsesBlob(self, blob: Any) -> bool:
        """Whether an operator reads the blob or it is an external input."""
        name = str(blob)
        return any(name in op.input for op in self._net.op) or name in self._net.external_input

    def UsedBlobNames(self) -> set[str]:
        """The names of all blobs."""
        names = set(self._net.external_input) | set(self._net.external_output)
        for op in self._net.op:
            names.update(op.input)
            names.update(op.output)
        return names

    def GetBlobRef(self, blob_name: Any) -> BlobReference:
        """A reference to a blob of the net.

        Raises:
            KeyError: The net doesn't define it.
        """
        if not self.BlobIsDefined(blob_name):
            raise KeyError(f"net {self.Name()} doesn't define blob {blob_name}")
        return BlobReference(blob_name, self)

    def _CheckLookupTables(self) -> None:
        """Check that what is remembered of the message agrees with it.

        Raises:
            AssertionError: It doesn't: the message was changed in other ways than by `Proto`.
        """
        self._look_up()
        assert self._written == {name for op in self._net.op for name in op.output}
        assert self._external == set(self._net.external_input)

    def _look_up(self) -> None:
        if self._written is None:
            self._written = {name for op in self._net.op for name in op.output}
            self._external = set(self._net.external_input)

    # ---- names -------------------------------------------------------------------------------------

    def NextName(self, prefix: str | None = None, output_id: int | None = None) -> str:
        """A name that no blob has: ``net_blob_0``, with a prefix ``net/prefix`` or ``net/prefix:output``.

        A number that was given to a prefix is not given to it again, whatever name scope is active.
        """
        if not prefix:
            name = f"{self.Name()}_blob_{self._next_blob}"
            self._next_blob += 1
            return name
        ending = "" if output_id is None else f":{output_id}"
        base = f"{self.Name()}/{prefix}"
        name = plain = base + ending
        while self.BlobIsDefined(ScopedName(name)):
            number = self._next_numbers.get(plain, 2)
            name = f"{base}_{number}{ending}"
            self._next_numbers[plain] = number + 1
        return name

    def NextBlob(self, prefix: str) -> BlobReference:
        """A reference to a new blob: ``prefix``, ``prefix_auto_0``, ...; never the same twice.

        It comes from no net: the net knows it once an operator writes it, and may also read it from outside.
        """
        return BlobReference(self._numbered(prefix))

    def NextScopedBlob(self, prefix: str = "unnamed") -> BlobReference:
        """`NextBlob` with the name scope in front."""
        return BlobReference(self._numbered(ScopedName(prefix)))

    def _numbered(self, prefix: str) -> str:
        name, count = prefix, self._given_blobs.get(prefix, 0)
        while name in self._given_blobs or self.BlobIsDefined(name):
            name = f"{prefix}_auto_{count}"
            count += 1
        self._given_blobs[prefix] = count
        self._given_blobs.setdefault(name, 0)
        return name

    # ---- adding operators --------------------------------------------------------------------------

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_"):
            raise AttributeError(op_type)
        if not is_operator(op_type):
            raise AttributeError(f"there is no method or operator {op_type}{near_types(op_type)}")

        def create(*args: Any, **kwargs: Any) -> Any:
            return self._create_and_add(op_type, *args, **kwargs)

        return create

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *registered_types()})

    def _create_and_add(self, op_type: str, inputs: Any = None, outputs: Any = None, **kwargs: Any) -> Any:
        """Add an operator; returns nothing, one reference or a tuple of them, by its number of outputs."""
        read = references([] if inputs is None else inputs)
        for blob in read:
            if not self.BlobIsDefined(blob):
                assert blob.Net() is not self, f"{blob!r} claims to come from a net that doesn't define it"
                self.AddExternalInput(blob)
        if outputs is None:
            outputs = self.NextName(prefix=op_type)
        elif isinstance(outputs, int):
            outputs = [self.NextName(prefix=op_type, output_id=at) for at in range(outputs)]
        op = CreateOperator(op_type, read, outputs, **kwargs)
        remember(self.Name(), len(self._net.op))
        self._extend([op])
        written = tuple(BlobReference(name, self) for name in op.output)
        if not written:
            return None
        return written[0] if len(written) == 1 else written

    def _extend(self, operators: Iterable[OperatorDef]) -> None:
        for op in operators:
            self._net.op.add().CopyFrom(op)
            if self._written is not None:
                self._written.update(op.output)

    def extend_ops(self, new_ops: Iterable[OperatorDef]) -> None:
        """Append ready operators."""
        self._extend(new_ops)

    def AddGradientOperators(
        self, ys: Any, skip: int = 0, *, overwritten: Literal["error", "keep"] = "error"
    ) -> dict[str, Any]:
        """Append the backward pass over the operators from ``skip`` on; returns the map of gradients.

        Args:
            ys: See `GradientRegistry.GetBackwardPass`.
            skip: How many operators are left out.
            overwritten: ``"keep"`` adds copies of values that the net overwrites and a gradient operator
                needs; ``"error"``, as in the original, refuses such nets.

        Raises:
            Exception: See `GradientRegistry.GetBackwardPass`.
        """
        if overwritten == "keep":
            forward, operators, gradients = IR(self._net.op[skip:]).backward_pass(ys, overwritten="keep")
            del self._net.op[skip:]
            self._extend(forward)
        else:
            operators, gradients = GradientRegistry.GetBackwardPass(self._net.op[skip:], ys)
        self._extend(operators)
        return {
            blob: GradientSlice(BlobReference(grad.indices, self), BlobReference(grad.values, self))
            if isinstance(grad, GradientSlice)
            else BlobReference(grad, self)
            for blob, grad in gradients.items()
        }

    # ---- external inputs and outputs ---------------------------------------------------------------

    def AddExternalInput(self, *inputs: Any) -> Any:
        """Add external inputs, or those of a record; names are taken as they are.

        Returns a reference or a list of them.
        """
        found = []
        for blob in _flat(inputs):
            name = str(blob)
            assert not self.is_external_input(name), f"{name} is an external input of {self.Name()} already"
            self._net.external_input.append(name)
            self._external.add(name)
            found.append(BlobReference(name, self))
        return found[0] if len(found) == 1 else found

    AddExternalInputs = AddExternalInput

    def AddExternalOutput(self, *outputs: Any) -> None:
        """Add external outputs, which the net must define."""
        for blob in _flat(outputs):
            assert isinstance(blob, BlobReference), f"an external output is a reference, not {blob!r}"
            assert self.BlobIsDefined(blob), f"{blob} is not defined in net {self.Name()}"
            if str(blob) not in self._net.external_output:
                self._net.external_output.append(str(blob))

    AddExternalOutputs = AddExternalOutput

    def AddScopedExternalInputs(self, *inputs: Any) -> Any:
        """`AddExternalInput` with the name scope."""
        return self.AddExternalInput(*[ScopedBlobReference(str(blob)) for blob in _flat(inputs)])

    def AddScopedExternalOutputs(self, *outputs: Any) -> None:
        """`AddExternalOutput` with the name scope."""
        self.AddExternalOutput(*[ScopedBlobReference(str(blob)) for blob in _flat(outputs)])

    # ---- copies ------------------------------------------------------------------------------------

    def Clone(
        self,
        name: str,
        blob_remap: Mapping[Any, Any] | None = None,
        op_id_mask: Sequence[int] | None = None,
        remap_funcs: Mapping[str, RemapFunction] | None = None,
        keep_schema: bool = True,
        update_external_list: bool = False,
    ) -> Net:
        """A copy with another name.

        Args:
            name: Its name.
            blob_remap: Old blob to new one.
            op_id_mask: Indices of the operators that it has; None for all.
            remap_funcs: How operators of some types are renamed inside.
            keep_schema: Whether the records of inputs and outputs go with it.
            update_external_list: Whether the external inputs and outputs are made anew from the operators of
                the copy: what they read before one of them has written it, and what none of them reads.
        """
        clone = Net(cloned(self._net, name, blob_remap, op_id_mask, remap_funcs, update_external_list))
        clone._attributes = self._attributes
        if keep_schema:
            clone._take_records(self, blob_remap)
        return clone

    def ClonePartial(
        self,
        name: str,
        inputs: Any,
        outputs: Any,
        remap_funcs: Mapping[str, RemapFunction] | None = None,
    ) -> tuple[Net, list[BlobReference]]:
        """A net with only the operators that compute ``outputs`` from ``inputs``.

        Args:
            name: Its name; blobs inside get ``name/`` in front.
            inputs: Blobs that are given, as a list or a dict to their new names.
            outputs: Blobs that are computed, likewise.
            remap_funcs: See `Clone`.

        Returns:
            The net, and references to its outputs.
        """
        part, found = part_of(self._net, name, inputs, outputs, remap_funcs)
        net = Net(part)
        net._attributes = self._attributes
        return net, [BlobReference(blob, net) for blob in found]

    def AppendNet(self, net: Net, device_option: DeviceOption | None = None) -> Net:
        """Append the operators of another net, and what it needs from outside; returns this net."""
        for blob in net.Proto().external_input:
            if not self.BlobIsDefined(blob):
                self.AddExternalInput(blob)
        for blob in net.Proto().external_output:
            if blob not in self._net.external_output:
                self._net.external_output.append(blob)
        for op in net.Proto().op:
            added = self._net.op.add()
            added.CopyFrom(op)
            if device_option is not None:
                added.device_option.CopyFrom(device_option)
        self._written = None
        return self


def _flat(blobs: Sequence[Any]) -> list[Any]:
    return [one for blob in blobs for one in ([blob] if isinstance(blob, str) else blobs_of(blob))]
