"""Translations by models with fixed parameters, against all translations that there are, in NumPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.models.seq2seq.translate import (
    Seq2SeqModelCaffe2EnsembleDecoder,
    Seq2SeqModelCaffe2EnsembleDecoderBase,
)
from tests.caffe2.seq2seq.formulas import EOS, UNK, Array, Translator, all_outputs, score
from tests.caffe2.seq2seq.models import DESCRIBED, TRANSLATED, WORDS, fixed_parameters, saved, trained_model

SOURCES = ([4, 5, 6, 3], [6], [5, 5, 4])
STEPS = 3


def _decoder(
    params: Mapping[str, Any],
    paths: Sequence[str],
    beam_size: int,
    word_reward: float = 0,
    unk_reward: float = 0,
) -> Seq2SeqModelCaffe2EnsembleDecoder:
    vocabs = {
        "source_vocab": {str(number): number for number in range(WORDS)},
        "target_vocab": {str(number): number for number in range(TRANSLATED)},
    }
    decoder = Seq2SeqModelCaffe2EnsembleDecoder(
        {
            "ensemble_models": [{**vocabs, "model_params": params, "model_file": path} for path in paths],
            "decoding_params": {
                "beam_size": beam_size,
                "word_reward": word_reward,
                "unk_reward": unk_reward,
            },
        }
    )
    decoder.load_models()
    return decoder


def _rewards(word: float, unknown: float) -> Array:
    found = np.zeros(TRANSLATED)
    found[3:] = word
    found[UNK] += unknown
    return found


def _check(decoder: Any, models: Sequence[Translator], rewards: Array) -> None:
    for source in SOURCES:
        output, attention, found = decoder.decode(source, STEPS)
        every = {words: score(models, source, words, rewards) for words in all_outputs(TRANSLATED, STEPS)}
        best = max(every, key=lambda words: every[words][0])
        assert tuple(output) == best
        np.testing.assert_allclose(-found, every[best][0], rtol=1e-5, atol=1e-6)  # of terms about one
        np.testing.assert_allclose(attention, every[best][1], rtol=1e-4, atol=1e-6)
        assert np.shape(attention) == (len(output), len(source))


@pytest.mark.parametrize("name", DESCRIBED)
def test_the_best_of_all_translations(name: str, tmp_path: Path) -> None:
    params = DESCRIBED[name]
    path, weights = saved(params, 7, tmp_path, scale=1.5)
    _check(_decoder(params, [path], TRANSLATED), [Translator(params, weights)], _rewards(0, 0))


def test_models_that_translate_together(tmp_path: Path) -> None:
    params = DESCRIBED["attention"]
    files = [saved(params, seed, tmp_path, scale=2.0) for seed in (1, 2)]
    models = [Translator(params, weights) for _, weights in files]
    _check(_decoder(params, [path for path, _ in files], TRANSLATED), models, _rewards(0, 0))


@pytest.mark.parametrize(("word", "unknown"), [(1.5, 0.0), (1.0, -3.0), (-1.0, 0.5)])
def test_rewards_change_what_is_best(word: float, unknown: float, tmp_path: Path) -> None:
    params = DESCRIBED["last states"]
    path, weights = saved(params, 3, tmp_path)
    decoder = _decoder(params, [path], TRANSLATED, word, unknown)
    _check(decoder, [Translator(params, weights)], _rewards(word, unknown))
    rewards = decoder.build_word_rewards(TRANSLATED, word, unknown)
    np.testing.assert_allclose(rewards, _rewards(word, unknown), rtol=1e-6)


def test_nothing_comes_behind_the_end(tmp_path: Path) -> None:
    """Not even words whose rewards are more than they cost."""
    params = DESCRIBED["last states"]
    path, weights = saved(params, 10, tmp_path, scale=2.5)
    model, rewards = Translator(params, weights), _rewards(1.0, 0.0)
    for source in SOURCES:
        behind = [score([model], source, [EOS, word, word], rewards)[0] for word in (3, 4, 5)]
        assert max(behind) > score([model], source, [EOS], rewards)[0]
    decoder = _decoder(params, [path], TRANSLATED, 1.0)
    _check(decoder, [model], rewards)
    assert decoder.decode(SOURCES[0], STEPS)[0] == [EOS]


def test_one_hypothesis_takes_the_best_word_each_time(tmp_path: Path) -> None:
    params = DESCRIBED["layers with attention"]
    path, weights = saved(params, 5, tmp_path)
    decoder, model = _decoder(params, [path], 1), Translator(params, weights)
    for source in SOURCES:
        rows, states = model.start(source)
        words, word, total, ends = [], 1, 0.0, []
        for _ in range(6):
            states, log_probs, _ = model.step(rows, states, word)
            word = int(np.argmax(log_probs))
            total += log_probs[word]
            words.append(word)
            ends.append(total)
        length = words.index(EOS) + 1 if EOS in words else 6
        output, _, found = decoder.decode(source, 6)
        assert output == words[:length]
        np.testing.assert_allclose(-found, ends[length - 1], rtol=1e-5)


def test_parameters_of_the_first_device_are_read(tmp_path: Path) -> None:
    params = DESCRIBED["attention"]
    with trained_model(params, 2, num_gpus=2) as model:
        weights = fixed_parameters(model, 11, 1.5)
        path = model.save(str(tmp_path / "model"), 0)
    _check(_decoder(params, [path], TRANSLATED), [Translator(params, weights)], _rewards(0, 0))


def test_what_can_not_be_translated(tmp_path: Path) -> None:
    params = DESCRIBED["last states"]
    path, _ = saved(params, 1, tmp_path)
    decoder = _decoder(params, [path], 2)
    with pytest.raises(ValueError, match="an empty sentence"):
        decoder.decode([], 3)
    with pytest.raises(ValueError, match="ensemble_models is empty"):
        _decoder(params, [], 2)
    described = {"target_vocab": {}, "model_params": params, "model_file": path}
    others = [{**described, "source_vocab": {"a": number}} for number in range(2)]
    with pytest.raises(ValueError, match="the same vocabularies"):
        Seq2SeqModelCaffe2EnsembleDecoder({"ensemble_models": others, "decoding_params": {"beam_size": 2}})
    with pytest.raises(Exception, match="nowhere"):
        _decoder(params, [str(tmp_path / "nowhere")], 2)


def test_a_class_of_ones_own_says_where_parameters_are(tmp_path: Path) -> None:
    path, weights = saved(DESCRIBED["last states"], 2, tmp_path)

    class Elsewhere(Seq2SeqModelCaffe2EnsembleDecoder):
        def get_model_file(self, model: Any) -> str:
            return path

    vocabs = {"source_vocab": dict.fromkeys("abcdefg"), "target_vocab": dict.fromkeys("abcdef")}
    decoder = Elsewhere(
        {
            "ensemble_models": [{**vocabs, "model_params": DESCRIBED["last states"]}],
            "decoding_params": {"beam_size": 2, "word_reward": 0, "unk_reward": 0},
        }
    )
    decoder.load_models()
    np.testing.assert_array_equal(
        workspace.FetchBlob("model0/output_projection_w"), weights["output_projection_w"]
    )
    assert decoder.scope("model0", "b") == "model0/b"
    assert decoder.scope(None, "b") == "b"
    with pytest.raises(TypeError, match="abstract"):
        Seq2SeqModelCaffe2EnsembleDecoderBase()  # type: ignore[abstract]
