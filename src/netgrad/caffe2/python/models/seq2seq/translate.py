"""Translation by one trained model or by several together, and the program that does it.

``python -m netgrad.caffe2.python.models.seq2seq.translate --help`` tells its options. It reads sentences from
the standard input and writes their translations.
"""

from __future__ import annotations

import argparse
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.models.seq2seq import seq2seq_util
from netgrad.caffe2.python.models.seq2seq.beam_search import BeamSearchForwardOnly
from netgrad.caffe2.python.models.seq2seq.decoding_step import DecodingStep, weighted_sum
from netgrad.caffe2.python.models.seq2seq.options import add_model_options, log, model_params, show_log
from netgrad.caffe2.python.models.seq2seq.seq2seq_model_helper import Seq2SeqModelHelper


class Seq2SeqModelCaffe2EnsembleDecoderBase(ABC):
    """What reads the parameters of trained models. Derived classes tell where they are.

    Attributes:
        model: The model that translates, in which each model's parameters have a scope.
        models: The description of each.
        decoder_scope_names: The scope of each.
    """

    model: Any
    models: Sequence[Any]
    decoder_scope_names: Sequence[str]

    @abstractmethod
    def get_model_file(self, model: Any) -> str:
        """The file with a model's parameters."""

    @abstractmethod
    def get_db_type(self) -> str:
        """What kind of file that is."""

    def build_word_rewards(
        self, vocab_size: int, word_reward: float, unk_reward: float
    ) -> npt.NDArray[np.float32]:
        """What is added to the score of each word: nothing for tokens, and more or less for unknown words."""
        rewards = np.full(vocab_size, word_reward, np.float32)
        rewards[[seq2seq_util.PAD_ID, seq2seq_util.GO_ID, seq2seq_util.EOS_ID]] = 0
        rewards[seq2seq_util.UNK_ID] = word_reward + unk_reward
        return rewards

    def load_models(self) -> None:
        """Read all parameters."""
        for described, scope in zip(self.models, self.decoder_scope_names, strict=True):
            path = self.get_model_file(described)
            params = [param for param in self.model.GetAllParams() if str(param).startswith(f"{scope}/")]
            opened = core.CreateOperator("CreateDB", [], ["reader"], db=path, db_type=self.get_db_type())
            loaded = core.CreateOperator(
                "Load", ["reader"], params, load_all=1, add_prefix=f"{scope}/", strip_prefix="gpu_0/"
            )
            workspace.RunOperatorOnce(opened)
            workspace.RunOperatorOnce(loaded)
            log.info("%s is read from %s", scope, path)


class Seq2SeqModelCaffe2EnsembleDecoder(Seq2SeqModelCaffe2EnsembleDecoderBase):
    """Translates with the mean of the models' logarithms of probabilities, in the current workspace.

    ``translate_params`` has ``ensemble_models``, each with a ``source_vocab`` and a ``target_vocab`` that are
    the same for all, ``model_params`` (see `Seq2SeqModelCaffe2`) and ``model_file``; and ``decoding_params``
    with ``beam_size``, ``word_reward`` and ``unk_reward``.
    """

    def __init__(self, translate_params: Mapping[str, Any]) -> None:
        """Build the net that translates; `load_models` reads the parameters.

        Raises:
            ValueError: There is no model, or models have different vocabularies.
        """
        self.models = translate_params["ensemble_models"]
        decoding = translate_params["decoding_params"]
        self.beam_size: int = decoding["beam_size"]
        if not self.models:
            raise ValueError("translation needs a model: ensemble_models is empty")
        vocabs = [(described["source_vocab"], described["target_vocab"]) for described in self.models]
        if any(both != vocabs[0] for both in vocabs):
            raise ValueError("models that translate together must have the same vocabularies")
        self.source_vocab_size, self.target_vocab_size = map(len, vocabs[0])
        self.decoder_scope_names = [f"model{at}" for at in range(len(self.models))]
        self.model = Seq2SeqModelHelper(init_params=True)
        self._build()
        workspace.RunNetOnce(self.model.param_init_net)
        rewards = self.build_word_rewards(
            self.target_vocab_size, decoding["word_reward"], decoding["unk_reward"]
        )
        workspace.FeedBlob("word_rewards", rewards)
        read = (self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len)
        workspace.CreateNet(self.model.net, input_blobs=[str(blob) for blob in read])

    def get_model_file(self, model: Any) -> str:
        """The file with a model's parameters."""
        path: str = model["model_file"]
        return path

    def get_db_type(self) -> str:
        """What training writes."""
        return "minidb"

    def scope(self, scope_name: str | None, blob_name: str) -> str:
        """A name in a scope, if there is one."""
        return blob_name if scope_name is None else f"{scope_name}/{blob_name}"

    def _build(self) -> None:
        model = self.model
        self.encoder_inputs, self.encoder_lengths, self.max_output_seq_len = (
            model.net.AddExternalInput(name)
            for name in ("encoder_inputs", "encoder_lengths", "max_output_seq_len")
        )
        # No hypothesis is too long for the decoder: which step is its last one is chosen afterwards.
        no_end = model.param_init_net.ConstantFill(
            [], "fake_seq_lengths", shape=[self.beam_size], value=100000, dtype=core.DataType.INT32
        )
        search = BeamSearchForwardOnly(
            beam_size=self.beam_size,
            model=model,
            go_token_id=seq2seq_util.GO_ID,
            eos_token_id=seq2seq_util.EOS_ID,
        )
        steps = [
            DecodingStep(
                search,
                described["model_params"],
                scope,
                self.encoder_inputs,
                self.encoder_lengths,
                no_end,
                self.source_vocab_size,
                self.target_vocab_size,
            )
            for described, scope in zip(self.models, self.decoder_scope_names, strict=True)
        ]

        def mean(blobs: Sequence[Any], divisor: str, name: str) -> Any:
            share = model.param_init_net.ConstantFill([], divisor, value=1 / len(blobs), shape=[1])
            return weighted_sum(search.get_step_model(), blobs, share, name)

        attentions = mean(
            [step.attention_weights for step in steps],
            "num_decoders_with_attention_blob",
            "attention_weights_average",
        )
        log_probs = mean([step.log_probs for step in steps], "num_decoders_blob", "output_log_probs_average")
        rewards = model.param_init_net.ConstantFill(
            [], "word_rewards", shape=[self.target_vocab_size], value=0.0, dtype=core.DataType.FLOAT
        )
        (
            self.output_token_beam_list,
            self.output_prev_index_beam_list,
            self.output_score_beam_list,
            self.output_attention_weights_beam_list,
        ) = search.apply(
            inputs=self.encoder_inputs,
            length=self.max_output_seq_len,
            log_probs=log_probs,
            attentions=attentions,
            state_configs=[state for step in steps for state in step.states],
            data_dependencies=[],
            word_rewards=rewards,
        )

    def decode(
        self, numberized_input: Sequence[int], max_output_seq_len: int
    ) -> tuple[list[int], list[list[float]], float]:
        """Translate a sentence.

        Args:
            numberized_input: The numbers of its words.
            max_output_seq_len: How long the translation is at most, with the token of end.

        Returns:
            The translation with the best score, with the token of end if it has one; for each of its words
            the weights of the sentence's words; and its score, with the sign changed.

        Raises:
            ValueError: The sentence is empty.
        """
        words = list(numberized_input)
        if not words:
            raise ValueError("an empty sentence can't be translated")
        workspace.FeedBlob(self.encoder_inputs, np.array(words[::-1], np.int32)[:, None])
        workspace.FeedBlob(self.encoder_lengths, np.array([len(words)], np.int32))
        workspace.FeedBlob(self.max_output_seq_len, np.array([max_output_seq_len], np.int64))
        workspace.RunNet(self.model.net)
        tokens, before, scores = (
            workspace.FetchBlob(blob)[..., 0]
            for blob in (
                self.output_token_beam_list,
                self.output_prev_index_beam_list,
                self.output_score_beam_list,
            )
        )
        weights = workspace.FetchBlob(self.output_attention_weights_beam_list)
        step, at = _best_hypothesis(tokens, before, scores)
        score = -float(scores[step, at])
        output, attended = [], []
        while step > 0:
            output.append(int(tokens[step, at]))
            attended.append(weights[step, at, ::-1].tolist())  # as the encoder reads the last word first
            at = before[step, at]
            step -= 1
        return output[::-1], attended[::-1], score


