from __future__ import annotations

import json

import numpy as np
import onnx
import pytest

from netgrad.core.errors import InvalidArgumentError
from netgrad.onnx.rules.declaration import declarations
from netgrad.transforms.cost import Cost
from netgrad.transforms.inspect import inspect
from netgrad.transforms.inspection import Differentiability
from tests.runtime.models import FLOAT, model, node, numbers


def net(*more, opset=20):
    return model(
        [
            node("MatMul", "x W", "h", "fc"),
            node("Add", "h b", "hb", "bias"),
            node("Shape", "hb", "s", "shape"),
            node("Floor", "hb", "f", "floor"),
            node("Reshape", "hb s", "r", "back"),
            node("Sin", "r", "p", "left"),
            node("Cos", "r", "q", "right"),
            node("Mul", "p q", "y", "join"),
            *more,
        ],
        {"x": (FLOAT, ["N", 5])},
        {"y": FLOAT},
        {"W": numbers(5, 7), "b": numbers(7, seed=1)},
        opset=opset,
    )


def by_node(inspection):
    return {info.node: info for info in inspection.operators}


def test_operators_their_gradients_and_the_path():
    inspection = inspect(net())
    found = by_node(inspection)
    assert inspection.differentiable
    assert found["fc"].gradient is Differentiability.RULE
    assert "matmul" in found["fc"].rule
    assert found["shape"].gradient is Differentiability.NOT_DIFFERENTIABLE
    assert found["shape"].reason
    assert {name for name, info in found.items() if info.active} == {
        "fc",
        "bias",
        "back",
        "left",
        "right",
        "join",
    }
    assert (inspection.wrt, inspection.of) == (("W", "b"), ("y",))


def test_piecewise_constant_operators_end_the_path():
    found = by_node(inspect(net(node("Neg", "f", "z", "last")), wrt="x", of="z"))
    assert found["floor"].gradient is Differentiability.PIECEWISE_CONSTANT
    assert not any(info.active for name, info in found.items() if name != "last")


def test_the_path_follows_wrt():
    found = by_node(inspect(net(), wrt="b"))
    assert not found["fc"].active
    assert found["bias"].active


def test_where_gradients_accumulate():
    (accumulation,) = inspect(net()).accumulations
    assert (accumulation.value, accumulation.contributions) == ("r", 2)
    assert sorted(accumulation.operators) == ["Cos 'right'", "Sin 'left'"]


def test_parameters_and_their_roles():
    parameters = {info.name: info for info in inspect(net()).parameters}
    assert (parameters["W"].role, parameters["W"].shape, parameters["W"].size) == ("matrix", (5, 7), 35)
    assert parameters["b"].is_weight
    assert parameters["b"].dtype == "float32"


def test_sizes_and_costs():
    inspection = inspect(net())
    assert inspection.given_nodes == 8
    assert inspection.gradient_nodes > inspection.prepared_nodes
    # one row: 2 x 5 x 7 for the product, 7 for each of Add, Floor, Sin, Cos and Mul where they are read
    assert 70 + 4 * 7 <= inspection.forward_cost.flops <= 70 + 5 * 7
    assert inspection.gradient_cost.flops > inspection.forward_cost.flops
    assert inspection.uncounted == 0


def test_composite_operators_are_expanded(monkeypatch):
    known = {key: value for key, value in declarations().items() if key[1] != "GroupNormalization"}
    monkeypatch.setattr("netgrad.onnx.rules.source.declarations", lambda: known)
    initializers = {"w": numbers(4), "b": numbers(4, seed=1)}
    composite = node("GroupNormalization", "x w b", "y", "norm", num_groups=2)
    proto = model([composite], {"x": (FLOAT, [2, 4, 3])}, {"y": FLOAT}, initializers, opset=21)
    inspection = inspect(proto)
    assert by_node(inspection)["norm"].gradient is Differentiability.EXPANDED
    assert any("GroupNormalization" in action for action in inspection.actions)


def test_a_missing_rule_is_told_instead_of_raised():
    proto = net(node("Unheard", "y", "z", "odd", domain="my.own"))
    proto.opset_import.add(domain="my.own", version=1)
    proto.graph.output[0].name = "z"
    inspection = inspect(proto)
    assert not inspection.differentiable
    assert "Unheard" in inspection.problem
    assert inspection.gradient_nodes is None
    assert by_node(inspection)["odd"].gradient is Differentiability.MISSING
    assert by_node(inspection)["odd"].cost == Cost(None, None)
    assert "no gradient: " in str(inspection)
    away = inspect(proto, of="y")
    assert away.differentiable
    assert not by_node(away)["odd"].active


