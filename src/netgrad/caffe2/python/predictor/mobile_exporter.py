"""A model as two nets that need nothing else: one that writes the parameters, and one that predicts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import core

_FILLS = {
    np.dtype(np.float32): "GivenTensorFill",
    np.dtype(np.int32): "GivenTensorIntFill",
    np.dtype(np.int64): "GivenTensorInt64Fill",
    np.dtype(np.bool_): "GivenTensorBoolFill",
    np.dtype(object): "GivenTensorStringFill",
}


def add_tensor(net: NetDef, name: str, blob: Any) -> None:
    """Add an operator that writes a tensor.

    Args:
        net: The message of a net.
        name: The blob that is written.
        blob: The array. One of uint8 becomes one text, of its bytes.

    Raises:
        TypeError: There is no such operator for the type of its elements.
    """
    array = np.asarray(blob)
    shape, values = list(array.shape), list(array.reshape(-1))
    if array.dtype == np.uint8:
        fill, shape, values = "GivenTensorStringFill", [1], [array.tobytes()]
    elif array.dtype in _FILLS:
        fill = _FILLS[array.dtype]
    else:
        raise TypeError(f"no operator writes blob {name} of {array.dtype}: convert it to float32 before")
    net.op.append(core.CreateOperator(fill, [], [core.BlobReference(name)], shape=shape, values=values))


def Export(workspace: Any, net: Any, params: Iterable[Any]) -> tuple[NetDef, NetDef]:
    """The two nets of a model.

    Args:
        workspace: What fetches the parameters: the module ``workspace``, or what has ``FetchBlob`` like it.
        net: The net that predicts, or its message.
        params: The parameters.

    Returns:
        The net that writes the parameters, and stand-ins for the inputs; and the net that predicts, whose
        outputs are the blobs that none of its operators reads.
    """
    proto = net if isinstance(net, NetDef) else net.Proto()
    names = [str(param) for param in params]
    ssa, versions = core.get_ssa(proto)
    read = {name for inputs, _ in ssa for name, _ in inputs}
    inputs = [blob for blob, version in versions.items() if version == 0 and blob not in names]
    outputs = [blob for blob, version in versions.items() if version != 0 and blob not in read]
    init_net, predict_net = NetDef(), NetDef()
    for name in names:
        add_tensor(init_net, name, workspace.FetchBlob(name))
    for name in inputs:
        add_tensor(init_net, name, np.zeros((1, 1), np.float32))
    predict_net.CopyFrom(proto)
    del predict_net.external_input[:], predict_net.external_output[:]
    predict_net.external_input.extend(dict.fromkeys([*inputs, *proto.external_input]))
    predict_net.external_output.extend(outputs)
    return init_net, predict_net
