"""The outputs of a net that is compiled: written by what computes them, each in memory of its own."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.lowering.net import lowered
from netgrad.caffe2.python import core, workspace
from netgrad.onnx.view import TensorInfo

X = np.array([[1.0, -2.0]], np.float32)


def _types(*operators: OperatorDef) -> list[str]:
    net = lowered(operators, {"x": TensorInfo(ir.DataType.FLOAT, ("n", 2))})
    return [node.op_type for node in net.model.graph.node]


def test_outputs_are_written_by_the_nodes_that_compute_them() -> None:
    relu = core.CreateOperator("Relu", ["x"], ["y"])
    negative = core.CreateOperator("Negative", ["y"], ["z"])
    assert _types(relu, negative) == ["Relu", "Neg"]


def test_what_no_node_computes_is_copied() -> None:
    alias = core.CreateOperator("StopGradient", ["x"], ["y"])
    assert _types(alias) == ["Identity"]
    relu = core.CreateOperator("Relu", ["x"], ["y"])
    assert sorted(_types(relu, core.CreateOperator("StopGradient", ["y"], ["z"]))) == ["Identity", "Relu"]


def test_blobs_of_one_value_have_memory_of_their_own() -> None:
    net = core.Net("one_value")
    net.Relu("x", "y")
    net.StopGradient("y", "z")
    net.ConstantFill([], "one", shape=[2], value=1.0)
    net.StopGradient("one", "same")
    net.Reshape("y", ["flat", "before"], shape=[2])
    workspace.FeedBlob("x", X)
    workspace.CreateNet(net)
    for _ in range(2):
        workspace.RunNet(net)
        here = workspace.C.Workspace.current
        values = [here.needed(name).content for name in ("x", "y", "z", "one", "same", "flat")]
        places = [
            value.ctypes.data if isinstance(value, np.ndarray) else value.data_ptr() for value in values
        ]
        assert len(set(places)) == len(places)
    np.testing.assert_array_equal(workspace.FetchBlob("flat"), [1, 0])


def test_a_blob_that_is_written_again_is_read_as_it_was_between() -> None:
    net = core.Net("again")
    net.Relu("x", "y")
    net.Negative("y", "n")
    net.Scale("y", "y", scale=3.0)
    workspace.FeedBlob("x", X)
    workspace.CreateNet(net)
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("n"), [[-1, 0]])
    np.testing.assert_array_equal(workspace.FetchBlob("y"), [[3, 0]])


def test_an_output_that_a_branch_reads_is_found_there() -> None:
    branch = core.Net("branch")
    branch.Scale("y", "w", scale=2.0)
    net = core.Net("branches")
    net.Relu("x", "y")
    net.Proto().op.add().CopyFrom(
        core.CreateOperator("If", ["which", "y"], ["w"], then_net=branch.Proto(), else_net=branch.Proto())
    )
    net.Proto().external_input.extend(["x", "which"])
    workspace.FeedBlob("x", X)
    workspace.FeedBlob("which", np.array([True]))
    workspace.CreateNet(net)
    workspace.RunNet(net)
    np.testing.assert_array_equal(workspace.FetchBlob("w"), [[2, 0]])
