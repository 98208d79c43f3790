"""The checkers and assertions that test programs of Caffe2 use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python import core, device_checker, gradient_checker, hip_test_util, utils, workspace
from netgrad.caffe2.python import hypothesis_test_util as hu
from netgrad.caffe2.python import mkl_test_util as mu

settings.load_profile("default")  # the helpers have loaded their own, which is not for the tests here

PROGRAM = """
import unittest
import hypothesis.strategies as st
import numpy as np
from hypothesis import assume, given
from caffe2.python import core, workspace
import caffe2.python.hypothesis_test_util as hu
import caffe2.python.serialized_test.serialized_test_util as serial


class TestProgram(serial.SerializedTestCase):
    @serial.given(X=hu.tensor(max_dim=3, max_value=3), alpha=st.floats(0.1, 0.9), **hu.gcs)
    def test_leaky(self, X, alpha, gc, dc):
        X += 0.1 * np.sign(X) + 0.05
        assume((abs(X) > 0.02).all())
        op = core.CreateOperator("LeakyRelu", ["X"], ["Y"], alpha=alpha)
        self.assertDeviceChecks(dc, op, [X], [0])
        self.assertGradientChecks(gc, op, [X], 0, [0], stepsize=0.01)
        self.assertReferenceChecks(gc, op, [X], lambda X: [np.where(X > 0, X, alpha * X)])

    def test_workspace(self):
        self.assertEqual(workspace.Blobs(), [])


if __name__ == "__main__":
    unittest.main()
