"""Small models with fixed parameters, in files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from netgrad.caffe2.python import workspace
from netgrad.caffe2.python.models.seq2seq.train import Seq2SeqModelCaffe2
from tests.caffe2.seq2seq.formulas import Array

WORDS, TRANSLATED = 7, 6
RATE, LIMIT = 0.25, 0.2
SETTINGS = ("learning_rate", "global_step", "start_time")


def layers(*units: int) -> list[dict[str, int]]:
    return [{"num_units": size} for size in units]


def described(
    attention: str, encoder: Any, decoder: Any, both_ways: bool, softmax: int | None
) -> dict[str, Any]:
    return {
        "attention": attention,
        "decoder_layer_configs": decoder,
        "encoder_type": {"encoder_layer_configs": encoder, "use_bidirectional_encoder": both_ways},
        "encoder_embedding_size": 3,
        "decoder_embedding_size": 2,
        "decoder_softmax_size": softmax,
    }


DESCRIBED = {
    "last states": described("none", layers(4), layers(4), False, None),
    "products of states": described("none", layers(3, 5), layers(4), True, 3),
    "attention": described("regular", layers(2), layers(3), True, None),
    "layers with attention": described("regular", layers(4), layers(4, 3), False, 5),
    "dot attention": described("dot", layers(2, 4), layers(3, 5), True, None),
}


def trained_model(
    params: Mapping[str, Any], batch_size: int, limit: float = LIMIT, **kwargs: Any
) -> Seq2SeqModelCaffe2:
    full = {
        **params,
        "batch_size": batch_size,
        "optimizer_params": {"learning_rate": RATE},
        "max_gradient_norm": limit,
    }
    model = Seq2SeqModelCaffe2(full, WORDS, TRANSLATED, **{"num_gpus": 0, **kwargs})
    model.initialize_from_scratch()
    return model


def fixed_parameters(model: Seq2SeqModelCaffe2, seed: int, scale: float = 1.0) -> dict[str, Array]:
    """Numbers by chance in all parameters; returns them by the names that they have without devices."""
    random = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for blob in model.model.GetAllParams():
        name = str(blob)
        if name in SETTINGS:
            continue
        plain = name.split("/", 1)[1] if name.startswith("gpu_") else name
        if plain not in found:
            shape = workspace.FetchBlob(name).shape
            found[plain] = random.uniform(-scale, scale, shape).astype(np.float32)
        workspace.FeedBlob(name, found[plain])
    return found


def saved(
    params: Mapping[str, Any], seed: int, folder: Path, scale: float = 1.0
) -> tuple[str, dict[str, Array]]:
    """A file with parameters, and them; the workspace is empty afterwards."""
    with trained_model(params, 1) as model:
        weights = fixed_parameters(model, seed, scale)
        return model.save(str(folder / "model"), seed), weights
