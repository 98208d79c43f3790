"""Operators that are put into the middle of a net."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python.core.remap import remap_input


class NetEdits:
    """The part of a net that changes operators which are there."""

    def insert_op_at_idx(self: Any, op: OperatorDef, op_idx: int) -> None:
        """Put an operator before that of an index; what it reads and nothing defines becomes an input.

        Raises:
            AssertionError: The index is negative, or behind the end.
        """
        message = self.Proto()
        count = len(message.op)
        assert 0 <= op_idx <= count, f"net {self.Name()} has {count} operators, and no place {op_idx}"
        for blob in op.input:
            if not self.BlobIsDefined(blob):
                self.AddExternalInput(blob)
        later = list(message.op)[op_idx:]
        copies = [OperatorDef.FromString(each.SerializeToString()) for each in (op, *later)]
        del message.op[op_idx:]
        message.op.extend(copies)
        self.Proto()  # the look-up tables are made again

    def reroute_tensor(
        self: Any, tensor: Any, new_producer: OperatorDef, can_modify: Collection[OperatorDef] | None = None
    ) -> int:
        """Put an operator behind the producers of what it reads; some that read a blob read its output then.

        An external output that is the blob becomes the operator's output, too.

        Args:
            tensor: The blob.
            new_producer: The operator; its first output takes the blob's place.
            can_modify: Operators that are given it, where they read the blob; None: no one.

        Returns:
            How many operators were given it.

        Raises:
            AssertionError: The operator doesn't read the blob, or the net writes one of its inputs twice.
        """
        name, new = str(tensor), new_producer.output[0]
        assert name in new_producer.input, f"new producer {new_producer.type} is not taking in {name}"
        message = self.Proto()
        places: dict[str, list[int]] = {blob: [] for blob in new_producer.input}
        for at, op in enumerate(message.op):
            for blob in op.output:
                places.get(blob, []).append(at)
        twice = [blob for blob, found in places.items() if len(found) > 1]
        assert not twice, f"net {self.Name()} writes {', '.join(twice)} more than once"
        modified = list(can_modify or ())
        chosen = [op for op in message.op if name in op.input and op in modified]
        for op in chosen:
            remap_input(op, {name: new})
        message.external_output[:] = [new if blob == name else blob for blob in message.external_output]
        last = max((at for found in places.values() for at in found), default=-1)
        self.insert_op_at_idx(new_producer, last + 1)
        return len(chosen)
