"""Small tools around nets and workspaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from onnx.backend.base import namedtupledict

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.load import read_net, save_net
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.python.onnx.workspace import Workspace

_names = DummyName()


def dummy_name() -> str:
    """A name that it has not given before."""
    return _names.new_dummy_name()


def load_caffe2_net(file: Any) -> NetDef:
    """The net of a file, in text or binary form."""
    return read_net(file)


def save_caffe2_net(net: NetDef, file: str, output_txt: bool = False) -> None:
    """Write a net, and its text form to ``file`` with ``.pbtxt`` behind it if asked for."""
    save_net(net, file)
    if output_txt:
        save_net(net, f"{file}.pbtxt")


def c2_native_run_op(op_def: OperatorDef, inputs: Any) -> tuple[Workspace, Any]:
    """Run an operator in a workspace of its own.

    Args:
        op_def: The operator.
        inputs: An array by the name of each input, or a list of arrays in their order.

    Returns:
        The workspace, and a named tuple of the outputs.
    """
    workspace = Workspace()
    _feed(workspace, op_def.input, inputs)
    workspace.RunOperatorOnce(op_def)
    return workspace, _fetched(workspace, op_def.output)


def c2_native_run_net(init_net: NetDef | None, predict_net: NetDef, inputs: Any) -> tuple[Workspace, Any]:
    """Run a pair of nets in a workspace of its own; see `c2_native_run_op`.

    A list of arrays goes to the external inputs that ``init_net`` doesn't write.
    """
    workspace = Workspace()
    if init_net is not None:
        workspace.RunNetOnce(init_net)
    known = {blob for op in init_net.op for blob in op.output} if init_net is not None else set()
    _feed(workspace, [blob for blob in predict_net.external_input if blob not in known], inputs)
    workspace.RunNetOnce(predict_net)
    return workspace, _fetched(workspace, predict_net.external_output)


def _feed(workspace: Workspace, names: Sequence[str], inputs: Any) -> None:
    named = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    for name, array in named.items():
        workspace.FeedBlob(name, array)


def _fetched(workspace: Workspace, names: Sequence[str]) -> Any:
    outputs: Any = namedtupledict("Outputs", list(names))
    return outputs(*(workspace.FetchBlob(name) for name in names))
