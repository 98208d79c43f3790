"""Small tools around nets and workspaces."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from onnx.backend.base import namedtupledict

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.load import read_net, save_net
from netgrad.caffe2.onnx_import.names import DummyName
from netgrad.caffe2.python.onnx.workspace import Workspace
from netgrad.core import InvalidArgumentError

log = logging.getLogger(__name__)
_names = DummyName()


def dummy_name() -> str:
    """A name that it has not given before."""
    return _names.new_dummy_name()


def load_caffe2_net(file: Any) -> NetDef:
    """The net of a file, in text or binary form."""
    return read_net(file)


def save_caffe2_net(net: NetDef, file: str, output_txt: bool = False) -> None:
    """Write a net, and its text form to ``file`` with ``txt`` behind it if asked for."""
    save_net(net, file)
    if output_txt:
        Path(f"{file}txt").write_text(str(net))


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


def c2_native_run_net(
    init_net: NetDef | None, predict_net: NetDef, inputs: Any, debug_arg: Any = None
) -> tuple[Workspace, Any]:
    """Run a pair of nets in a workspace of its own; see `c2_native_run_op`.

    A list of arrays goes to the external inputs that ``init_net`` doesn't write, if there are as many; else
    to the first ones.

    Raises:
        InvalidArgumentError: There are more arrays than external inputs.
    """
    workspace = Workspace()
    if init_net is not None:
        workspace.RunNetOnce(init_net)
    known = {blob for op in init_net.op for blob in op.output} if init_net is not None else set()
    names = [blob for blob in predict_net.external_input if blob not in known]
    if not isinstance(inputs, Mapping) and len(names) != len(inputs):
        names = list(predict_net.external_input)[: len(inputs)]
        if len(names) < len(inputs):
            about = f" ({debug_arg})" if debug_arg else ""
            raise InvalidArgumentError(
                f"{len(inputs)} arrays for {len(names)} inputs of the net '{predict_net.name}'{about}"
            )
    _feed(workspace, names, inputs)
    workspace.RunNetOnce(predict_net)
    return workspace, _fetched(workspace, predict_net.external_output)


def benchmark_caffe2_model(
    init_net: NetDef | None,
    predict_net: NetDef,
    warmup_iters: int = 3,
    main_iters: int = 10,
    layer_details: bool = True,
) -> float:
    """Milliseconds that a run of a net takes, in a workspace of its own.

    Args:
        init_net: The net that writes what it reads.
        predict_net: The net.
        warmup_iters: Runs before those that are measured.
        main_iters: Runs that are measured.
        layer_details: Whether each operator is measured as well, which is printed.
    """
    workspace = Workspace()
    if init_net is not None:
        workspace.RunNetOnce(init_net)
    workspace.CreateNet(predict_net)
    return float(workspace.BenchmarkNet(predict_net.name, warmup_iters, main_iters, layer_details)[0])


def benchmark_pytorch_model(
    model: Callable[..., Any],
    inputs: Sequence[Any],
    training: bool = False,
    warmup_iters: int = 3,
    main_iters: int = 10,
    verbose: bool = False,
) -> float:
    """Milliseconds that a call takes, of a model of PyTorch or of anything that is called.

    Args:
        model: What is called.
        inputs: With what it is called.
        training: It makes no difference.
        warmup_iters: Calls before those that are measured.
        main_iters: Calls that are measured.
        verbose: It makes no difference.
    """
    for _ in range(warmup_iters):
        model(*inputs)
    start = time.perf_counter()
    for _ in range(main_iters):
        model(*inputs)
    taken = (time.perf_counter() - start) * 1000 / main_iters
    log.info("a call takes %s milliseconds", taken)
    return taken


def _feed(workspace: Workspace, names: Sequence[str], inputs: Any) -> None:
    named = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
    for name, array in named.items():
        workspace.FeedBlob(name, array)


def _fetched(workspace: Workspace, names: Sequence[str]) -> Any:
    outputs: Any = namedtupledict("Outputs", list(names))
    return outputs(*(workspace.FetchBlob(name) for name in names))
