"""The two programs: one learns to turn sentences round, and the other one does it with what was learned."""

from __future__ import annotations

import io
import itertools
import logging
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.models.seq2seq import train, translate

WORDS = ("ba", "de", "gi", "ko", "nu")


def _corpus(folder: Path) -> tuple[list[list[str]], list[list[str]]]:
    """All sentences of at most three words; every ninth of the long ones is not trained with."""
    sentences = [list(words) for length in (1, 2, 3) for words in itertools.product(WORDS, repeat=length)]
    held_out = sentences[len(WORDS) + len(WORDS) ** 2 :: 9]
    seen = [words for words in sentences if words not in held_out]
    for name, some in (("train", seen), ("eval", held_out)):
        for part, lines in (("source", some), ("target", [_turned(words) for words in some])):
            text = "".join(" ".join(words) + "\n" for words in lines)
            (folder / f"{name}.{part}").write_text(text, encoding="utf-8")
    return seen, held_out


def _turned(words: Sequence[str]) -> list[str]:
    return [word.upper() for word in reversed(words)]


def _options(folder: Path) -> list[str]:
    """What both programs must be told alike."""
    numbers = {
        "unk-threshold": 0,
        "encoder-cell-num-units": 24,
        "encoder-num-layers": 1,
        "decoder-cell-num-units": 24,
        "decoder-num-layers": 1,
        "encoder-embedding-size": 8,
        "decoder-embedding-size": 8,
    }
    texts = ["--source-corpus", f"{folder}/train.source", "--target-corpus", f"{folder}/train.target"]
    return [
        *texts,
        *itertools.chain.from_iterable((f"--{key}", str(value)) for key, value in numbers.items()),
    ]


def _evaluated(folder: Path) -> list[str]:
    return ["--source-corpus-eval", f"{folder}/eval.source", "--target-corpus-eval", f"{folder}/eval.target"]


def _run(program: Any, arguments: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    program.main()


def test_sentences_are_turned_round(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen, held_out = _corpus(tmp_path)
    options = [*_options(tmp_path), "--use-attention", "--use-bidirectional-encoder"]
    training = ["--batch-size", "8", "--epochs", "24", "--max-gradient-norm", "5"]
    training += ["--checkpoint", f"{tmp_path}/model", *_evaluated(tmp_path)]
    initialize = train.Seq2SeqModelCaffe2._init_model

    def seeded(model: train.Seq2SeqModelCaffe2) -> None:
        model.model.param_init_net.set_rand_seed(1)
        initialize(model)

    monkeypatch.setattr(train.Seq2SeqModelCaffe2, "_init_model", seeded)
    with caplog.at_level(logging.INFO):
        _run(train, [*options, *training], monkeypatch)
    losses = [float(found) for found in re.findall(r"evaluation loss ([\d.e-]+)", caplog.text)]
    assert len(losses) == 24
    assert losses[-1] < 0.1 * losses[0]
    assert not workspace.Blobs()

    sentences = [*held_out, *seen, [], ["ko"]]
    lines = "".join(" ".join(words) + "\n" for words in sentences)
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    _run(translate, [*options, "--beam-size", "3", "--checkpoint", f"{tmp_path}/model-23"], monkeypatch)
    found = capsys.readouterr().out.splitlines()
    right = [
        line == (" ".join([*_turned(words), "<EOS>"]) if words else "")
        for line, words in zip(found, sentences, strict=True)
    ]
    assert sum(right[: len(held_out)]) >= 0.8 * len(held_out)
    assert sum(right[len(held_out) :]) >= 0.95 * len(seen) + 2
    assert right[-2:] == [True, True]


def test_a_text_without_sentences_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _corpus(tmp_path)
    with pytest.raises(ValueError, match=r"train\.source and .*train\.target have no pair"):
        _run(train, [*_options(tmp_path), *_evaluated(tmp_path), "--max-length", "0"], monkeypatch)


def _described(monkeypatch: pytest.MonkeyPatch, *options: str) -> Any:
    found = []
    monkeypatch.setattr(train, "run_seq2seq_model", lambda args, model_params: found.append(model_params))
    texts = [f"--{part}-corpus{which}" for part in ("source", "target") for which in ("", "-eval")]
    _run(train, [*itertools.chain.from_iterable((text, "none") for text in texts), *options], monkeypatch)
    return found[0]


def test_a_model_without_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _described(monkeypatch) == {
        "attention": "none",
        "decoder_layer_configs": [{"num_units": 512}] * 2,
        "encoder_type": {
            "encoder_layer_configs": [{"num_units": 512}] * 2,
            "use_bidirectional_encoder": False,
        },
        "batch_size": 32,
        "optimizer_params": {"learning_rate": 0.5},
        "encoder_embedding_size": 256,
        "decoder_embedding_size": 512,
        "decoder_softmax_size": None,
        "max_gradient_norm": 1.0,
    }


def test_only_the_layer_that_reads_both_ways_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    described = _described(monkeypatch, "--use-bidirectional-encoder", "--decoder-softmax-size", "9")
    assert described["encoder_type"] == {
        "encoder_layer_configs": [{"num_units": 256}, {"num_units": 512}],
        "use_bidirectional_encoder": True,
    }
    assert described["decoder_softmax_size"] == 9
    with pytest.raises(ValueError, match="--encoder-cell-num-units 7 is odd"):
        _described(monkeypatch, "--use-bidirectional-encoder", "--encoder-cell-num-units", "7")


def test_descriptions_are_not_shared_between_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    described = _described(monkeypatch, "--encoder-num-layers", "3")
    configs = described["encoder_type"]["encoder_layer_configs"]
    assert len({id(config) for config in configs}) == 3
