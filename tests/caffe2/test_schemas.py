"""How many inputs and outputs operators have: the table, and where it is asked."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.makers.registry import ENTRIES
from netgrad.caffe2.python import core, memonger, workspace
from netgrad.caffe2.python.functional import Functional
from netgrad.caffe2.python.workspace.op_schema import OpSchema
from netgrad.caffe2.schemas import Counts, in_place_problem, schema_of, schema_problem


@pytest.mark.parametrize(
    ("text", "allowed", "told"),
    [
        ("2", {2}, "2"),
        ("1-3", {1, 2, 3}, "1 to 3"),
        ("4-", {4, 5, 6, 7, 8}, "4 or more"),
        ("3-/2", {3, 5, 7}, "3 or more in steps of 2"),
        ("1,5", {1, 5}, "1 or 5"),
        ("0", {0}, "0"),
    ],
)
def test_numbers_of_operands(text: str, allowed: set[int], told: str) -> None:
    counts = Counts.of(text)
    assert {count for count in range(9) if counts.allows(count)} == allowed
    assert str(counts) == told


def test_operators_that_have_to_work_in_place() -> None:
    inputs = ["x", "s", "b", "m", "v"]
    assert in_place_problem("SpatialBN", inputs, ["y", "m", "v", "sm", "sv"]) is None
    assert in_place_problem("SpatialBN", inputs, ["y"]) is None
    problem = in_place_problem("SpatialBN", inputs, ["y", "m2", "v", "sm", "sv"])
    assert problem == "SpatialBN works in place: output 1 has to be input 3, which is 'm'"
    net = core.Net("frozen")
    net.IndexFreeze("a", "b")
    with pytest.raises(RuntimeError, match="IndexFreeze works in place"):
        memonger.optimize_inference_for_dag(net, ["a"])


def test_the_table_knows_the_operators_with_a_maker() -> None:
    known = [type_ for type_ in ENTRIES if schema_of(type_) is not None]
    assert len(known) > 400
    assert schema_problem("an operator of a script", [], []) is None


def test_a_wrong_number_of_inputs_is_refused_in_gradients_and_runs() -> None:
    net = core.Net("short")
    product = net.Mul(["a"], "b")
    with pytest.raises(Exception, match=r"schema checking: Input size 1 is not what Mul takes, which is 2"):
        net.AddGradientOperators([product])
    workspace.FeedBlob("a", np.zeros(2, np.float32))
    with pytest.raises(RuntimeError, match=r"Input size 1 .*Mul\(a\) -> \(b\)"):
        workspace.RunOperatorOnce(core.CreateOperator("Mul", ["a"], ["b"]))
    two = core.CreateOperator("Relu", ["a"], ["b", "c"])
    with pytest.raises(Exception, match="Output size 2 is not what Relu has, which is 1"):
        core.GradientRegistry.GetBackwardPass([two], ["b"])


def test_operators_as_functions_of_arrays() -> None:
    x = np.array([[-1.0, 2.0], [3.0, -4.0]], np.float32)
    rectified = Functional.Relu(x)
    np.testing.assert_array_equal(rectified[0], [[0, 2], [3, 0]])
    np.testing.assert_array_equal(rectified["output_0"], rectified.output_0)
    joined, sizes = Functional.Concat(x, x[:1], axis=0)
    np.testing.assert_array_equal(joined, np.concatenate([x, x[:1]]))
    np.testing.assert_array_equal(sizes, [2, 1])
    left, right = Functional.Split(x, axis=1, num_output=2)
    np.testing.assert_array_equal(np.concatenate([left, right], axis=1), x)


def test_a_function_of_an_operator_that_works_in_place() -> None:
    counter = np.array([4], np.int64)
    result = Functional.Iter(counter)
    np.testing.assert_array_equal(result["input_0"], [5])
    np.testing.assert_array_equal(counter, [4])


def test_functions_of_operators_refuse_what_the_operator_does_not_take() -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match="Mul takes 2 inputs, not 1"):
        Functional.Mul(x)
    with pytest.raises(ValueError, match="Split may have any number of outputs: give num_output"):
        Functional.Split(x)
    with pytest.raises(ValueError, match="Relu has 1 outputs, not 2"):
        Functional.Relu(x, num_output=2)
    with pytest.raises(AttributeError, match="there is no operator Rellu; there is Relu"):
        Functional.Rellu  # noqa: B018


def test_what_the_native_module_said() -> None:
    """The numbers that the original gives for the same types."""
    found = {}
    for type_ in ("Relu", "Concat", "Split", "SparseToDenseMask", "FC", "TopK"):
        schema = OpSchema.get(type_)
        assert schema is not None
        bounds = (schema.min_input, schema.max_input, schema.min_output, schema.max_output)
        found[type_] = (*bounds, schema.CalculateOutput(2))
    most = 2147483647
    assert found == {
        "Relu": (1, 1, 1, 1, 1),
        "Concat": (1, most, 2, 2, 2),
        "Split": (1, 2, 1, most, -1),
        "SparseToDenseMask": (3, 4, 1, 2, -1),
        "FC": (3, 3, 1, 1, 1),
        "TopK": (1, 2, 2, 3, -1),
    }
    relu = OpSchema.get("Relu")
    assert relu is not None
    assert relu.num_inputs_outputs_allowed(1, 1)
    assert not relu.num_inputs_outputs_allowed(1, 2)
    assert OpSchema.get("Nope") is None
    scatter = OpSchema.get("ScatterWeightedSum")
    assert scatter is not None
    assert scatter.inplace_enforced(0, 0)
    assert vars(workspace.C)["OpSchema"] is OpSchema