"""


def test_a_test_program_runs_unmodified(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "netgrad.caffe2", str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Ran 2 tests" in done.stderr


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


class TestAssertions(hu.HypothesisTestCase):
    @given(x=hu.tensor(min_dim=2, max_dim=2, max_value=3), **hu.gcs)
    @settings(max_examples=5, deadline=None)
    def test_right(self, x: Any, gc: Any, dc: Any) -> None:
        op = core.CreateOperator("Tanh", "x", "y")
        self.assertGradientChecks(gc, op, [x], 0, [0], stepsize=0.01, ensure_outputs_are_inferred=True)
        self.assertDeviceChecks(dc, op, [x], [0])
        self.assertReferenceChecks(
            gc,
            op,
            [x],
            lambda x: (np.tanh(x),),
            output_to_grad="y",
            grad_reference=lambda dy, outputs, inputs: (dy * (1 - np.tanh(inputs[0]) ** 2),),
        )
        self.assertValidationChecks(gc, op, [x], lambda x, y: np.testing.assert_equal(x.shape, y.shape))

    @given(x=hu.tensor(max_dim=2, max_value=3), **mu.gcs_cpu_mkl)
    @settings(max_examples=5, deadline=None)
    def test_beside_another_library(self, x: Any, gc: Any, dc: Any) -> None:
        op = core.CreateOperator("Relu", "x", "y")
        assert dc == [mu.cpu_do, mu.mkl_do]
        self.assertDeviceChecks(dc, op, [x], [0])
        self.assertReferenceChecks(gc, op, [x], lambda x: (np.maximum(x, 0),))

    def test_wrong(self) -> None:
        x, op = _normal(2, 3), core.CreateOperator("Tanh", "x", "y")
        cpu = hu.cpu_do
        same: dict[str, Any] = {"reference": lambda x: (np.tanh(x),), "output_to_grad": "y"}
        with pytest.raises(AssertionError, match="Output y: ACTUAL"):
            self.assertReferenceChecks(cpu, op, [x], lambda x: (np.tanh(x) * 1.01,))
        with pytest.raises(AssertionError, match="Gradient x_grad"):
            self.assertReferenceChecks(cpu, op, [x], grad_reference=lambda dy, o, i: (dy,), **same)
        wrong = core.CreateOperator("Copy", "y_grad", "x_grad")
        with pytest.raises(AssertionError, match="Gradient check failed for input x"):
            self.assertGradientChecks(cpu, op, [x], 0, [0], grad_ops=[wrong])
        with pytest.raises(AssertionError):
            self.assertRunOpRaises(cpu, op, [x])
        self.assertRunOpRaises(cpu, core.CreateOperator("MatMul", ["x", "x"], "y"), [x, x])

    def test_sparse_reference(self) -> None:
        w, ids = _normal(4, 2), np.array([3, 1, 3])
        self.assertReferenceChecks(
            hu.cpu_do,
            core.CreateOperator("Gather", ["w", "ids"], "y"),
            [w, ids],
            lambda w, ids: (w[ids],),
            output_to_grad="y",
            grad_reference=lambda dy, outputs, inputs: ((dy, inputs[1]), None),
        )


@given(pair=hu.lengths_tensor(min_dim=1, max_dim=2), sparse=hu.sparse_segmented_tensor(max_dim=2))
@settings(max_examples=20, deadline=None)
def test_strategies_fit(pair: Any, sparse: Any) -> None:
    data, lengths = pair
    assert lengths.sum() == len(data)
    assert data.dtype == np.float32
    data, indices, segments = sparse
    assert indices.max() < len(data)
    assert len(indices) == len(segments)
    assert (np.diff(segments) >= 0).all()


@given(one=hu.floats(min_value=0.1, max_value=0.7), two=hu.floats(0.01, 0.3), three=hu.floats(0, 1, width=64))
@settings(max_examples=20, deadline=None)
def test_bounds_of_numbers_are_rounded(one: float, two: float, three: float) -> None:
    for number, low, high in ((one, 0.1, 0.7), (two, 0.01, 0.3)):
        assert np.float32(low) <= number <= np.float32(high)
        assert np.float32(number) == number
    assert 0 <= three <= 1


def test_channels_change_places() -> None:
    image = np.arange(120).reshape(2, 3, 4, 5)
    assert utils.NCHW2NHWC(image)[1, 3, 4, 2] == image[1, 2, 3, 4]
    np.testing.assert_array_equal(utils.NHWC2NCHW(utils.NCHW2NHWC(image)), image)
    assert utils.NHWC2NCHW(np.zeros(3)).shape == (3,)


def test_which_device_a_program_runs_on() -> None:
    assert not hip_test_util.run_in_hip(hu.cpu_do, [hu.cpu_do, hu.cuda_do])
    assert hip_test_util.run_in_hip(hu.cpu_do, [hu.hip_do])
    assert hip_test_util.run_in_hip(hu.hip_do, [])


@pytest.mark.parametrize(
    ("op", "inputs", "at", "outputs"),
    [
        (core.CreateOperator("FC", ["x", "w", "b"], "y"), [_normal(2, 3), _normal(4, 3), _normal(4)], 1, [0]),
        (core.CreateOperator("Relu", ["x"], ["x"]), [np.array([0.5, -0.7], np.float32)], 0, [0]),
        (core.CreateOperator("Tanh", ["x"], ["x"]), [np.array([0.5, -0.7], np.float32)], 0, [0]),
        (core.CreateOperator("Gather", ["w", "i"], ["y"]), [_normal(3, 2), np.array([2, 0, 2])], 0, [0]),
        (
            core.CreateOperator("SoftmaxWithLoss", ["x", "t"], ["p", "loss"]),
            [_normal(3, 4), np.array([1, 0, 3], np.int32)],
            0,
            [1],
        ),
    ],
)
def test_simple_checks(op: OperatorDef, inputs: list[Any], at: int, outputs: list[int]) -> None:
    workspace.FeedBlob("mine", np.ones(1))
    before = inputs[at].copy()
    agrees, gradient, estimate = gradient_checker.GradientChecker(0.01, 0.01).CheckSimple(
        op, inputs, at, outputs
    )
    assert agrees
    assert gradient.shape == estimate.shape == before.shape
    np.testing.assert_array_equal(inputs[at], before)
    assert workspace.Blobs() == ["mine"]


@pytest.mark.parametrize("type_", ["AffineChannel", "Elu", "Rsqrt", "Reciprocal", "Cbrt"])
def test_operators_in_place(type_: str) -> None:
    inputs = [np.abs(_normal(2, 3)) + 0.5, *([_normal(3), _normal(3)] if type_ == "AffineChannel" else [])]
    op = core.CreateOperator(type_, ["x", "s", "b"][: len(inputs)], ["x"])
    assert gradient_checker.GradientChecker(1e-2, 1e-2).CheckSimple(op, inputs, 0, [0])[0]


def test_a_reference_of_an_operator_in_place() -> None:
    case = TestAssertions()
    op = core.CreateOperator("Exp", ["x"], ["x"])
    case.assertReferenceChecks(
        hu.cpu_do,
        op,
        [_normal(4)],
        lambda x: (np.exp(x),),
        output_to_grad="x",
        grad_reference=lambda dy, outputs, inputs: (dy * outputs[0],),
    )


@pytest.mark.parametrize(("full", "checked"), [(None, [0, 1, 2, 5, 6, 7]), ("1", list(range(8)))])
def test_a_few_elements_are_checked_unless_all_are_wanted(
    full: str | None, checked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gradient that is 1 everywhere, and wrong: where it isn't checked it is taken for the estimate."""
    monkeypatch.delenv("CAFFE2_FULL_GRAD_CHECK", raising=False)
    if full is not None:
        monkeypatch.setenv("CAFFE2_FULL_GRAD_CHECK", full)
    ones = core.CreateOperator("ConstantFill", ["x"], ["x_grad"], value=1.0)
    x = np.full(8, 3.0, np.float32)
    checker = gradient_checker.GradientChecker(0.01, 0.01)
    agrees, _, estimate = checker.CheckSimple(core.CreateOperator("Copy", "x", "y"), [x], 0, [0], [ones])
    assert not agrees
    np.testing.assert_allclose(estimate, [3 if at in checked else 1 for at in range(8)], rtol=1e-3)


