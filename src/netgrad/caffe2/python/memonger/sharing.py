"""Blobs that take the name of others which nobody needs any more, or are freed; and comparisons of nets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python.core.remap import remap_operands
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.schemas import in_place_problem


def share_grad_blobs(
    net: Any,
    losses: Iterable[Any],
    param_grads: Iterable[Any],
    namescope: str | None,
    dont_share_blobs: Iterable[Any] | None = None,
    share_activations: bool = False,
    blob_shapes: Mapping[str, Any] | None = None,
) -> NetDef:
    """A net in which gradient blobs that aren't needed any more are used again.

    Args:
        net: The net, or its message, with its backward pass; it stays as it is.
        losses: The blobs that were differentiated, which stay as they are.
        param_grads: Gradients of parameters, which stay as they are.
        namescope: Only blobs in this scope, or whose name is ``_`` and then the scope, are shared.
        dont_share_blobs: Further blobs that stay as they are.
        share_activations: Whether outputs of layers are shared as well, those whose operator reads a weight
            ``<output>_w``; but for the last two, which others often look at.
        blob_shapes: Shapes by blob; blobs have any size here, and it makes no difference.
    """
    proto = _message(net)
    scope = f"{namescope}/" if namescope and not namescope.endswith("/") else namescope or ""
    kept = {str(blob) for blobs in (losses, param_grads, dont_share_blobs or ()) for blob in blobs}
    layers = [blob for op in proto.op for blob in op.output if f"{blob}_w" in op.input]
    activations = set(layers[:-2]) if share_activations else set()

    def shared(blob: str) -> bool:
        in_scope = blob.startswith((scope, f"_{scope}"))
        return in_scope and blob not in kept and (blob.endswith("_grad") or blob in activations)

    return reused(proto, shared)


def optimize_inference_for_dag(net: Any, input_blobs: Iterable[Any], namescope: str = "") -> NetDef:
    """A net in which blobs that aren't needed any more are used again; its outputs stay as they are.

    Args:
        net: The net, or its message; it stays as it is.
        input_blobs: What it is given, which stays as it is.
        namescope: Only blobs in this scope are shared.

    Raises:
        RunError: An operator that has to work in place doesn't.
    """
    kept = {str(blob) for blob in input_blobs}
    for op in _message(net).op:
        problem = in_place_problem(op.type, op.input, op.output)
        if problem is not None:
            raise RunError(problem)
    return reused(_message(net), lambda blob: blob.startswith(namescope) and blob not in kept)


def release_blobs_when_used(
    netproto: NetDef, dont_free_blobs: Collection[Any], selector_fun: Callable[[str], bool] | None = None
) -> NetDef:
    """A net with a ``Free`` behind the last reader of each blob that it makes.

    Args:
        netproto: The net, which stays as it is.
        dont_free_blobs: Blobs that are kept.
        selector_fun: Says of a blob whether it may be freed; None: all.
    """
    kept = {str(blob) for blob in dont_free_blobs} | set(netproto.external_output) | inner_names(netproto)
    kept.update(op.input[0] for op in netproto.op if op.type == "Alias")
    spans = _spans(netproto)
    freed: dict[int, list[str]] = {}
    for blob, (_, last) in spans.items():
        is_read = blob in netproto.op[last].input
        if is_read and blob not in kept and (selector_fun is None or selector_fun(blob)):
            freed.setdefault(last, []).append(blob)
    result = NetDef()
    result.CopyFrom(netproto)
    del result.op[:]
    for index, op in enumerate(netproto.op):
        result.op.add().CopyFrom(op)
        for blob in freed.get(index, ()):
            blobs = [core.BlobReference(blob)]
            result.op.add().CopyFrom(core.CreateOperator("Free", blobs, blobs))
    return result


def verify_inplace_blobs(net_a: NetDef, net_b: NetDef) -> bool:
    """Whether the same operators of two nets work in place, at the same operands."""

    def in_place(op: OperatorDef) -> list[tuple[int, int]]:
        return [(i, o) for i, read in enumerate(op.input) for o, made in enumerate(op.output) if read == made]

    return len(net_a.op) == len(net_b.op) and all(
        in_place(a) == in_place(b) for a, b in zip(net_a.op, net_b.op, strict=True)
    )


def verify_graph_equality(net_a: NetDef, net_b: NetDef) -> bool:
    """Whether two nets have the same operators, each of which reads what the same operators have written."""

    def writers(net: NetDef) -> list[list[int]]:
        last: dict[str, int] = {}
        found = []
        for index, op in enumerate(net.op):
            found.append([last.get(blob, -1) for blob in op.input])
            last.update(dict.fromkeys(op.output, index))
        return found

    types = [[op.type for op in net.op] for net in (net_a, net_b)]
    return types[0] == types[1] and writers(net_a) == writers(net_b)


def _message(net: Any) -> NetDef:
    proto: NetDef = net.Proto() if hasattr(net, "Proto") else net
    return proto


def inner_names(net: NetDef) -> set[str]:
    """The names in nets and texts of operators' arguments, which keep their blobs."""
    found: set[str] = set()
    pending = [argument for op in net.op for argument in op.arg]
    while pending:
        argument = pending.pop()
        found.update(text.decode(errors="replace") for text in (argument.s, *argument.strings))
        for inner in (argument.n, *argument.nets):
            found.update(inner.external_input, inner.external_output)
            for op in inner.op:
                found.update(op.input, op.output)
                pending.extend(op.arg)
    return found


def _spans(net: NetDef) -> dict[str, tuple[int, int]]:
    """For each blob that a net writes before it reads it: its first writer, and the last operator with it."""
    spans: dict[str, tuple[int, int]] = {}
    given = set(net.external_input)
    for index, op in enumerate(net.op):
        given.update(blob for blob in op.input if blob not in spans)
        for blob in (*op.input, *op.output):
            if blob not in given:
                spans[blob] = spans.get(blob, (index, index))[0], index
    return spans


def reused(net: NetDef, shared: Callable[[str], bool]) -> NetDef:
    """The net with fewer names: a blob takes the name of one that no later operator needs."""
    kept = set(net.external_output) | inner_names(net)
    spans = {blob: span for blob, span in _spans(net).items() if blob not in kept and shared(blob)}
    taken = {blob for op in net.op for blob in (*op.input, *op.output)} | set(net.external_input)
    starting: dict[int, list[str]] = {}
    ending: dict[int, list[str]] = {}
    for blob, (first, last) in spans.items():
        starting.setdefault(first, []).append(blob)
        ending.setdefault(last, []).append(blob)
    renames: dict[str, str] = {}
    free: list[str] = []
    number = 0
    for index in range(len(net.op)):
        for blob in starting.get(index, ()):
            if not free:
                while f"__m{number}_shared" in taken:
                    number += 1
                free.append(f"__m{number}_shared")
                number += 1
            renames[blob] = free.pop()
        # What ends here is free from the next operator on: no operator works in place that did not before.
        free += [renames[blob] for blob in ending.get(index, ())]
    result = NetDef()
    result.CopyFrom(net)
    for op in result.op:
        remap_operands(op, renames)
    return result
