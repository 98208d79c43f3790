"""What the programs that train and that translate have in common: their options."""

from __future__ import annotations

import argparse
import logging
import sys
from typing import Any

log = logging.getLogger("seq2seq")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that describe the texts and the model, which must be the same for both programs."""

    def number(option: str, default: int | None, text: str) -> None:
        parser.add_argument(option, type=int, default=default, help=f"{text} (default: {default})")

    def flag(option: str, text: str) -> None:
        parser.add_argument(option, action="store_true", help=text)

    for option, text in (("--source-corpus", "sentences"), ("--target-corpus", "translations")):
        parser.add_argument(option, required=True, help=f"file with the {text} to train with, one a line")
    number("--unk-threshold", 50, "words that are not there more often than this are unknown")
    flag("--use-bidirectional-encoder", "the encoder's first layer reads both ways, with half the units each")
    flag("--use-attention", "the decoder attends to all outputs of the encoder")
    number("--encoder-cell-num-units", 512, "units of each of the encoder's layers")
    number("--encoder-num-layers", 2, "the encoder's layers")
    number("--decoder-cell-num-units", 512, "units of each of the decoder's layers")
    number("--decoder-num-layers", 2, "the decoder's layers")
    number("--encoder-embedding-size", 256, "size of the embeddings of words")
    number("--decoder-embedding-size", 512, "size of the embeddings of translated words")
    number("--decoder-softmax-size", None, "size that the decoder's output is brought to before the scores")


def model_params(args: argparse.Namespace) -> dict[str, Any]:
    """The description of the model that the options give.

    Raises:
        ValueError: An odd number of units is to be halved.
    """
    both_ways = args.use_bidirectional_encoder
    units = args.encoder_cell_num_units
    encoder = [{"num_units": units} for _ in range(args.encoder_num_layers)]
    if both_ways:
        if units % 2:
            raise ValueError(f"--encoder-cell-num-units {units} is odd: half of them can't read each way")
        encoder[0]["num_units"] //= 2
    return {
        "attention": "regular" if args.use_attention else "none",
        "decoder_layer_configs": [
            {"num_units": args.decoder_cell_num_units} for _ in range(args.decoder_num_layers)
        ],
        "encoder_type": {"encoder_layer_configs": encoder, "use_bidirectional_encoder": both_ways},
        "encoder_embedding_size": args.encoder_embedding_size,
        "decoder_embedding_size": args.decoder_embedding_size,
        "decoder_softmax_size": args.decoder_softmax_size,
    }


def show_log() -> None:
    """Write what `log` is told to standard error from now on."""
    log.setLevel(logging.INFO)
    if not log.hasHandlers():
        log.addHandler(logging.StreamHandler(sys.stderr))
