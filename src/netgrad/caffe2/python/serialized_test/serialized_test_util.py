"""Test cases that the original ran on recorded inputs as well; here they draw their inputs like others."""

from __future__ import annotations

from typing import Any

import hypothesis

from netgrad.caffe2.python import hypothesis_test_util as hu


class SerializedTestCase(hu.HypothesisTestCase):
    """A test case with assertions over operators; nothing is recorded."""

    __test__ = False
    should_serialize = False


def given(*given_args: Any, **given_kwargs: Any) -> Any:
    """As ``hypothesis.given``."""
    return hypothesis.given(*given_args, **given_kwargs)
