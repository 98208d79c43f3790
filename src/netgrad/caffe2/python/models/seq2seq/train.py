"""The program that trains a model that translates.

``python -m netgrad.caffe2.python.models.seq2seq.train --help`` tells its options.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from typing import Any

from netgrad.caffe2.python.models.seq2seq import seq2seq_util
from netgrad.caffe2.python.models.seq2seq.batches import Batch, gen_batches, prepare_batch
from netgrad.caffe2.python.models.seq2seq.options import add_model_options, log, model_params, show_log
from netgrad.caffe2.python.models.seq2seq.trained_model import Seq2SeqModelCaffe2

__all__ = ["Batch", "Seq2SeqModelCaffe2", "gen_batches", "main", "prepare_batch", "run_seq2seq_model"]


def run_seq2seq_model(args: argparse.Namespace, model_params: Mapping[str, Any]) -> None:
    """Train a model with the texts that the options name, and say its losses after each epoch.

    Raises:
        ValueError: There is no pair of sentences to train with.
    """
    show_log()
    source_vocab = seq2seq_util.gen_vocab(args.source_corpus, args.unk_threshold)
    target_vocab = seq2seq_util.gen_vocab(args.target_corpus, args.unk_threshold)
    log.info("%d words, %d translated ones", len(source_vocab), len(target_vocab))
    batches, held_out = (
        gen_batches(source, target, source_vocab, target_vocab, model_params["batch_size"], args.max_length)
        for source, target in (
            (args.source_corpus, args.target_corpus),
            (args.source_corpus_eval, args.target_corpus_eval),
        )
    )
    log.info("%d batches to train with, %d to evaluate", len(batches), len(held_out))
    if not batches:
        raise ValueError(
            f"{args.source_corpus} and {args.target_corpus} have no pair of sentences to train with"
        )
    with Seq2SeqModelCaffe2(model_params, len(source_vocab), len(target_vocab), args.num_gpus) as model:
        model.initialize_from_scratch()
        for epoch in range(args.epochs):
            losses = [
                sum(float(model.step(batch, forward_only)) for batch in some)
                for some, forward_only in ((batches, False), (held_out, True))
            ]
            log.info("epoch %d: training loss %g, evaluation loss %g", epoch, *losses)
            if args.checkpoint is not None:
                model.save(args.checkpoint, epoch)


def main() -> None:
    """Run the program."""
    random.seed(31415)
    parser = argparse.ArgumentParser(description="Train a model that translates.")
    add_model_options(parser)
    for option, text in (("--source-corpus-eval", "sentences"), ("--target-corpus-eval", "translations")):
        parser.add_argument(option, required=True, help=f"file with the {text} to evaluate with, one a line")
    for option, kind, default, text in (
        ("--max-length", int, None, "longer sentences are left out"),
        ("--batch-size", int, 32, "sentences in a batch"),
        ("--epochs", int, 10, "how often all sentences are trained with"),
        ("--learning-rate", float, 0.5, "the learning rate"),
        ("--max-gradient-norm", float, 1.0, "the limit of the norm of all gradients together"),
        ("--num-gpus", int, 0, "number of devices that the model is built for; 0: the processor"),
        ("--checkpoint", str, None, "start of the names of files that parameters are written to"),
    ):
        parser.add_argument(option, type=kind, default=default, help=f"{text} (default: {default})")
    args = parser.parse_args()
    params = {
        **model_params(args),
        "batch_size": args.batch_size,
        "optimizer_params": {"learning_rate": args.learning_rate},
        "max_gradient_norm": args.max_gradient_norm,
    }
    run_seq2seq_model(args, model_params=params)


if __name__ == "__main__":
    main()