def test_models_without_anything_to_differentiate():
    integers = model([node("Neg", "x", "y")], {"x": (7, [2])}, {"y": 7})
    assert inspect(integers).problem == "the model has no weight and no floating-point input"
    shape = model([node("Shape", "x", "y")], {"x": (FLOAT, [2])}, {"y": 7})
    assert inspect(shape).problem == "the model has no floating-point output"


def test_models_without_weights_are_differentiated_by_their_inputs():
    inspection = inspect(model([node("Exp", "x", "y")], {"x": (FLOAT, [2])}, {"y": FLOAT}))
    assert inspection.wrt == ("x",)
    assert inspection.differentiable


@pytest.mark.parametrize("names", [{"wrt": "w"}, {"of": "Y"}])
def test_unknown_names_are_errors(names):
    with pytest.raises(InvalidArgumentError, match="did you mean"):
        inspect(net(), **names)


def test_the_model_is_not_changed():
    proto = net()
    before = proto.SerializeToString()
    inspect(proto)
    assert proto.SerializeToString() == before


def test_what_was_prepared_is_listed():
    proto = model(
        [node("Constant", "", "w", "c", value_floats=[1.0, 2.0]), node("Mul", "x w", "y")],
        {"x": (FLOAT, [2])},
        {"y": FLOAT},
        opset=13,
    )
    inspection = inspect(proto)
    assert inspection.actions
    assert all(action in str(inspection) for action in inspection.actions)


def test_the_text_is_aligned_and_the_data_is_json():
    inspection = inspect(net())
    lines = str(inspection).splitlines()
    assert lines[0] == "gradient of y by W, b"
    header = next(line for line in lines if line.startswith("operator"))
    column = header.index("gradient")
    rows = lines[lines.index(header) + 1 :][: len({info.type for info in inspection.operators})]
    assert all(row[column - 1] == " " and row[column] != " " for row in rows)
    data = json.loads(json.dumps(inspection.to_dict(), allow_nan=False))
    assert data["nodes"]["given"] == 8
    assert data["operators"][0]["gradient"] == "rule"
    assert data["parameters"][0]["shape"] == [5, 7]
    assert np.isclose(data["cost"]["gradient"]["flops"], inspection.gradient_cost.flops)


def test_operators_in_branches_are_counted_and_are_on_the_path_or_not():
    """As in models whose whole content is in the branches of one If."""
    text = """<ir_version: 10, opset_import: ["": 20]>
        net (float[n, 3] x, bool c) => (float[n, 2] y, float[a, b] unused)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}, float[3, 2] v = {6, 5, 4, 3, 2, 1}>
        { y, unused = If (c) <
            then_branch = one () => (float[n, 2] p, float[n, 3] q)
            {
                h = MatMul(x, w)  p = Tanh(h)  q = Sin(x)
            },
            else_branch = two () => (float[n, 2] r, float[n, 3] s) { r = MatMul(x, v)  s = Floor(x) }
          > }"""
    inspection = inspect(onnx.parser.parse_model(text), of="y")
    found = [(info.type, bool(info.inside), info.active) for info in inspection.operators]
    assert found == [
        ("If", False, True),
        ("MatMul", True, True),
        ("Tanh", True, True),
        ("Sin", True, False),
        ("MatMul", True, True),
        ("Floor", True, False),
    ]
    assert inspection.wrt == ("w", "v")
    assert (inspection.given_nodes, inspection.prepared_nodes) == (6, 6)
    assert inspection.gradient_nodes is not None
    assert inspection.gradient_nodes > 8
    # n counts as 1: two products of 1 x 3 and 3 x 2, Tanh of 2 elements, Sin and Floor of 3
    assert inspection.forward_cost.flops == 2 * 12 + 2 + 3 + 3
    assert "all branches, one pass of each loop" in str(inspection)


def test_costs_that_are_known_in_part_are_lower_bounds():
    proto = model(
        [node("MatMul", "x W", "h"), node("Reshape", "h s", "r"), node("Sin", "r", "y")],
        {"x": (FLOAT, ["N", 5]), "s": (7, [2])},
        {"y": FLOAT},
        {"W": numbers(5, 7)},
    )
    inspection = inspect(proto)
    assert inspection.uncounted > 0
    assert "at least 70 FLOP" in str(inspection)
    assert "sizes known only at run time" in str(inspection)


def test_long_names_leave_the_heading_short():
    names = [f"a.module.inside.a.module.inside.a.module.number.{k}.weight" for k in range(3)]
    nodes = [
        node("MatMul", f"{'x' if not k else f'h{k}'} {name}", f"h{k + 1}") for k, name in enumerate(names)
    ]
    proto = model(nodes, {"x": (FLOAT, ["N", 5])}, {"h3": FLOAT}, {name: numbers(5, 5) for name in names})
    heading = str(inspect(proto)).splitlines()[0]
    assert heading == f"gradient of h3 by {names[0]} and 2 more"