def _best_hypothesis(
    tokens: npt.NDArray[np.int32], before: npt.NDArray[np.int32], scores: npt.NDArray[np.float32]
) -> tuple[int, int]:
    """The step and the place of the best one of those that end there, or that are cut off by the last step.

    The search goes on behind the end of a sentence. What it finds there is no translation, even if rewards
    for words make it the best one.
    """
    last = len(tokens) - 1
    ended = np.zeros(tokens.shape[1], bool)
    found: tuple[int, int] | None = None
    for step in range(last + 1):
        ended = ended[before[step]] if step else ended
        ends = (tokens[step] == seq2seq_util.EOS_ID) | (step == last)
        for at in np.flatnonzero(ends & ~ended):
            if found is None or scores[step, at] > scores[found]:
                found = step, int(at)
        ended = ended | ends
    assert found is not None, "each hypothesis of the last step either ends there or has ended before"
    return found


def run_seq2seq_beam_decoder(
    args: argparse.Namespace, model_params: Mapping[str, Any], decoding_params: Mapping[str, Any]
) -> None:
    """Translate the standard input with the model that the options name. An empty line stays one."""
    show_log()
    source_vocab, target_vocab = (
        seq2seq_util.gen_vocab(corpus, args.unk_threshold)
        for corpus in (args.source_corpus, args.target_corpus)
    )
    log.info("%d words, %d translated ones", len(source_vocab), len(target_vocab))
    described = {
        "source_vocab": source_vocab,
        "target_vocab": target_vocab,
        "model_params": model_params,
        "model_file": args.checkpoint,
    }
    decoder = Seq2SeqModelCaffe2EnsembleDecoder(
        {"ensemble_models": [described], "decoding_params": decoding_params}
    )
    decoder.load_models()
    words = list(target_vocab)
    for line in sys.stdin:
        sentence = seq2seq_util.get_numberized_sentence(line, source_vocab)
        translation = decoder.decode(sentence, 2 * len(sentence) + 5)[0] if sentence else []
        print(" ".join(words[number] for number in translation))


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description="Translate the standard input with a trained model.")
    add_model_options(parser)
    for option, kind, default, text in (
        ("--beam-size", int, 6, "hypotheses of the search"),
        ("--word-reward", float, 0.0, "added to the score of each word"),
        ("--unk-reward", float, 0.0, "added to the score of each unknown word besides"),
    ):
        parser.add_argument(option, type=kind, default=default, help=f"{text} (default: {default})")
    parser.add_argument("--checkpoint", required=True, help="file with the parameters, which training wrote")
    args = parser.parse_args()
    decoding = {name: getattr(args, name) for name in ("beam_size", "word_reward", "unk_reward")}
    run_seq2seq_beam_decoder(args, model_params=model_params(args), decoding_params=decoding)


if __name__ == "__main__":
    main()
