"""Step nets of RecurrentNetwork that read blobs around the operator, which it doesn't list as inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import netgrad
from netgrad import caffe2
from netgrad.caffe2.python import core, workspace

X = np.random.default_rng(3).normal(size=(4, 2, 3)).astype(np.float32)
START = np.array([0.5, -1, 2], np.float32)


def _recurrent(net: core.Net, step: core.Net, name: str, read: list[str], before: Any, after: Any) -> None:
    """One state ``<name>``, with all rows in ``<name>_all``, by hand: the helpers list what a step reads."""
    net.RecurrentNetwork(
        read,
        [f"{name}_all", f"{name}_workspaces"],
        step_net=step.Proto(),
        timestep=f"{name}_timestep",
        recurrent_states=[f"{name}_states"],
        initial_recurrent_state_ids=[1],
        link_internal=[f"{name}_t", str(before), str(after)],
        link_external=[read[0], f"{name}_states", f"{name}_states"],
        link_offset=[0, 0, 1],
        alias_src=[f"{name}_states"],
        alias_dst=[f"{name}_all"],
        alias_offset=[1],
        outputs_with_grads=[],
    )


def _weighted() -> core.Net:
    """h' = h + w * x with w = 2 * v from outside."""
    step = core.Net("step")
    row, before = step.AddExternalInputs("h_t", "h_prev")
    after = step.Add([before, step.Mul([row, "w"], "product")], "h_next")
    net = core.Net("outer")
    net.Scale("v", "w", scale=2.0)
    _recurrent(net, step, "h", ["x", "h0"], before, after)
    return net


def _feed() -> np.ndarray[Any, Any]:
    v = np.random.default_rng(4).normal(size=X.shape[1:]).astype(np.float32)
    for name, value in (("x", X), ("h0", START), ("v", v)):
        workspace.FeedBlob(name, value)
    return v


def test_a_step_reads_what_the_net_has_written_before() -> None:
    v = _feed()
    net = _weighted()
    inputs = list(net.Proto().op[-1].input)
    workspace.RunNetOnce(net)
    expected = START + np.cumsum(2 * v * X, axis=0)
    np.testing.assert_allclose(workspace.FetchBlob("h_all"), expected, rtol=1e-5)
    assert list(net.Proto().op[-1].input) == inputs == ["x", "h0"]
    # and what was fed since, when it runs on its own
    alone = core.Net("alone")
    alone.Proto().op.extend(net.Proto().op[-1:])
    workspace.FeedBlob("w", np.ones_like(v))
    workspace.RunNetOnce(alone)
    np.testing.assert_allclose(workspace.FetchBlob("h_all"), START + np.cumsum(X, axis=0), rtol=1e-5)


def test_its_shapes_are_inferred() -> None:
    _feed()
    shapes, _ = workspace.InferShapesAndTypes([_weighted()])
    assert shapes["h_all"] == list(X.shape)


def test_a_step_of_a_step_reads_from_outside_of_both() -> None:
    """In each step the inner net adds w * x to what was found, for all rows of x again."""
    v = _feed()
    inner = core.Net("inner")
    row, before = inner.AddExternalInputs("g_t", "g_prev")
    after = inner.Add([before, inner.Mul([row, "v"], "inner_product")], "g_next")
    step = core.Net("step")
    outer_row, outer_before = step.AddExternalInputs("h_t", "h_prev")
    flat = step.Reshape(outer_before, ["flat", "flat_shape"], shape=[2, 3])[0]
    _recurrent(step, inner, "g", ["x", str(flat)], before, after)
    last = step.Slice("g_all", "last", starts=[3, 0, 0], ends=[-1, -1, -1])
    outer_after = step.Add([last, outer_row], "h_next")
    net = core.Net("outer")
    _recurrent(net, step, "h", ["x", "h0"], outer_before, outer_after)
    workspace.RunNetOnce(net)
    steps = np.arange(1, 5, dtype=np.float32)[:, None, None]
    expected = START + steps * (v * X.sum(0)) + np.cumsum(X, axis=0)
    np.testing.assert_allclose(workspace.FetchBlob("h_all"), expected, rtol=1e-4)


def test_it_is_an_input_of_the_onnx_model(tmp_path: Path) -> None:
    v = _feed()
    definition = core.Net("saved")
    definition.Proto().CopyFrom(_weighted().Proto())
    definition.Proto().external_input.extend(["x", "h0", "v"])
    definition.Proto().external_output.append("h_all")
    init = core.Net("init")
    init.GivenTensorFill([], "v", shape=list(v.shape), values=v.ravel().tolist())
    init.GivenTensorFill([], "h0", shape=[3], values=START.tolist())
    for name, net in (("init", init), ("predict", definition)):
        (tmp_path / f"{name}_net.pb").write_bytes(net.Proto().SerializeToString())
    model = caffe2.load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb")
    found = netgrad.run(caffe2.to_onnx(model, shapes={"x": X.shape}), {"x": X})
    np.testing.assert_allclose(found["h_all"], START + np.cumsum(2 * v * X, axis=0), rtol=1e-5)


def test_what_the_step_writes_later_is_not_read_from_outside() -> None:
    _feed()
    step = core.Net("step")
    row, before = step.AddExternalInputs("h_t", "h_prev")
    after = step.Add([before, "v"], "h_next")
    step.Copy(row, "v")
    net = core.Net("outer")
    _recurrent(net, step, "h", ["x", "h0"], before, after)
    with pytest.raises(Exception, match=r"Add -> \['h_next'\] reads 'v', which no link"):
        workspace.RunNetOnce(net)
