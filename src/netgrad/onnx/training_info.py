"""What a model file says of its training (``training_info``), which onnx_ir does not hold.

It stays with a model as it was read until the model is changed: `load` keeps it, `save` writes it, and
`prepare` drops it, since it names values of the graph that it came with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import onnx
import onnx.external_data_helper
import onnx_ir

_KEY: Final = "netgrad.training_info"  # in the model's transient metadata


def training_info_of(model: onnx_ir.Model) -> Sequence[onnx.TrainingInfoProto]:
    """The entries of ``training_info``, in order; they must not be changed."""
    kept: Sequence[onnx.TrainingInfoProto] = model.meta.get(_KEY, ())
    return kept


def keep_training_info(model: onnx_ir.Model, entries: Sequence[onnx.TrainingInfoProto]) -> None:
    """Let the model have these entries, in place; none at all takes away what it had."""
    model.meta.pop(_KEY, None)
    if entries:
        model.meta[_KEY] = tuple(entries)


def read_training_info(proto: onnx.ModelProto, folder: str) -> list[onnx.TrainingInfoProto]:
    """Copies of the entries of a message, with external data of their tensors read into memory.

    Args:
        proto: The message.
        folder: Where its external data is.

    Raises:
        OSError: A file of external data cannot be read.
    """
    entries = []
    for entry in proto.training_info:
        copy = onnx.TrainingInfoProto()
        copy.CopyFrom(entry)
        for graph in (copy.initialization, copy.algorithm):
            for tensor in graph.initializer:
                if onnx.external_data_helper.uses_external_data(tensor):
                    onnx.external_data_helper.load_external_data_for_tensor(tensor, folder)
                    tensor.data_location = onnx.TensorProto.DEFAULT
                    del tensor.external_data[:]
        entries.append(copy)
    return entries
