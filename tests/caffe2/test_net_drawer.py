"""Nets as graphs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from netgrad.caffe2.python import core, net_drawer


def _net() -> core.Net:
    net = core.Net("drawn")
    net.FC(["x", "w", "b"], "y", name="first")
    net.Relu("y", "y")
    net.Sum(["x", "y"], "z")
    return net


def _arrows(graph: net_drawer.Graph) -> list[tuple[str, str]]:
    labels = {node.get_name(): node.get_label() for node in graph.get_nodes()}
    return [(labels[edge.get_source()], labels[edge.get_destination()]) for edge in graph.get_edges()]


@pytest.mark.parametrize("form", ["net", "message", "operators"])
def test_what_is_written_again_is_a_new_node(form: str) -> None:
    net = _net()
    drawn = {"net": net, "message": net.Proto(), "operators": net.Proto().op}[form]
    graph = net_drawer.GetPydotGraph(drawn, rankdir="TB")
    assert _arrows(graph) == [
        ("x", "first/FC (op#0)"),
        ("w", "first/FC (op#0)"),
        ("b", "first/FC (op#0)"),
        ("first/FC (op#0)", "y"),
        ("y", "Relu (op#1)"),
        ("Relu (op#1)", "y"),
        ("x", "Sum (op#2)"),
        ("y", "Sum (op#2)"),
        ("Sum (op#2)", "z"),
    ]
    assert len({node.get_name() for node in graph.get_nodes() if node.get_label() == "y"}) == 2
    text = graph.to_string()
    assert text.startswith("digraph ")
    assert 'rankdir="TB"' in text
    assert 'shape="octagon"' in text


def test_operators_only() -> None:
    net = core.Net("minimal")
    net.Relu("x", "a")
    net.Relu("a", "b")
    net.Sum(["a", "b"], "c")
    arrows = [("Relu (op#0)", "Relu (op#1)"), ("Relu (op#0)", "Sum (op#2)"), ("Relu (op#1)", "Sum (op#2)")]
    assert _arrows(net_drawer.GetPydotGraphMinimal(net)) == arrows
    assert _arrows(net_drawer.GetPydotGraphMinimal(net, minimal_dependency=True)) == arrows[::2]


def test_plans_have_a_graph_per_step() -> None:
    plan = core.Plan("p")
    plan.AddStep(core.execution_step("s", [core.execution_step("inner", _net())]))
    graph = net_drawer.GetPlanGraph(plan.Proto())
    (inside,) = graph.get_subgraphs()
    assert "subgraph" in graph.to_string()
    assert len(inside.get_nodes()) == 9


def test_json(tmp_path: Path) -> None:
    net_drawer.GetGraphInJson(_net(), str(tmp_path / "net.json"))
    found = json.loads((tmp_path / "net.json").read_text())
    labels = {node["id"]: node["label"] for node in found["nodes"]}
    assert [(labels[edge["source"]], labels[edge["target"]]) for edge in found["edges"]][3:6] == [
        ("FC", "y"),
        ("y", "Relu"),
        ("Relu", "y"),
    ]


def test_a_picture_that_fails_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    def fails() -> net_drawer.Graph:
        raise ValueError("no such net")

    assert net_drawer.GetGraphPngSafe(fails) is None
    assert "no such net" in capsys.readouterr().err


def test_the_command(tmp_path: Path) -> None:
    file = tmp_path / "net.pbtxt"
    file.write_text(str(_net().Proto()))
    net_drawer.main(["--input", str(file), "--output_prefix", f"{tmp_path}/out_", "--append_output"])
    (drawn,) = tmp_path.glob("out_*.dot")
    assert "first/FC (op#0)\\ny" in drawn.read_text()


def test_a_graph_is_written_as_text(tmp_path: Path) -> None:
    graph = net_drawer.GetPydotGraph(_net(), "drawn", "BT")
    assert graph.get_name() == "drawn"
    for write in (graph.write_dot, graph.write_raw):
        assert write(str(tmp_path / "net.dot"))
        assert (tmp_path / "net.dot").read_text() == graph.to_string()
