"""Nets with fewer blobs give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import core, memonger, workspace


@pytest.fixture
def net() -> core.Net:
    """A chain with a branch, and its gradient."""
    net = core.Net("net")
    with core.NameScope("s"):
        blob: Any = core.BlobReference("x")
        for k in range(5):
            blob = net.Tanh(net.FC([blob, "w", "b"], f"h{k}"), f"t{k}")
        net.AveragedLoss(net.Mul([blob, "t1"], "m"), "loss")
    net.AddGradientOperators(["s/loss"])
    return net


def _run(proto: NetDef, wanted: list[str]) -> list[Any]:
    workspace.ResetWorkspace()
    random = np.random.default_rng(1)
    for name, shape in (("x", (2, 3)), ("s/w", (3, 3)), ("s/b", (3,))):
        workspace.FeedBlob(name, random.standard_normal(shape).astype(np.float32))
    workspace.RunNetOnce(proto)
    return [workspace.FetchBlob(name) for name in wanted]


def _count(proto: NetDef) -> int:
    return len({blob for op in proto.op for blob in op.output})


@pytest.mark.parametrize("activations", [False, True])
def test_gradients_share_blobs(net: core.Net, activations: bool) -> None:
    grads = ["s/w_grad", "s/b_grad"]
    shared = memonger.share_grad_blobs(net, ["s/loss"], grads, "s", ["x_grad"], activations)
    assert _count(shared) <= _count(net.Proto()) - 8
    assert memonger.verify_graph_equality(net.Proto(), shared)
    assert memonger.verify_inplace_blobs(net.Proto(), shared)
    wanted = [*grads, "s/loss", "x_grad"]
    for got, expected in zip(_run(shared, wanted), _run(net.Proto(), wanted), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_another_scope_is_left_alone(net: core.Net) -> None:
    assert memonger.share_grad_blobs(net, ["s/loss"], [], "other") == net.Proto()


def test_inference_keeps_outputs() -> None:
    net = core.Net("inference")
    for k in range(6):
        net.Relu(f"b{k}", f"b{k + 1}")
    net.AddExternalOutput(net.GetBlobRef("b3"), net.GetBlobRef("b6"))
    shared = memonger.optimize_inference_for_dag(net, ["b0"])
    assert {"b3", "b6"} < {blob for op in shared.op for blob in op.output}
    assert _count(shared) == 4
    assert memonger.verify_graph_equality(net.Proto(), shared)


def test_blobs_are_freed_behind_their_last_reader(net: core.Net) -> None:
    freed = memonger.release_blobs_when_used(net.Proto(), {"s/w_grad"}, lambda blob: "loss" not in blob)
    frees = [(index, op.input[0]) for index, op in enumerate(freed.op) if op.type == "Free"]
    assert len(frees) > 10
    for index, blob in frees:
        assert "loss" not in blob
        assert all(blob not in op.input for op in freed.op[index + 1 :])
    (got,) = _run(freed, ["s/w_grad"])
    np.testing.assert_array_equal(got, _run(net.Proto(), ["s/w_grad"])[0])
