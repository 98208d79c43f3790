"""Pairs of sentences in batches, and batches as arrays."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from netgrad.caffe2.python.models.seq2seq.vocabulary import EOS_ID, GO_ID, PAD_ID, get_numberized_sentence

Pair = tuple[list[int], list[int]]
"""The numbers of the words of a sentence, and those of its translation."""


class Batch(NamedTuple):
    """What a model reads. Sentences stand in columns; what is behind the end of one is padded.

    Attributes:
        encoder_inputs: The sentences, last word first.
        encoder_lengths: Their lengths.
        decoder_inputs: The translations behind the token of begin.
        decoder_lengths: Their lengths, with it.
        targets: The translations before the token of end.
        target_weights: One for each of these words, zero for padding.
    """

    encoder_inputs: npt.NDArray[np.int32]
    encoder_lengths: npt.NDArray[np.int32]
    decoder_inputs: npt.NDArray[np.int32]
    decoder_lengths: npt.NDArray[np.int32]
    targets: npt.NDArray[np.int32]
    target_weights: npt.NDArray[np.float32]


def _columns(sequences: Sequence[Sequence[int]]) -> npt.NDArray[np.int32]:
    columns = np.full((max(map(len, sequences)), len(sequences)), PAD_ID, np.int32)
    for at, sequence in enumerate(sequences):
        columns[: len(sequence), at] = sequence
    return columns


def _lengths(sequences: Sequence[Sequence[int]]) -> npt.NDArray[np.int32]:
    return np.array([len(sequence) for sequence in sequences], np.int32)


def prepare_batch(batch: Sequence[Pair]) -> Batch:
    """The arrays of a batch. A pair of two empty sentences, which only fills it, has no weight."""
    sources = [list(reversed(source)) for source, _ in batch]
    inputs = [[GO_ID, *target] for _, target in batch]
    targets = _columns([[*target, EOS_ID] for _, target in batch])
    weights = (targets != PAD_ID).astype(np.float32)
    weights[:, [not source and not target for source, target in batch]] = 0
    return Batch(_columns(sources), _lengths(sources), _columns(inputs), _lengths(inputs), targets, weights)


def gen_batches(
    source_corpus: str,
    target_corpus: str,
    source_vocab: Mapping[str, int],
    target_vocab: Mapping[str, int],
    batch_size: int,
    max_length: int | None,
) -> list[list[Pair]]:
    """Batches of the sentences of two texts, of like lengths, in an order by chance.

    Args:
        source_corpus: A file with a sentence in each line.
        target_corpus: A file with the translations.
        source_vocab: The numbers of words.
        target_vocab: The numbers of the translations' words.
        batch_size: The size of each batch. The last one is filled with its last pair.
        max_length: Longer sentences are left out, as empty ones are; None: there are no such.

    Returns:
        The batches; Python's own ``random`` chooses the order.
    """
    pairs: list[Pair] = []
    with (
        Path(source_corpus).open(encoding="utf-8") as sources,
        Path(target_corpus).open(encoding="utf-8") as targets,
    ):
        for source, target in zip(sources, targets, strict=False):  # as long as both texts go
            pair = (
                get_numberized_sentence(source, source_vocab),
                get_numberized_sentence(target, target_vocab),
            )
            if all(pair) and (max_length is None or max(map(len, pair)) <= max_length):
                pairs.append(pair)
    pairs.sort(key=lambda pair: (len(pair[0]), len(pair[1])))
    batches = [pairs[first : first + batch_size] for first in range(0, len(pairs), batch_size)]
    if batches:
        batches[-1] += [batches[-1][-1]] * (batch_size - len(batches[-1]))
    random.shuffle(batches)
    return batches