def test_types_are_inferred_from_those_of_the_inputs() -> None:
    inputs = [np.array([True, False]), np.array([True, True])]
    op = core.CreateOperator("And", ["x", "w"], ["y"])
    for name, array in zip(op.input, inputs, strict=True):
        workspace.FeedBlob(name, array)
    workspace.RunOperatorOnce(op)
    gradient_checker._check_inferred(op, inputs)
    workspace.FeedBlob("y", np.array([1, 0], np.int32))
    with pytest.raises(AssertionError, match="y has the type int32"):
        gradient_checker._check_inferred(op, inputs)


def test_an_input_without_gradient() -> None:
    op = core.CreateOperator("Gather", ["w", "i"], ["y"])
    with pytest.raises(ValueError, match="has no gradient"):
        gradient_checker.GradientChecker(0.01, 0.01).CheckSimple(op, [_normal(3, 2), np.array([1])], 1, [0])


def _net(type_: str) -> core.Net:
    net = core.Net("net")
    net.AddExternalInput("x")
    getattr(net, type_)("x", "h")
    net.Mul(["h", "x"], "y")
    return net


def test_nets() -> None:
    values = {"x": _normal(2, 3)}
    check = gradient_checker.NetGradientChecker.Check
    assert check(_net("Tanh"), ["y"], values, "x", 1e-2, 1e-2, print_net=False)
    compare = gradient_checker.NetGradientChecker.CompareNets
    compare([_net("Tanh"), _net("Tanh")], [["y"], ["y"]], [0], ["x"], values)
    with pytest.raises(AssertionError):
        compare([_net("Tanh"), _net("Sigmoid")], [["y"], ["y"]], [0], ["x"], values)


def test_devices_agree() -> None:
    checker = device_checker.DeviceChecker(1e-6, [hu.cpu_do, hu.cuda_do])
    assert checker.CheckSimple(core.CreateOperator("Tanh", "x", "y"), [_normal(2)], [0])
    assert checker.CheckNet(_net("Tanh").Proto(), {"x": _normal(2)})


def test_a_net_is_checked_with_what_the_workspace_holds() -> None:
    workspace.FeedBlob("w", _normal(4, 3))
    workspace.FeedBlob("b", _normal(4))
    net = core.Net("checked")
    net.AddExternalInput("w", "b")
    net.AveragedLoss(net.FC(["x", "w", "b"], "y"), "loss")
    values = {"x": _normal(2, 3)}
    assert gradient_checker.NetGradientChecker.Check(net, ["loss"], values, "x", step_size=0.01)
    workspace.FeedBlob("w", _normal(4, 2))
    with pytest.raises(RuntimeError):
        gradient_checker.NetGradientChecker.Check(net, ["loss"], values, "x")
