"""The beam search of connectionist temporal classification, against all ways through all steps."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace


def _run(shares: Any, sizes: Any = None, **arguments: Any) -> tuple[Any, Any, Any]:
    workspace.FeedBlob("x", shares)
    names = ["x"]
    if sizes is not None:
        workspace.FeedBlob("l", sizes)
        names.append("l")
    operator = core.CreateOperator("CTCBeamSearchDecoder", names, ["n", "v", "p"], **arguments)
    workspace.RunOperatorOnce(operator)
    return tuple(workspace.FetchBlob(name) for name in ("n", "v", "p"))  # type: ignore[return-value]


def _best(shares: Any) -> tuple[tuple[int, ...], float]:
    """The likeliest sequence by the sum over its ways: repetitions merged, then blanks left out."""
    total: dict[tuple[int, ...], float] = {}
    for way in product(range(shares.shape[1]), repeat=len(shares)):
        sequence = tuple(number for number, _ in groupby(way) if number)
        chance = float(np.prod([shares[step, number] for step, number in enumerate(way)]))
        total[sequence] = total.get(sequence, 0.0) + chance
    return max(total.items(), key=lambda one: one[1])


@pytest.mark.parametrize("seed", range(4))
def test_a_wide_beam_finds_the_best_sequence(seed: int) -> None:
    drawn = np.random.default_rng(seed).dirichlet(np.ones(3), size=(5, 2))
    shares = (0.9 * drawn + 0.1 / 3).astype(np.float32)  # classes below a thousandth would be left out
    sizes = np.array([5, 3], np.int32)
    lengths, values, chances = _run(shares, sizes, beam_width=500)
    expected = [_best(shares[:size, sample]) for sample, size in enumerate(sizes)]
    np.testing.assert_array_equal(lengths, [len(sequence) for sequence, _ in expected])
    np.testing.assert_array_equal(values, [number for sequence, _ in expected for number in sequence])
    np.testing.assert_allclose(chances, [chance for _, chance in expected], rtol=1e-5)


def test_candidates_come_best_first() -> None:
    shares = np.array([[[0.5, 0.3, 0.2]]], np.float32)
    lengths, values, chances = _run(shares, num_candidates=3)
    np.testing.assert_array_equal(lengths, [0, 1, 1])
    np.testing.assert_array_equal(values, [1, 2])
    np.testing.assert_allclose(chances, [0.5, 0.3, 0.2], rtol=1e-6)


def test_what_does_not_fit_is_refused() -> None:
    shares = np.ones((2, 1, 2), np.float32)
    with pytest.raises(RuntimeError, match="num_candidates is 3"):
        _run(shares, num_candidates=3, beam_width=2)
    with pytest.raises(RuntimeError, match="don't fit a batch of 1 with 2 steps"):
        _run(shares, np.array([3], np.int32))
