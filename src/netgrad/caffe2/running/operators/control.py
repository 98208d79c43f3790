"""Control flow: nets inside operators, and the workspaces that they run in."""

from __future__ import annotations

import numpy as np

from netgrad.caffe2.bindings import bindings
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.running.blob import Array, Blob, as_array, fed, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.net import CreatedNet
from netgrad.caffe2.running.registry import runs
from netgrad.caffe2.running.stack import WorkspaceStack
from netgrad.caffe2.running.workspace import Workspace


def _run_net(call: Call, net: NetDef, workspace: Workspace, key: str) -> None:
    """Run an inner net; created once per workspace."""
    nets: dict[int, tuple[Workspace, CreatedNet]] = call.memory.setdefault(key, {})
    found = nets.get(id(workspace))
    if found is None or found[0] is not workspace:
        if len(nets) > 64:  # loops that keep a workspace per iteration
            nets.clear()
        found = nets[id(workspace)] = workspace, CreatedNet(net, workspace)
    found[1].run()


def _needed_net(call: Call, name: str) -> NetDef:
    net = call.net(name)
    if net is None:
        raise call.error(f"{name} must be specified")
    return net


def _condition(call: Call) -> bool:
    return bool(call.scalar(0))


@runs("CreateScope")
def _create_scope(call: Call) -> None:
    call.put(0, WorkspaceStack())


@runs("HasScope")
def _has_scope(call: Call) -> None:
    call.write(0, [bool(_stack(call, 0).workspaces)])


def _stack(call: Call, at: int) -> WorkspaceStack:
    stack = call.value(at)
    if not isinstance(stack, WorkspaceStack):
        raise call.error(f"input '{call.definition.input[at]}' was not written by CreateScope")
    return stack


def _bindings(call: Call) -> dict[str, str]:
    try:
        return bindings(call.definition)
    except ValueError as error:
        raise call.error(str(error)) from error


@runs("Do")
def _do(call: Call) -> None:
    """Run a net in a workspace that sees the bound blobs only.

    A gradient runs in the workspace that the last forward run has left, and drops it.
    """
    net, bindings = _needed_net(call, "net"), _bindings(call)
    stack = _stack(call, len(call.definition.input) - 1)
    is_gradient = call.definition.is_gradient_op
    if is_gradient:
        if not stack.workspaces:
            raise call.error("there is no workspace of a forward run for this gradient")
        inside = stack.workspaces.pop()
    elif call.argument("reuse_workspace", 0) and stack.workspaces:
        inside = stack.workspaces[-1]
    else:
        inside = Workspace(root_folder=call.workspace.root_folder)
        stack.workspaces.append(inside)
    # what the forward run bound or copied stays as it is: a gradient adds names of its own
    known = set(inside.names()) if is_gradient else ()
    inside.bind(
        {name: call.workspace.create_blob(outer) for name, outer in bindings.items() if name not in known}
    )
    # a net of its own each time: the workspace is another one, and programs are shared
    CreatedNet(net, inside).run()
    if not is_gradient and call.argument("copy_external_blobs", 0):
        copies = {}
        for name, outer in bindings.items():
            copies[name] = Blob()
            copies[name].value = call.workspace.create_blob(outer).value
        inside.bind(copies)


@runs("If")
def _if(call: Call) -> None:
    """Run one of two nets; without the second nothing where the condition doesn't hold."""
    name = "then_net" if _condition(call) else "else_net"
    net = _needed_net(call, name) if name == "then_net" else call.net(name)
    if net is not None:
        _run_net(call, net, call.workspace, name)


@runs("While")
def _while(call: Call) -> None:
    """Run a net while the condition holds, which another net may write before each test."""
    body, test = _needed_net(call, "loop_net"), call.net("cond_net")
    while True:
        if test is not None:
            _run_net(call, test, call.workspace, "cond_net")
        if not _condition(call):
            return
        _run_net(call, body, call.workspace, "loop_net")


@runs("ONNXWhile")
def _onnx_while(call: Call) -> None:
    """The Loop of ONNX: a body that is given the turn's number, whether to go on, and what is carried.

    Without ``disable_scopes`` it runs in a workspace of its own, which sees nothing else. It gives whether to
    go on, what is carried, and further results, which are joined over the turns along their first axis.
    """
    body, carried = _needed_net(call, "body"), len(call.definition.input) - 2
    results = list(body.external_output)
    if len(body.external_input) < carried + 2 or len(results) != len(call.definition.output) + 1:
        raise call.error(
            f"the body has {len(body.external_input)} inputs and {len(results)} outputs; the operator's "
            f"inputs and outputs ask for {carried + 2} and {len(call.definition.output) + 1}"
        )
    if carried < 0 or len(results) < carried + 1:
        raise call.error("it needs a number of turns, a condition, and an output for each further input")
    if not call.argument("has_trip_count", 0) and not call.argument("has_cond", 0):
        raise call.error("without has_trip_count and has_cond it would never end")
    most = call.scalar(0) if call.argument("has_trip_count", 0) else None
    again = bool(call.scalar(1)) if call.argument("has_cond", 0) else True
    inside = call.workspace
    if not call.argument("disable_scopes", 0):
        inside = Workspace(root_folder=call.workspace.root_folder)
    values = [call.value(at + 2) for at in range(carried)]
    scanned: list[list[Array]] = [[] for _ in results[carried + 1 :]]
    turn = 0
    while again and (most is None or turn < most):
        for name, value in zip(body.external_input, [np.int64(turn), np.bool_(again), *values], strict=False):
            inside.create_blob(name).value = value if is_tensor(value) or is_text(value) else fed(value)
        _run_net(call, body, inside, "body")
        found = [inside.value(name, call.definition) for name in results]
        if call.argument("has_cond", 0):
            again = bool(as_array(found[0]).reshape(-1)[0])
        values = found[1 : carried + 1]
        for list_, value in zip(scanned, found[carried + 1 :], strict=True):
            list_.append(as_array(value))
        turn += 1
    for at, value in enumerate(values):
        call.put(at, value)
    for at, arrays in enumerate(scanned, carried):
        if len({array.shape for array in arrays}) > 1 or any(array.ndim == 0 for array in arrays):
            raise call.error(f"'{results[at + 1]}' is joined over the turns: it needs one shape, with axes")
        call.write(at, np.concatenate(arrays) if arrays else np.zeros(0, np.float32))
