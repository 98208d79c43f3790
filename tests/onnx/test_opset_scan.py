"""Scan of opset 8, which runs every sequence of a batch by itself."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import parser

from netgrad import check
from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.prepare import prepare
from tests.onnx.models import normal, run_proto

TEXT = """<ir_version: 3, opset_import: ["": 8]>
    g (float[2, 3] s, float[2, 4, 3] x, float[2, 4, 3] w) => (float[2, 3] last, float[2, 4, 3] seen) {{
        last, seen = Scan<num_scan_inputs = 2, directions = [{directions}],
            body = b (float[3] before, float[3] one, float[3] other) => (float[3] after, float[3] mixed) {{
                weighted = Mul(one, other)
                squeezed = Tanh(before)
                after = Add(squeezed, weighted)
                mixed = Mul(after, other)
            }}>({lengths}, s, x, w)
    }}"""


@pytest.mark.parametrize("directions", ["0, 0", "1, 0", "1, 1"])
def test_it_computes_the_same_in_a_later_opset(directions: str) -> None:
    model = parser.parse_model(TEXT.format(directions=directions, lengths='""'))
    feeds = {"s": normal(0, 2, 3), "x": normal(1, 2, 4, 3), "w": normal(2, 2, 4, 3)}
    lifted = onnx_ir.to_proto(prepare(model).model)
    onnx.checker.check_model(lifted, full_check=True)
    for old, new in zip(run_proto(model, feeds), run_proto(lifted, feeds), strict=True):
        np.testing.assert_array_equal(old, new)
    assert check(model, feeds, wrt=["s", "x", "w"], of=["last", "seen"]).ok


def test_sequences_of_different_lengths_are_refused() -> None:
    text = TEXT.format(directions="0, 0", lengths="n").replace("(float[2, 3] s", "(int64[2] n, float[2, 3] s")
    with pytest.raises(UnsupportedOperatorError, match="sequences have lengths"):
        prepare(parser.parse_model(text))
