"""What the table's rows do not show of MatMul, Gemm and Einsum: their size, equations, refusals."""

from __future__ import annotations

import pytest
from onnx import helper

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.rules.einsum import parse
from netgrad.transforms.grad import differentiate
from tests.onnx.rules.table import Case, build, normal


def _generated(case: Case, wrt: list[str], *, symbolic: bool = False) -> list[str]:
    result = differentiate(build(case, symbolic=symbolic), wrt=wrt)
    return [node.op_type for node in result.model.graph if "/grad/" in (node.name or "")]


@pytest.mark.parametrize("symbolic", [False, True])
def test_the_gradient_of_a_weight_shared_by_a_batch_is_one_product(symbolic: bool) -> None:
    """Not one product per batch entry and then their sum."""
    case = Case("MatMul", [normal(5, 4, 3), normal(3, 2)])
    written = _generated(case, ["x1"], symbolic=symbolic)
    assert written.count("Gemm") == 1
    assert not {"ReduceSum", "MatMul"} & set(written)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(
    "attributes", [{}, {"transA": 1}, {"transB": 1}, {"transA": 1, "transB": 1}], ids=str
)
def test_gemm_and_a_product_of_matrices_cost_one_operator_per_gradient(
    attributes: dict[str, int], symbolic: bool
) -> None:
    a = (3, 4) if attributes.get("transA") else (4, 3)
    b = (2, 3) if attributes.get("transB") else (3, 2)
    gemm = Case("Gemm", [normal(*a), normal(*b)], attributes)
    for name in ("x0", "x1"):
        assert _generated(gemm, [name], symbolic=symbolic) == ["Gemm"]
        assert _generated(Case("MatMul", [normal(4, 3), normal(3, 2)]), [name], symbolic=symbolic) == ["Gemm"]


@pytest.mark.parametrize(
    ("equation", "output"),
    [
        ("ij,jk", "ik"),
        ("b a , b", "a"),
        ("ii", ""),
        ("...ij,...jk", "...ik"),
        ("ji", "ij"),
        ("ij->ji", "ji"),
        (",i", "i"),
    ],
)
def test_an_implicit_output_is_what_occurs_once_in_alphabetical_order(equation: str, output: str) -> None:
    assert "".join(parse(equation).output) == output


@pytest.mark.parametrize(
    ("equation", "shapes", "reason"),
    [
        ("...i->i", [(2, 3)], "ellipsis"),
        ("Ab,bc", [(2, 3), (3, 4)], "capital"),
        ("i,j->ii", [(2,), (2,)], "twice"),
    ],
)
def test_equations_that_evaluators_read_differently_are_refused(
    equation: str, shapes: list[tuple[int, ...]], reason: str
) -> None:
    inputs = [helper.make_tensor_value_info(f"x{k}", 1, shape) for k, shape in enumerate(shapes)]
    node = helper.make_node("Einsum", [v.name for v in inputs], ["y"], name="sum", equation=equation)
    graph = helper.make_graph([node], "refused", inputs, [helper.make_tensor_value_info("y", 1, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    with pytest.raises(UnsupportedOperatorError, match=reason):
        differentiate(model, wrt=["x0"])
