"""Blobs that are views of one piece of memory."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("UnsafeCoalesce")
def _coalesce(call: Call) -> None:
    """Put the elements of all blobs in one vector, the last output, and let the others be views of it.

    The other outputs have the names of the inputs, in order, or their own. What is written to one is seen in
    the others, until a tensor of another shape is written.
    """
    inputs, outputs = call.definition.input, call.definition.output
    if len(outputs) != len(inputs) + 1:
        raise call.error(f"it has {len(inputs)} inputs, and as many outputs and one more are needed")
    arrays = [call.array(at) for at in range(len(inputs))]
    if len({array.dtype for array in arrays}) != 1 or arrays[0].dtype == object:
        raise call.error(f"its inputs are {', '.join(str(array.dtype) for array in arrays)}, not of one kind")
    memory = np.concatenate([array.reshape(-1) for array in arrays])
    start = 0
    for name, array in zip(outputs, arrays, strict=False):
        view = memory[start : start + array.size].reshape(array.shape)
        call.workspace.create_blob(name).share(view)
        start += array.size
    call.workspace.create_blob(outputs[-1]).share(memory)
