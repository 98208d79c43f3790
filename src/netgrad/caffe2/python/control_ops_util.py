"""Adding the operators ``If`` and ``While`` to nets, over nets of their own.

Each of those nets runs by a ``Do`` in a workspace of its own. Blobs that it reads before it writes them, and
blobs that it writes and that are known outside, are those of the net around; all others exist only inside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from netgrad.caffe2.python import core


def get_external_blob_names(net: core.Net, lexical_scope: Collection[str]) -> tuple[set[str], set[str]]:
    """The blobs of the net around that a net reads, and those that it writes.

    Args:
        net: The net.
        lexical_scope: The names of the blobs that are known outside.

    Raises:
        AssertionError: It reads a blob that nothing has written, and that isn't known outside.
    """
    proto = net.Proto()
    known = {str(blob) for blob in lexical_scope}
    reads = core.get_undefined_blobs(core.get_ssa(proto)[0])
    for name in sorted(reads):
        assert name in known, f"Input blob {name} is undefined"
    return reads, {name for op in proto.op for name in op.output if name in known}


class _InDo:
    """A net inside a ``Do``, with the blobs of the net around that it reads and writes.

    Attributes:
        net: The net that has the ``Do`` only.
        reads: What the ``Do`` reads, but its workspace.
        writes: What it writes, but its workspace.
        workspace: The blob of its workspaces.
    """

    def __init__(
        self,
        around: core.Net,
        name: str,
        workspace: str,
        body: core.Net,
        reads: Iterable[str],
        writes: Iterable[str],
    ) -> None:
        self.reads, self.writes = _ordered(reads), _ordered(writes)
        self.workspace = around.NextScopedBlob(f"{around.Name()}/{workspace}")
        self.net = core.Net(name)
        blobs = [*self.reads, *self.writes]
        bound = list(dict.fromkeys(blobs))
        self.net.Do(
            [*_references(self.reads), self.workspace],
            [*_references(self.writes), self.workspace],
            net=body.Proto(),
            inner_blobs=bound,
            outer_blobs_idx=[blobs.index(blob) for blob in bound],
            copy_external_blobs=True,
        )
        self.net.AddExternalOutput(*[*_references(self.writes), self.workspace])


def _ordered(blobs: Iterable[str]) -> list[str]:
    return sorted({str(blob) for blob in blobs})


def _references(blobs: Iterable[str]) -> list[core.BlobReference]:
    return [core.BlobReference(blob) for blob in blobs]


def add_if_op(
    if_net: core.Net,
    cond_blob: Any,
    lexical_scope: Collection[str],
    then_net: core.Net,
    else_net: core.Net | None = None,
) -> None:
    """Add an ``If`` to a net.

    Args:
        if_net: The net.
        cond_blob: A reference to the condition, one truth value.
        lexical_scope: The names of the blobs that are known outside of the branches.
        then_net: What runs if the condition holds.
        else_net: What runs if it doesn't.

    Raises:
        AssertionError: See `get_external_blob_names`.
    """
    then_reads, then_writes = get_external_blob_names(then_net, lexical_scope)
    branches = [_InDo(if_net, "do_then_net", "workspace_if_then", then_net, then_reads, then_writes)]
    else_reads: set[str] = set()
    else_writes: set[str] = set()
    if else_net is not None:
        else_reads, else_writes = get_external_blob_names(else_net, lexical_scope)
        branches.append(_InDo(if_net, "do_else_net", "workspace_if_else", else_net, else_reads, else_writes))
    workspaces = [branch.workspace for branch in branches]
    # What only one of the branches writes keeps its value from before if the other one runs.
    reads = (then_reads | else_reads | (then_writes ^ else_writes)) - {str(cond_blob)}
    outputs = [*_references(_ordered(then_writes | else_writes)), *workspaces]
    nets = {"then_net": branches[0].net.Proto()}
    if else_net is not None:
        nets["else_net"] = branches[1].net.Proto()
    for workspace in workspaces:
        if_net.CreateScope([], [workspace])
    if_net.If([cond_blob, *_references(_ordered(reads)), *workspaces], outputs, **nets)
    if_net.AddExternalOutput(*outputs)


def add_while_op(
    while_net: core.Net,
    cond_blob: Any,
    lexical_scope: Collection[str],
    loop_body_net: core.Net,
    condition_body_net: core.Net | None = None,
) -> None:
    """Add a ``While`` to a net.

    Args:
        while_net: The net.
        cond_blob: A reference to the condition, one truth value.
        lexical_scope: The names of the blobs that are known outside of the loop.
        loop_body_net: What runs as long as the condition holds.
        condition_body_net: What writes the condition before each turn.

    Raises:
        AssertionError: The net of the condition doesn't write it; or see `get_external_blob_names`.
    """
    reads, writes = get_external_blob_names(loop_body_net, lexical_scope)
    # A loop that doesn't run once leaves what it would write as it is.
    body = _InDo(while_net, "do_loop_body_net", "workspace_loop_body", loop_body_net, reads | writes, writes)
    nets = {"loop_net": body.net.Proto()}
    inputs, outputs, workspaces = list(body.reads), list(body.writes), [body.workspace]
    condition = str(cond_blob)
    if condition_body_net is not None:
        assert any(condition in op.output for op in condition_body_net.Proto().op), (
            f"Condition net does not write into the condition blob {condition}"
        )
        asked, told = get_external_blob_names(condition_body_net, lexical_scope)
        test = _InDo(
            while_net,
            "do_loop_condition_net",
            "workspace_loop_cond",
            condition_body_net,
            asked,
            told | {condition},
        )
        nets["cond_net"] = test.net.Proto()
        inputs += [blob for blob in test.reads if blob not in inputs]
        outputs += [blob for blob in test.writes if blob not in outputs]
        workspaces.append(test.workspace)
        if condition not in {str(blob) for blob in lexical_scope}:
            while_net.ConstantFill([], cond_blob, dtype=core.DataType.BOOL, value=False)
    for workspace in workspaces:
        while_net.CreateScope([], [workspace])
    inputs = [blob for blob in inputs if blob != condition]
    while_net.While(
        [cond_blob, *_references(inputs), *workspaces], [*_references(outputs), *workspaces], **nets
    )
    while_net.AddExternalOutput(*_references(outputs), *workspaces)
