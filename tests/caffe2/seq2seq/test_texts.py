"""Words as numbers, and sentences in batches."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from netgrad.caffe2.python.models.seq2seq import seq2seq_util
from netgrad.caffe2.python.models.seq2seq.train import gen_batches, prepare_batch


def test_words_are_numbered_in_the_order_of_the_text(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus"
    corpus.write_text("the cat  sees the dog\n\n\tdog <UNK> runs\nthe dog\n", encoding="utf-8")
    tokens = {"<PAD>": 0, "<GO>": 1, "<EOS>": 2, "<UNK>": 3}
    assert seq2seq_util.gen_vocab(str(corpus), 1) == {**tokens, "the": 4, "dog": 5}
    every = seq2seq_util.gen_vocab(str(corpus), 0)
    assert every == {**tokens, "the": 4, "cat": 5, "sees": 6, "dog": 7, "runs": 8}
    assert seq2seq_util.get_numberized_sentence(" the bird runs\n", every) == [4, 3, 8]
    assert seq2seq_util.get_numberized_sentence("\n", every) == []


def test_sentences_stand_in_columns() -> None:
    batch = prepare_batch([([4, 5, 6], [7]), ([8], [9, 10]), ([], [])])
    expected = {
        "encoder_inputs": [[6, 8, 0], [5, 0, 0], [4, 0, 0]],
        "encoder_lengths": [3, 1, 0],
        "decoder_inputs": [[1, 1, 1], [7, 9, 0], [0, 10, 0]],
        "decoder_lengths": [2, 3, 1],
        "targets": [[7, 9, 2], [2, 10, 0], [0, 2, 0]],
        "target_weights": [[1, 1, 0], [1, 1, 0], [0, 1, 0]],
    }
    assert batch._fields == tuple(expected)
    for name, values in expected.items():
        array = getattr(batch, name)
        np.testing.assert_array_equal(array, values)
        assert array.dtype == (np.float32 if name == "target_weights" else np.int32)


def _texts(folder: Path) -> tuple[str, str]:
    """Lines whose first word tells the pair."""
    sources = ["a0 a a", "", "a1", "a2 a a a a", "a3 a", "a4", "a5 a"]
    targets = ["b0 b", "b", "b1 b", "b2", "b3", "b4", "", "one line more"]
    for name, lines in (("source", sources), ("target", targets)):
        (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(folder / "source"), str(folder / "target")


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (None, [["4", "1"], ["3", "0"], ["2", "2"]]),
        (3, [["4", "1"], ["3", "0"]]),
        (1, [["4", "4"]]),
    ],
)
def test_batches_are_of_like_lengths(limit: int | None, expected: list[list[str]], tmp_path: Path) -> None:
    """Sorted by the lengths of both; empty ones and long ones are left out; the last batch is filled."""
    source, target = _texts(tmp_path)
    vocabs = [seq2seq_util.gen_vocab(path, 0) for path in (source, target)]
    batches = gen_batches(source, target, *vocabs, batch_size=2, max_length=limit)
    words = [list(vocab) for vocab in vocabs]
    found = []
    for batch in batches:
        for pair in batch:
            assert words[0][pair[0][0]][1:] == words[1][pair[1][0]][1:]
        found.append([words[0][first[0]][1:] for first, _ in batch])
    assert sorted(found, key=expected.index) == expected


def test_the_order_of_batches_is_by_chance(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).write_text("\n".join("ab" * length for length in range(1, 9)), encoding="utf-8")
    vocab = seq2seq_util.gen_vocab(str(tmp_path / "source"), 0)
    both = str(tmp_path / "source"), str(tmp_path / "target"), vocab, vocab
    orders = []
    for seed in (1, 1, 2):
        random.seed(seed)
        orders.append([batch[0][0][0] for batch in gen_batches(*both, batch_size=1, max_length=None)])
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2]) == list(range(4, 12))


def test_nothing_to_put_in_batches(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    path = str(tmp_path / "empty")
    assert gen_batches(path, path, {}, {}, batch_size=3, max_length=None) == []
