"""Weights as tensor trains."""

from __future__ import annotations

import numpy as np
import pytest

from netgrad.caffe2.python import core, tt_core, workspace


def _product(x: object, cores: object, ranks: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    for name, array in (("x", x), ("b", np.zeros(12, np.float32)), ("cores", cores)):
        workspace.FeedBlob(name, array)
    arguments = {"inp_sizes": [2, 3], "out_sizes": [4, 3], "tt_ranks": ranks}
    workspace.RunOperatorOnce(core.CreateOperator("TT", ["x", "b", "cores"], ["y"], **arguments))
    found: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = workspace.FetchBlob("y")
    return found


def test_a_train_of_full_rank_is_the_matrix() -> None:
    random = np.random.default_rng(2)
    weights, x = random.normal(size=(6, 12)), random.normal(size=(4, 6)).astype(np.float32)
    cores = tt_core.matrix_to_tt(weights, [2, 3], [4, 3], [1, 8, 1])
    found = _product(x, cores, [1, 8, 1])
    # the weights are transposed and then read as (inputs, outputs), as the original does
    expected = x @ weights.T.reshape(6, 12)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_train_of_small_rank_is_the_best_one() -> None:
    random = np.random.default_rng(3)
    left, right = random.normal(size=(2, 4)), random.normal(size=(3, 3))
    matrix = np.einsum("ac,bd->abcd", left, right).reshape(6, 12)
    cores = tt_core.matrix_to_tt(matrix.reshape(12, 6).T, [2, 3], [4, 3], [1, 1, 1])
    found = _product(np.eye(6, dtype=np.float32), cores, [1, 1, 1])
    np.testing.assert_allclose(found, matrix, rtol=1e-4, atol=1e-5)


def test_drawn_cores_are_orthogonal() -> None:
    cores = tt_core.init_tt_cores([2, 3], [4, 3], [1, 5, 1], seed=3)
    assert cores.shape == (2 * 4 * 5 + 5 * 3 * 3,)
    scale = 0.1 / (6 * 5) ** 0.5
    first = cores[:40].reshape(8, 5) / scale
    np.testing.assert_allclose(first.T @ first, np.eye(5), atol=1e-5)


def test_sizes_that_do_not_fit() -> None:
    with pytest.raises(AssertionError, match="1 input sizes and 2 output sizes"):
        tt_core.init_tt_cores([2], [2, 2], [1, 1])
    with pytest.raises(AssertionError, match="1 ranks for 1 sizes"):
        tt_core.init_tt_cores([2], [2], [1])
    with pytest.raises(AssertionError, match="5 rows are not"):
        tt_core.matrix_to_tt(np.ones((5, 4)), [6], [4], [1, 1])
