"""Words and their numbers."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

# Numbers and texts of the tokens that every vocabulary has: padding, begin, end, and words that it hasn't.
PAD_ID, GO_ID, EOS_ID, UNK_ID = range(4)
PAD, GO, EOS, UNK = "<PAD>", "<GO>", "<EOS>", "<UNK>"


def gen_vocab(corpus: str, unk_threshold: int) -> dict[str, int]:
    """Number the words of a text.

    Args:
        corpus: A file with a sentence in each line, whose words are separated by white space.
        unk_threshold: Words that aren't there more often than this get no number.

    Returns:
        Word to number: the four tokens that every vocabulary has, then words in the order of the text.
    """
    with Path(corpus).open(encoding="utf-8") as lines:
        counts = Counter(itertools.chain.from_iterable(line.split() for line in lines))
    vocab = {PAD: PAD_ID, GO: GO_ID, EOS: EOS_ID, UNK: UNK_ID}
    for word, count in counts.items():
        if count > unk_threshold:
            vocab.setdefault(word, len(vocab))
    return vocab


def get_numberized_sentence(sentence: str, vocab: Mapping[str, int]) -> list[int]:
    """The numbers of a sentence's words; words without a number get that of `UNK`."""
    return [vocab[word] if word in vocab else vocab[UNK] for word in sentence.split()]
