# ruff: noqa: PT009  the assertions are those of unittest
"""Test cases that the original ran on recorded inputs as well; here they draw their inputs like others."""

from __future__ import annotations

import contextlib
import functools
import unittest
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import hypothesis
import numpy as np

from netgrad.caffe2.caffe2_pb2 import DeviceOption, OperatorDef
from netgrad.caffe2.python import core
from netgrad.caffe2.python import hypothesis_test_util as hu


class SerializedTestCase(hu.HypothesisTestCase):
    """A test case with assertions over operators; nothing is recorded."""

    __test__ = False
    should_serialize = False

    def assertSerializedOperatorChecks(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        gradient_operator: Sequence[OperatorDef],
        op: OperatorDef,
        device_option: DeviceOption,
        atol: float = 1e-7,
        rtol: float = 1e-7,
    ) -> None:
        """An operator gives recorded outputs; gradient operators are compared by their definitions."""
        found = hu.runOpOnInput(device_option, op, inputs)
        for output, wanted in zip(found, outputs, strict=True):
            np.testing.assert_allclose(output, wanted, atol=atol, rtol=rtol)
        grads = [f"{name}_grad" for name in op.output]
        made, _ = core.GradientRegistry.GetGradientForOp(op, grads)
        self.assertEqual(list(made), list(gradient_operator))

    @contextlib.contextmanager
    def set_disable_serialized_check(self, val: bool) -> Iterator[None]:
        """A block in which recorded inputs are, or aren't, looked at: none are recorded anyway."""
        yield


def given(*given_args: Any, **given_kwargs: Any) -> Any:
    """As ``hypothesis.given``."""
    return hypothesis.given(*given_args, **given_kwargs)


def seeded(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: hypothesis draws the same inputs, and NumPy the same numbers, each time."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        np.random.seed(0)
        return function(*args, **kwargs)

    return hypothesis.seed(0)(wrapped)


def given_and_seeded(*given_args: Any, **given_kwargs: Any) -> Any:
    """`given` of a test that is `seeded`."""

    def decorate(function: Callable[..., Any]) -> Any:
        return seeded(given(*given_args, **given_kwargs)(function))

    return decorate


def testWithArgs() -> None:
    """Run the tests of a program; nothing is recorded, so that the original's flags have no effect."""
    unittest.main()
