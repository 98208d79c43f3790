"""Search with a beam over models whose next word depends on all before, against searches in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.models.seq2seq.beam_search import BeamSearchForwardOnly
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper

Array = np.ndarray[Any, Any]
WORDS, SIZE, LENGTH, EOS, GO = 4, 3, 5, 2, 1


class _Model:
    """s' = tanh(s.U + E[word]); the next word's scores are s'.V, and the weights of the attention s'.A."""

    def __init__(self, seed: int, scale: float = 1.0) -> None:
        random = np.random.default_rng(seed)
        shapes = {
            "E": (WORDS, SIZE),
            "U": (SIZE, SIZE),
            "V": (SIZE, WORDS),
            "A": (SIZE, LENGTH),
            "s0": (SIZE,),
        }
        self.arrays = {name: random.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
        self.arrays["V"] *= scale

    def states(self, words: Sequence[int]) -> list[Array]:
        """The states after the token before the first word, and after each word but the last."""
        found = [self.arrays["s0"].astype(np.float64)]
        for word in (GO, *words[:-1]):
            found.append(np.tanh(found[-1] @ self.arrays["U"] + self.arrays["E"][word]))
        return found[1:]

    def log_probs(self, words: Sequence[int]) -> list[float]:
        found = []
        for state, word in zip(self.states(words), words, strict=True):
            scores = state @ self.arrays["V"]
            found.append(float(scores[word] - np.log(np.exp(scores).sum())))
        return found

    def run(
        self,
        beam: int,
        steps: int,
        possible: Sequence[int] | None = None,
        start: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> list[Array]:
        """What a search writes. ``start`` is for its creation, and the rest for its last call."""
        model = Seq2SeqModelHelper(name="translation")
        length, inputs, first = model.net.AddExternalInputs("steps", "inputs", "s0")
        search = BeamSearchForwardOnly(beam, model, eos_token_id=EOS, **(start or {}))
        step = search.get_step_model().net
        before = step.AddExternalInput("s_prev")
        rows = step.Gather(["E", search.get_previous_tokens()], "rows")
        flat = step.Reshape(before, ["s_flat", "s_flat_shape"], shape=[beam, SIZE])[0]
        moved = step.Reshape(step.MatMul([flat, "U"], "sU"), ["sU_3d", "sU_shape"], shape=[1, beam, SIZE])[0]
        state = step.Tanh(step.Add([moved, rows], "s_sum"), "s")
        last = step.Reshape(state, ["s_last", "s_last_shape"], shape=[beam, SIZE])[0]
        probs = step.Softmax(step.MatMul([last, "V"], "scores"), "probs")
        if possible is not None:
            kwargs["possible_translation_tokens"] = model.param_init_net.GivenTensorIntFill(
                [], "possible", shape=[len(possible)], values=list(possible)
            )
            columns = step.Transpose(probs, "columns")
            probs = step.Transpose(step.Gather([columns, "possible"], "chosen"), "probs_possible")
        weights = step.ExpandDims(step.MatMul([last, "A"], "sA"), "attention", dims=[2])
        state_config = search.StateConfig(
            initial_value=first,
            state_prev_link=search.LinkConfig(blob=before, offset=0, window=1),
            state_link=search.LinkConfig(blob=state, offset=1, window=1),
        )
        outputs = search.apply(
            inputs=inputs,
            length=length,
            log_probs=step.Log(probs, "log_probs"),
            attentions=weights,
            state_configs=[state_config],
            **{"data_dependencies": [], **kwargs},
        )
        for name, array in self.arrays.items():
            workspace.FeedBlob(name, array)
        workspace.FeedBlob("inputs", np.ones((LENGTH, 1), np.int32))
        workspace.FeedBlob("steps", np.array([steps], np.int64))
        workspace.RunNetOnce(model.param_init_net)
        workspace.RunNetOnce(model.net)
        return [workspace.FetchBlob(blob) for blob in outputs]


def _sequences(tokens: Array, before: Array, step: int) -> list[tuple[int, ...]]:
    """The hypotheses of the beam after a step."""
    found = []
    for at in range(tokens.shape[1]):
        words: list[int] = []
        for row in range(step, 0, -1):
            words.append(int(tokens[row, at, 0]))
            at = before[row, at, 0]
        found.append(tuple(words[::-1]))
    return found


@pytest.mark.parametrize("seed", range(3))
def test_two_words_are_the_best_of_all_pairs(seed: int) -> None:
    """With as many hypotheses as words nothing is lost before the second step."""
    model = _Model(seed)
    tokens, before, scores, _ = model.run(WORDS, 2)
    pairs = sorted(
        itertools.product(range(WORDS), repeat=2), key=lambda pair: sum(model.log_probs(pair)), reverse=True
    )
    assert _sequences(tokens, before, 2) == pairs[:WORDS]
    expected = [sum(model.log_probs(pair)) for pair in pairs[:WORDS]]
    np.testing.assert_allclose(scores[2, :, 0], expected, rtol=1e-5)
    assert tokens.shape == before.shape == scores.shape == (3, WORDS, 1)
    assert tokens[0].ravel().tolist() == [GO] * WORDS
    assert tokens.dtype == before.dtype == np.int32


@pytest.mark.parametrize("seed", range(3))
def test_the_best_of_all_sequences_of_a_model_that_is_sure(seed: int) -> None:
    model = _Model(seed, scale=3.0)
    tokens, before, scores, attention = model.run(WORDS, 5)
    best = max(itertools.product(range(WORDS), repeat=5), key=lambda words: sum(model.log_probs(words)))
    assert _sequences(tokens, before, 5)[0] == best
    # The logarithm of a number near one is as inexact as that number.
    np.testing.assert_allclose(scores[5, 0, 0], sum(model.log_probs(best)), rtol=1e-5, atol=1e-6)
    at, found = 0, []
    for row in range(5, 0, -1):
        found.append(attention[row, at])
        at = before[row, at, 0]
    expected = np.array(model.states(best)) @ model.arrays["A"]
    np.testing.assert_allclose(found[::-1], expected, rtol=1e-4, atol=1e-5)
    assert not attention[0].any()


def _naive(
    model: _Model, beam: int, steps: int, words: Sequence[int], bonus: Any
) -> list[list[tuple[int, ...]]]:
    """The beams of a search that computes every sequence anew.

    A hypothesis is continued by its best words, before rewards count; the best of these are the next beam.
    """

    def score(sequence: tuple[int, ...]) -> float:
        return sum(model.log_probs(sequence)) + sum(bonus(sequence[: at + 1]) for at in range(len(sequence)))

    beams: list[list[tuple[int, ...]]] = [[()]]
    for _ in range(steps):
        following = []
        for begin in beams[-1]:
            ranked = sorted(words, key=lambda word, begin=begin: -model.log_probs((*begin, word))[-1])  # type: ignore[misc]
            following += [(*begin, word) for word in ranked[:beam]]
        beams.append(sorted(following, key=score, reverse=True)[:beam])
    return beams


@pytest.mark.parametrize("beam", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_all_beams_of_a_search_by_hand(beam: int, seed: int) -> None:
    model = _Model(seed + 10)
    tokens, before, scores, _ = model.run(beam, 6)
    for step, sequences in enumerate(_naive(model, beam, 6, range(WORDS), lambda _: 0.0)):
        if step:
            assert _sequences(tokens, before, step) == sequences
            expected = [sum(model.log_probs(words)) for words in sequences]
            np.testing.assert_allclose(scores[step, :, 0], expected, rtol=1e-5)


def test_rewards_of_words_are_added() -> None:
    model, rewards = _Model(20), np.array([0.5, -0.25, 0, 1], np.float32)
    workspace.FeedBlob("rewards", rewards)
    tokens, before, scores, _ = model.run(2, 4, word_rewards=core.BlobReference("rewards"))
    sequences = _naive(model, 2, 4, range(WORDS), lambda words: float(rewards[words[-1]]))[4]
    assert _sequences(tokens, before, 4) == sequences
    expected = [sum(model.log_probs(words)) + rewards[list(words)].sum() for words in sequences]
    np.testing.assert_allclose(scores[4, :, 0], expected, rtol=1e-5)


def test_a_penalty_behind_the_end() -> None:
    model = _Model(31)

    def bonus(words: tuple[int, ...]) -> float:
        return -2.5 if len(words) > 1 and words[-2] == EOS else 0.0

    plain = _naive(model, 3, 4, range(WORDS), lambda _: 0.0)[4]
    sequences = _naive(model, 3, 4, range(WORDS), bonus)[4]
    assert sequences != plain
    tokens, before, scores, _ = model.run(3, 4, start={"post_eos_penalty": -2.5})
    assert _sequences(tokens, before, 4) == sequences
    expected = [
        sum(model.log_probs(words)) + sum(bonus(words[: at + 1]) for at in range(4)) for words in sequences
    ]
    np.testing.assert_allclose(scores[4, :, 0], expected, rtol=1e-5)


def test_no_penalty_before_the_first_word() -> None:
    """Even if the word before it is the one that ends a sequence."""
    first = {"go_token_id": EOS}
    plain = _Model(32).run(2, 1, start=first)
    penalized = _Model(32).run(2, 1, start={**first, "post_eos_penalty": -2.5})
    for one, other in zip(penalized, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (plain[2][1] > -2.5).all()


def test_only_possible_words_are_found() -> None:
    model, possible = _Model(40), [3, 0, 2]
    tokens, before, _, _ = model.run(2, 4, possible=possible)
    assert _sequences(tokens, before, 4) == _naive(model, 2, 4, possible, lambda _: 0.0)[4]


def test_the_word_before_the_first_one_may_be_a_blob() -> None:
    model = _Model(50)
    by_constant = model.run(2, 2, start={"go_token_id": 3})
    assert by_constant[0][0].ravel().tolist() == [3, 3]
    workspace.FeedBlob("first", np.array([3], np.float32))
    for one, other in zip(model.run(2, 2, go_token_id="first"), by_constant, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_must_be_there_before_is_an_input() -> None:
    with pytest.raises(Exception, match="not_yet"):
        _Model(60).run(2, 2, data_dependencies=["not_yet"])
    workspace.FeedBlob("not_yet", np.zeros(1, np.float32))
    tokens, *_ = _Model(60).run(2, 2, data_dependencies=["not_yet"])
    assert tokens.shape == (3, 2, 1)
