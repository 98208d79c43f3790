"""Losses and steps of training of models with fixed parameters, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.models.seq2seq import seq2seq_util
from netgrad.caffe2.python.models.seq2seq.clipped_updates import add_clipped_updates
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper
from netgrad.caffe2.python.models.seq2seq.train import Seq2SeqModelCaffe2
from tests.caffe2.seq2seq.formulas import Translator, slopes
from tests.caffe2.seq2seq.models import (
    DESCRIBED,
    LIMIT,
    RATE,
    described,
    fixed_parameters,
    layers,
    trained_model,
)

PAIRS = [([4, 5, 6, 3], [5, 4, 5]), ([6], [3, 3, 5, 4]), ([5, 4], [4])]


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_loss_is_the_sum_over_all_words(name: str) -> None:
    params = DESCRIBED[name]
    model = trained_model(params, len(PAIRS))
    formula = Translator(params, fixed_parameters(model, 1))
    expected = sum(formula.loss(*pair) for pair in PAIRS)
    np.testing.assert_allclose(model.step(PAIRS, forward_only=True), expected, rtol=1e-5)
    assert model.get_current_step() == 0


def test_a_pair_that_only_fills_the_batch_counts_nothing() -> None:
    params = DESCRIBED["last states"]
    model = trained_model(params, 2)
    formula = Translator(params, fixed_parameters(model, 2))
    found = model.step([PAIRS[0], ([], [])], forward_only=True)
    np.testing.assert_allclose(found, formula.loss(*PAIRS[0]), rtol=1e-5)


@pytest.mark.parametrize("name", ["products of states", "attention"])
def test_a_step_of_training_goes_down_the_slopes(name: str) -> None:
    """Slopes of the embeddings have a norm of their own; each word occurs once, so that rows are no sums."""
    params, pair = DESCRIBED[name], ([4, 6, 5], [3, 5, 4])
    model = trained_model(params, 1)
    formula = Translator(params, fixed_parameters(model, 3))
    loss = formula.loss(*pair)
    found = {name: slopes(lambda: formula.loss(*pair), values) for name, values in formula.weights.items()}
    np.testing.assert_allclose(model.step([pair], forward_only=False), loss, rtol=1e-5)
    norms = [
        np.sqrt(sum((slope**2).sum() for name, slope in found.items() if ("embeddings" in name) == sparse))
        for sparse in (False, True)
    ]
    assert min(norms) > LIMIT  # so that both are clipped
    for name, before in formula.weights.items():
        step = RATE * found[name] * LIMIT / norms["embeddings" in name]
        np.testing.assert_allclose(workspace.FetchBlob(name), before - step, rtol=1e-4, atol=1e-6)
    assert model.get_current_step() == 1


def test_a_step_that_is_not_clipped_is_by_the_mean_of_sentences() -> None:
    """Rows of words that occur twice are sums of slopes; the loss is still the sum of all."""
    params = DESCRIBED["last states"]
    model = trained_model(params, len(PAIRS), limit=100)
    formula = Translator(params, fixed_parameters(model, 8))

    def loss() -> float:
        return sum(formula.loss(*pair) for pair in PAIRS)

    np.testing.assert_allclose(model.step(PAIRS, forward_only=False), loss(), rtol=1e-5)
    for name, before in formula.weights.items():
        expected = before - RATE * slopes(loss, before) / len(PAIRS)
        np.testing.assert_allclose(workspace.FetchBlob(name), expected, rtol=1e-4, atol=1e-6)


def test_devices_train_as_one() -> None:
    params, pairs = DESCRIBED["attention"], [*PAIRS, ([3, 6], [5])]
    losses, last = [], []
    for devices in (0, 2):
        with trained_model(params, len(pairs), num_gpus=devices) as model:
            fixed_parameters(model, 4)
            losses.append(
                [float(model.step(pairs, forward_only)) for forward_only in (False, False, False, True)]
            )
            names = {"encoder_embeddings", f"{'gpu_1/' if devices else ''}output_projection_w"}
            last.append([workspace.FetchBlob(name) for name in sorted(names)])
        assert not workspace.Blobs()
    assert losses[0][-1] < losses[0][0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    for one, two in zip(*last, strict=True):
        np.testing.assert_allclose(two, one, rtol=1e-4, atol=1e-6)


def test_a_batch_that_devices_can_not_share_is_refused() -> None:
    with pytest.raises(ValueError, match="batches of 3 can't be shared by 2 devices"):
        trained_model(DESCRIBED["attention"], 3, num_gpus=2)


def test_an_attention_that_is_not_there_is_refused() -> None:
    params = {**DESCRIBED["attention"], "attention": "sharp"}
    with pytest.raises(ValueError, match="none, regular, recurrent, dot, and not 'sharp'"):
        trained_model(params, 1)


def test_dropout_is_drawn_while_training_only() -> None:
    configs = [{"num_units": 4, "dropout_keep_prob": 0.5}, {"num_units": 4, "dropout_keep_prob": 0.5}]
    plain = described("regular", layers(4, 4), layers(4, 4), False, None)
    dropped = described("regular", configs, configs, False, None)
    model = trained_model(dropped, len(PAIRS))
    formula = Translator(plain, fixed_parameters(model, 5))
    expected = sum(formula.loss(*pair) for pair in PAIRS)
    np.testing.assert_allclose(model.step(PAIRS, forward_only=True), expected, rtol=1e-5)
    workspace.FeedBlob("learning_rate", np.zeros(1, np.float32))
    drawn = {round(float(model.step(PAIRS, forward_only=False)), 3) for _ in range(3)}
    assert len(drawn) == 3


def test_parameters_are_saved_with_settings(tmp_path: Path) -> None:
    with trained_model(DESCRIBED["last states"], 1) as model:
        weights = fixed_parameters(model, 6)
        model.step(PAIRS[1:2], forward_only=False)
        path = model.save(str(tmp_path / "model"), 12)
        changed = {name: workspace.FetchBlob(name) for name in weights}
    assert path == str(tmp_path / "model-12")
    said = (tmp_path / "checkpoint").read_text()
    assert said == f'model_checkpoint_path: "{path}"\nall_model_checkpoint_paths: "{path}"\n'
    names = [*weights, "learning_rate", "global_step", "start_time"]
    workspace.RunOperatorOnce(
        core.CreateOperator("Load", [], names, db=path, db_type="minidb", absolute_path=True)
    )
    for name, value in changed.items():
        np.testing.assert_array_equal(workspace.FetchBlob(name), value)
    assert workspace.FetchBlob("learning_rate").tolist() == [RATE]
    assert workspace.FetchBlob("global_step").tolist() == [1]


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_clipped_steps_by_hand(limit: float) -> None:
    """loss = sum(c * w) + sum(d * rows): the norm is of all gradients, and one row is looked up twice."""
    random = np.random.default_rng(0)
    arrays = {name: random.normal(size=(2, 3)).astype(np.float32) for name in ("w", "c", "v", "e")}
    arrays |= {
        "t": random.normal(size=(4, 2)).astype(np.float32),
        "d": random.normal(size=(3, 2)).astype(np.float32),
    }
    model = ModelHelper("small")
    for name in ("w", "v", "t"):
        model.params.append(core.BlobReference(name))
    rows = model.net.Gather(["t", "ids"], "rows")
    parts = [
        model.net.SumElements(model.net.Mul(pair, f"m{at}"), f"s{at}")
        for at, pair in enumerate((["w", "c"], ["v", "e"], [rows, "d"]))
    ]
    model.AddGradientOperators([model.net.Sum(parts, "loss")])
    for sparse in (False, True):
        add_clipped_updates(model, sparse, "rate", limit, "clipped")
    ids = np.array([1, 3, 1], np.int32)
    for name, value in {**arrays, "ids": ids, "rate": np.array([0.5], np.float32)}.items():
        workspace.FeedBlob(name, value)
    workspace.RunNetOnce(model.param_init_net)
    workspace.RunNetOnce(model.net)
    dense = min(1, limit / np.sqrt((arrays["c"] ** 2).sum() + (arrays["e"] ** 2).sum()))
    for name, slope in (("w", "c"), ("v", "e")):
        expected = arrays[name] - 0.5 * dense * arrays[slope]
        np.testing.assert_allclose(workspace.FetchBlob(name), expected, rtol=1e-5)
    table = arrays["t"].copy()
    np.subtract.at(table, ids, 0.5 * min(1, limit / np.linalg.norm(arrays["d"])) * arrays["d"])
    np.testing.assert_allclose(workspace.FetchBlob("t"), table, rtol=1e-5)


def test_nothing_is_added_without_gradients_of_that_kind() -> None:
    model = ModelHelper("none")
    add_clipped_updates(model, True, "rate", 1.0, "clipped")
    assert not model.net.Proto().op


@pytest.mark.parametrize("freeze", [True, False])
def test_embeddings_may_be_frozen(freeze: bool) -> None:
    model = Seq2SeqModelHelper(name="embedded")
    blob = seq2seq_util.build_embeddings(model, 50, 40, "table", freeze_embeddings=freeze)
    assert model.params == ([] if freeze else [blob])
    workspace.RunNetOnce(model.param_init_net)
    table = workspace.FetchBlob("table")
    assert table.shape == (50, 40)
    assert 0.09 < table.std() < 0.11


def test_the_model_is_left_with_its_blobs() -> None:
    params: Any = {
        **DESCRIBED["last states"],
        "batch_size": 1,
        "optimizer_params": {"learning_rate": 1},
        "max_gradient_norm": 1,
    }
    with Seq2SeqModelCaffe2(params, 5, 5, num_gpus=0, num_cpus=3) as model:
        model.initialize_from_scratch()
        table = workspace.FetchBlob("encoder_embeddings")
        assert np.abs(table).max() <= np.sqrt(3)
        assert workspace.FetchBlob("start_time")[0] > 1e9
    assert not workspace.Blobs()
