"""Nets as graphs: their nodes, patterns in them, and the nets that changed graphs are written as."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python import core, nomnigraph, workspace
from netgrad.caffe2.python.nomnigraph_transformations import transpose_network


def _module() -> nomnigraph.NNModule:
    """y = Relu(FC(x, w, b)), in place."""
    net = core.Net("net")
    net.FC(["x", "w", "b"], "y")
    net.Relu("y", "y")
    net.AddExternalOutput(core.BlobReference("y"))
    return nomnigraph.NNModule(net)


def _ops(net: NetDef) -> list[tuple[str, list[str], list[str]]]:
    return [(op.type, list(op.input), list(op.output)) for op in net.op]


def test_nodes_and_their_neighbours() -> None:
    module = _module()
    layer, relu = module.controlFlow
    assert [node.name for node in layer.inputs] == ["x", "w", "b"]
    assert [node.name for node in module.tensors] == ["x", "w", "b", "y", "y"]
    assert layer.outputs[0] is relu.inputs[0]
    assert layer.outputs[0].producer is layer
    assert layer.outputs[0].consumers == [relu]
    assert layer.getOperatorSuccessors() == [relu]
    assert relu.getOperatorPredecessors() == [layer]
    assert (layer.type, layer.inputs[0].type) == ("Operator", "Tensor")
    assert not layer.inputs[0].hasProducer()
    with pytest.raises(RuntimeError, match="no operator writes the tensor 'x'"):
        layer.inputs[0].getProducer()
    with pytest.raises(RuntimeError, match="'x' is no Operator"):
        layer.inputs[0].getInputs()


def test_a_net_comes_back_as_it_was() -> None:
    net = core.Net("net")
    net.FC(["x", "w", "b"], "y", axis=1)
    net.Proto().op[0].engine = "ENGINE"
    net.Add(["y", "y"], "y")
    again = nomnigraph.NNModule(net).convertToCaffe2Proto(net.Proto())
    assert again == net.Proto()


def test_operators_run_after_those_that_they_read() -> None:
    """(a * b) + d becomes (a + d) * b."""
    net = core.Net("net")
    net.Mul(["a", "b"], "c")
    net.Add(["c", "d"], "e")
    module = nomnigraph.NNModule(net)
    mul, add = module.controlFlow
    (a, b), (c, d), (e,) = mul.inputs, add.inputs, add.outputs
    for tail, head in [(a, mul), (b, mul), (mul, c), (c, add), (d, add), (add, e)]:
        module.deleteEdge(tail, head)
    for tail, head in [(a, add), (d, add), (add, c), (c, mul), (b, mul), (mul, e)]:
        module.createEdge(tail, head)
    changed = module.convertToCaffe2Proto()
    assert _ops(changed) == [("Add", ["a", "d"], ["c"]), ("Mul", ["c", "b"], ["e"])]
    for name, value in {"a": 1, "b": 2, "d": 3}.items():
        workspace.FeedBlob(name, np.full(2, value, np.float32))
    workspace.RunNetOnce(changed)
    assert workspace.FetchBlob("e").tolist() == [8, 8]


def test_a_value_that_is_overwritten_before_it_is_read_is_refused() -> None:
    net = core.Net("net")
    net.Relu("x", "h")
    net.Tanh("h", "h")
    net.Sigmoid("h", "y")
    module = nomnigraph.NNModule(net)
    relu, _, sigmoid = module.controlFlow
    module.replaceAllUsesWith(sigmoid.inputs[0], relu.outputs[0])
    with pytest.raises(RuntimeError, match="Sigmoid reads 'h', which another operator has overwritten"):
        module.convertToCaffe2Proto()


def test_a_cycle_is_refused() -> None:
    module = nomnigraph.NNModule()
    operator, tensor = (module.createNode(one) for one in (_operator("A"), nomnigraph.Data("x")))
    module.createEdge(operator, tensor)
    module.createEdge(tensor, operator)
    with pytest.raises(RuntimeError, match="A reads what comes from its own result"):
        module.convertToCaffe2Proto()


def _operator(name: str) -> nomnigraph.NeuralNetOperator:
    return nomnigraph.Operator(name)


@pytest.mark.parametrize("pair", ["xx", "AA"])
def test_edges_are_between_operators_and_tensors(pair: str) -> None:
    graph = nomnigraph.NNModule().dataFlow
    tail, head = (graph.createNode(nomnigraph.Data(c) if c == "x" else _operator(c)) for c in pair)
    with pytest.raises(RuntimeError, match="an edge is between an operator and a tensor"):
        graph.createEdge(tail, head)
    with pytest.raises(RuntimeError, match="there is no edge"):
        graph.deleteEdge(tail, head)
    with pytest.raises(RuntimeError, match="a node is made of"):
        graph.createNode(7)  # type: ignore[arg-type]


def test_one_operator_in_place_of_another() -> None:
    module = _module()
    layer, _ = module.controlFlow
    other = module.createNode(core.CreateOperator("MatMul", ["x"], ["y"], trans_b=1))
    module.replaceNode(layer, other)
    module.deleteNode(layer)
    module.deleteEdge(module.tensors[2], other)
    changed = module.convertToCaffe2Proto()
    assert _ops(changed) == [("MatMul", ["x", "w"], ["y"]), ("Relu", ["y"], ["y"])]
    assert changed.op[0].arg[0].name == "trans_b"
    assert changed.external_output == ["y"]


def test_who_writes_and_who_reads_can_change() -> None:
    module = _module()
    layer, relu = module.controlFlow
    other, reader = (module.createNode(_operator(name)) for name in ("Other", "Reader"))
    module.replaceProducer(relu.outputs[0], other)
    module.replaceAsConsumer(layer, reader)
    assert relu.outputs == layer.inputs == []
    assert [node.name for node in reader.inputs] == ["x", "w", "b"]
    assert other.outputs[0].name == "y"


def _chain(graph: Any, *names: str) -> list[Any]:
    """Operators and tensors in turn, each with an edge to the next."""
    nodes = [graph.createNode(_operator(n) if n.isupper() else nomnigraph.Data(n)) for n in names]
    for tail, head in itertools.pairwise(nodes):
        graph.createEdge(tail, head)
    return nodes


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        (["A", "x", "B"], ["A", "x", "B"]),
        (["A", "x", "C"], None),
        (["A", "x", "B", "y", "A", "z", "B"], ["A", "x", "B"]),
        (["B", "x", "A"], None),
    ],
)
def test_patterns(graph: list[str], found: list[str] | None) -> None:
    module = nomnigraph.NNModule()
    _chain(module, *graph)
    pattern = nomnigraph.NNMatchGraph()
    _chain(pattern, "A", "any", "B")
    matches = list(module.match(pattern))
    assert [[node.name for node in match.nodes] for match in matches[:1]] == ([found] if found else [])
    assert len(matches) == graph.count("A") * (found is not None)


def test_a_pattern_goes_back_where_a_choice_does_not_work_out() -> None:
    """Of two tensors that A writes, only the second goes to B and to C."""
    module = nomnigraph.NNModule()
    first, _, _ = _chain(module, "A", "x", "B")
    second = module.createNode(nomnigraph.Data("y"))
    module.createEdge(first, second)
    for name in "BC":
        module.createEdge(second, module.createNode(_operator(name)))
    pattern = nomnigraph.NNMatchGraph()
    _, tensor, _ = _chain(pattern, "A", "any", "B")
    pattern.createEdge(tensor, pattern.createNode(_operator("C")))
    (match,) = module.match(pattern)
    assert [node.name for node in match.nodes] == ["A", "y", "B", "C"]


@pytest.mark.parametrize(("strict", "count"), [(False, 1), (True, 0)])
def test_a_strict_node_has_no_other_edges(strict: bool, count: int) -> None:
    module = nomnigraph.NNModule()
    _chain(module, "A", "x")
    pattern = nomnigraph.NNMatchGraph()
    pattern.createNode(_operator("A"), strict=strict)
    assert len(list(module.match(pattern))) == count


def test_an_operator_in_place_of_a_pattern() -> None:
    module = _module()
    pattern = nomnigraph.NNMatchGraph()
    layer = pattern.createNode(_operator("FC"))
    between = pattern.createNode(nomnigraph.Data("any"))
    pattern.createEdge(layer, between)
    pattern.createEdge(between, pattern.createNode(_operator("Relu")))
    (match,) = module.match(pattern)
    x, w, b, _, y = module.tensors
    fused = module.createNode(_operator("Fused"))
    module.replaceSubgraph(match, fused, [x, w, b], [y])
    assert _ops(module.convertToCaffe2Proto()) == [("Fused", ["x", "w", "b"], ["y"])]
    module.deleteSubgraph(nomnigraph.NNSubgraph([fused, y]))
    assert module.controlFlow == []


def test_what_others_read_stays() -> None:
    module = _module()
    layer, _ = module.controlFlow
    gone = nomnigraph.NNSubgraph([layer, layer.outputs[0]])
    with pytest.raises(RuntimeError, match="Relu reads 'y', which is not among the outputs"):
        module.replaceSubgraph(gone, module.createNode(_operator("Fused")), layer.inputs, [])


def test_names_of_new_tensors() -> None:
    module = _module()
    assert [module.createUniqueDataNode("x").name for _ in range(2)] == ["x_0", "x_1"]
    assert module.createUniqueDataNode().name == "_unique"


def test_annotations() -> None:
    module = nomnigraph.NNModule()
    node = module.createNode(core.CreateOperator("Conv", ["x"], ["y"], engine="ONE"))
    changed = node.annotation.operator_def
    changed.engine = "TWO"
    assert node.annotation.operator_def.engine == "ONE"  # what was given is a copy
    node.annotation.operator_def = changed
    assert not node.annotation.hasDeviceOption()
    node.annotation.device_option = DeviceOption(device_type=1, device_id=3)
    assert node.annotation.device_option.device_id == 3
    (op,) = module.convertToCaffe2Proto().op
    assert op == OperatorDef(
        name="", type="Conv", engine="TWO", device_option=DeviceOption(device_type=1, device_id=3)
    )

    other = nomnigraph.Annotation()
    other.setDevice("there")
    other.setDeviceType(7)
    other.setComponentLevels(["", "level"])
    other.setKeyNode(node)
    other.setLengthNode(node)
    node.setAnnotation(other)
    known = node.getAnnotation()
    assert (known.getDevice(), known.getDeviceType(), known.getComponentLevels()) == (
        "there",
        7,
        ["", "level"],
    )
    assert known.getKeyNode() is known.getLengthNode() is node
    assert known.operator_def.engine == "TWO"
    with pytest.raises(RuntimeError, match="only operators have a definition"):
        _ = nomnigraph.Annotation().operator_def


def test_devices_of_what_a_net_reads() -> None:
    net = core.Net("net")
    net.FC(["x", "w", "b"], "y")
    device = DeviceOption(device_type=1)
    tensors = nomnigraph.NNModule(net, {"w": device}).tensors
    assert [tensor.annotation.hasDeviceOption() for tensor in tensors] == [False, True, False, False]
    with pytest.raises(RuntimeError, match="no blobs that the map of devices names: v"):
        nomnigraph.NNModule(net, {"w": device, "v": device})
    with pytest.raises(RuntimeError, match="not of 3"):
        nomnigraph.NNModule(3)  # type: ignore[arg-type]


def test_drawings(capsys: pytest.CaptureFixture[str]) -> None:
    graph = nomnigraph.Graph()
    graph.createEdge(graph.createNode("one"), graph.createNode('"two"'))
    nomnigraph.render(graph)
    lines = ["digraph G {", "rankdir=LR", '0 [label="one"];', "0 -> 1;", '1 [label="\\"two\\""];', "}"]
    assert capsys.readouterr().out.splitlines() == [*lines, ""]
    subgraph = nomnigraph.NNSubgraph(graph.nodes[:1])
    assert (len(subgraph), subgraph.hasNode(graph.nodes[1]), "->" in str(subgraph)) == (1, False, False)
    subgraph.addNode(graph.nodes[1])
    assert "0 -> 1;" in str(subgraph)


def test_convolutions_with_the_channels_last() -> None:
    net = core.Net("net")
    for image, name in [("x", "c1"), ("x", "c2"), ("c1", "c3")]:
        net.Conv([image, f"w_{name}", f"b_{name}"], name, kernel=3)
    net.Sum(["c3", "c3"], "y")
    rng = np.random.default_rng(0)
    shapes = {"x": (2, 3, 7, 6), "w_c1": (4, 3, 3, 3), "w_c2": (4, 3, 3, 3), "w_c3": (2, 4, 3, 3)}
    for name, shape in {**shapes, "b_c1": (4,), "b_c2": (4,), "b_c3": (2,)}.items():
        workspace.FeedBlob(name, rng.normal(size=shape).astype(np.float32))
    workspace.RunNetOnce(net)
    expected = workspace.FetchBlobs(["c1", "c2", "y"])
    module = nomnigraph.NNModule(net)
    transpose_network(module)
    # x and three kernels go into the order, three results out of it; c1 stays in it for the third
    types = [node.name for node in module.operators]
    assert (types.count("NCHW2NHWC"), types.count("NHWC2NCHW"), len(types)) == (4, 3, 4 + 7)
    for name in ("c1", "c2", "y"):
        workspace.FeedBlob(name, np.zeros(1, np.float32))
    workspace.RunNetOnce(module.convertToCaffe2Proto())
    for found, wanted in zip(workspace.FetchBlobs(["c1", "c2", "y"]), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
