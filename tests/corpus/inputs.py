"""Inputs that the packaged models are made for: speech, documents, images, files, molecules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Feeds = Mapping[str, Array]

_SAMPLE_RATE = 16_000  # hertz


def _voice(shape: tuple[int, ...], rate: float = _SAMPLE_RATE, pitch: float = 140.0) -> Array:
    """A voiced sound with breath: harmonics of a pitch in hertz, detuned from row to row."""
    rng = np.random.default_rng(1)
    seconds = np.arange(shape[-1]) / rate
    rows = np.arange(int(np.prod(shape[:-1]))).reshape(-1, 1)
    base = 2 * np.pi * pitch * (1 + 0.07 * rows) * seconds
    sound = sum(np.sin(k * base + k) / k for k in range(1, 12))
    noise = 0.02 * rng.standard_normal((len(rows), shape[-1]))
    return (0.25 * sound + noise).reshape(shape).astype(np.float32)


def _picture(*shape: int, low: float, high: float) -> Array:
    """Soft shapes with edges and grain, between ``low`` and ``high``."""
    rng = np.random.default_rng(2)
    batch, channels, height, width = shape
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    pictures = np.zeros(shape)
    for n in range(batch):
        for c in range(channels):
            fx, fy, p = rng.uniform(2, 9), rng.uniform(2, 9), rng.uniform(0, 6)
            wave = np.sin(fx * 6 * x + p) * np.cos(fy * 6 * y - p)
            pictures[n, c] = wave + 0.8 * ((x - 0.4) ** 2 + (y - 0.3) ** 2 < 0.06)
    pictures += 0.15 * rng.standard_normal(shape)
    pictures = (pictures - pictures.min()) / np.ptp(pictures)
    return (low + (high - low) * pictures).astype(np.float32)


_LETTERS = {
    "E": "11111 10000 10000 11110 10000 10000 11111",
    "H": "10001 10001 10001 11111 10001 10001 10001",
    "L": "10000 10000 10000 10000 10000 10000 11111",
    "O": "01110 10001 10001 10001 10001 10001 01110",
    "R": "11110 10001 10001 11110 10100 10010 10001",
    "W": "10001 10001 10001 10101 10101 11011 10001",
    "D": "11110 10001 10001 10001 10001 10001 11110",
}


def _written(text: str, height: int, width: int, scale: int, low: float, high: float) -> Array:
    """Dark letters of 7 ``scale`` pixels on light paper with grain: [1, 3, height, width]."""
    rows = [[[int(dot) for dot in row] for row in _LETTERS[letter].split()] for letter in text]
    line = np.concatenate([np.pad(np.array(glyph), ((0, 0), (0, 1))) for glyph in rows], axis=1)
    ink = np.kron(line, np.ones((scale, scale)))
    page = np.zeros((height, width))
    top, left = (height - ink.shape[0]) // 2, (width - ink.shape[1]) // 2
    page[top : top + ink.shape[0], left : left + ink.shape[1]] = ink
    grain = 0.05 * np.random.default_rng(2).standard_normal((1, 3, height, width))
    return (high - (high - low) * (0.8 * page + 0.1) + grain).astype(np.float32)


def _states(*shape: int) -> Array:
    return (0.3 * np.random.default_rng(3).standard_normal(shape)).astype(np.float32)


def _speech(samples: int, batch: int = 2) -> dict[str, Array]:
    """Frames of speech with their left context, and the state of the network."""
    return {"input": _voice((batch, samples)), "state": _states(2, batch, 128)}


def _far_voice() -> Iterator[Feeds]:
    """A quiet recording, 46 dB below full scale.

    The model takes the logarithm of the power in each band plus 1e-10, and scales by the least of all. With a
    loud voice that is a band that happens to be nearly silent: a slope that is a spike, and rounding errors
    of float32 that reach everything. Here the silent bands are below the constant, where the slope is even.
    """
    sound = 0.01 * _voice((1, 43844), rate=22050.0)[..., None]
    yield {"serving_default_input_2:0": sound.astype(np.float32)}


def _both_rates() -> Iterator[Feeds]:
    """32 ms and their context, at each of the two sample rates: each has a branch with weights of its own."""
    yield {**_speech(512 + 64), "sr": np.array(16_000, np.int64)}
    yield {**_speech(256 + 32), "sr": np.array(8_000, np.int64)}


def _magika() -> Iterator[Feeds]:
    """The beginning and the end of two files, as bytes; 256 stands where a file is shorter."""
    rng = np.random.default_rng(4)
    text = b"import os\nfor path in sorted(os.listdir('.')):\n    print(path, os.path.getsize(path))\n" * 9
    rows = [np.frombuffer(text, np.uint8).astype(np.int32), rng.integers(0, 256, 1024).astype(np.int32)]
    data = np.full((2, 2048), 256, np.int32)
    for row, content in zip(data, rows, strict=True):
        row[: min(1024, len(content))] = content[:1024]
        row[-min(1024, len(content)) :] = content[-1024:]
    yield {"bytes": data}


def _molecules() -> Iterator[Feeds]:
    """Two molecules, phenol and acetamide, in the features of the package.

    Atoms: one-hot element, group, period and valence, then degree, charge, radical electrons, aromatic, ring.
    Positions: eigenvectors and eigenvalues of the graph's Laplacian (0 where the graph has fewer than 8), and
    the probabilities that a random walk is back after 1 to 16 steps. Features are given a little noise, so
    that derivatives by them are taken where nothing is exactly 0.
    """
    rng = np.random.default_rng(5)
    ring = [(k, (k + 1) % 6) for k in range(6)]
    graphs = [(7, [*ring, (0, 6)]), (4, [(0, 1), (1, 2), (1, 3)])]
    parts: dict[str, list[Array]] = {}
    offset = 0
    for number, (atoms, bonds) in enumerate(graphs):
        edges = np.array([pair for a, b in bonds for pair in ((a, b), (b, a))]).T
        adjacency = np.zeros((atoms, atoms))
        adjacency[edges[0], edges[1]] = 1
        degree = adjacency.sum(0)
        values, vectors = np.linalg.eigh(np.diag(degree) - adjacency)
        count = min(8, atoms)
        eigvec, eigval = np.zeros((atoms, 8)), np.zeros((atoms, 8))
        eigvec[:, :count], eigval[:, :count] = vectors[:, :count], values[:count]
        step = adjacency / degree
        walks = [np.diag(np.linalg.matrix_power(step, k)) for k in range(1, 17)]
        onehot = np.zeros((atoms, 80))
        for start, width in ((0, 44), (44, 19), (63, 8), (71, 9)):
            onehot[np.arange(atoms), start + rng.integers(0, min(width, 5), atoms)] = 1
        scalars = np.stack([degree, 0 * degree, 0 * degree, degree > 1, degree > 1], axis=1)
        kinds = np.zeros((edges.shape[1], 13))
        kinds[np.arange(edges.shape[1]), np.repeat(rng.integers(0, 4, len(bonds)), 2)] = 1
        for name, array in {
            "feat": np.concatenate([onehot, scalars], axis=1),
            "edge_feat": kinds,
            "laplacian_eigvec": eigvec,
            "laplacian_eigval": eigval,
            "rw_return_probs": np.stack(walks, axis=1),
        }.items():
            noisy = array + 0.02 * rng.standard_normal(array.shape)
            parts.setdefault(name, []).append(noisy.astype(np.float32))
        parts.setdefault("edge_index", []).append((edges + offset).T.astype(np.int64))
        parts.setdefault("batch", []).append(np.full(atoms, number, np.int64))
        offset += atoms
    feeds = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    feeds["edge_index"] = np.ascontiguousarray(feeds["edge_index"].T)
    yield {**feeds, "graph_slots": np.zeros(len(graphs), np.float32)}


def _table() -> Iterator[Feeds]:
    """Rows of four columns, as large as the numbers that the models scale by."""
    yield {"input": np.random.default_rng(6).uniform(0.5, 4.0, (3, 4)).astype(np.float32)}


_INPUTS: Mapping[str, Callable[[], Iterator[Feeds]]] = {
    "silero_vad": _both_rates,
    "silero_vad_16k_op15": lambda: iter([{**_speech(576), "sr": np.array(16_000, np.int64)}]),
    "silero_vad_half": lambda: iter([_speech(576)]),
    "silero_vad_16k_sequence": lambda: iter(
        [{"input": _voice((3, 576)), "h": _states(1, 1, 128), "c": _states(1, 1, 128)}]
    ),
    "silero_vad_openvino_16k": lambda: iter([_speech(576, batch=1)]),
    "silero_vad_op18_ifless": _both_rates,
    "magika": _magika,
    "rapidocr_detection": lambda: iter([{"x": _written("HELLO", 96, 160, 4, low=-2.1, high=2.4)}]),
    "rapidocr_recognition": lambda: iter([{"x": _written("WORLD", 48, 160, 4, low=-1.0, high=1.0)}]),
    "rapidocr_orientation": lambda: iter([{"x": _written("HELLO", 48, 192, 5, low=-1.0, high=1.0)}]),
    "nudenet": lambda: iter([{"images": _picture(1, 3, 64, 96, low=0.0, high=1.0)}]),
    "basic_pitch": _far_voice,
    "swift_f0": lambda: iter(
        [
            {
                "audio": _voice((1, 4096)),
                "fmin": np.array(46.875, np.float32),
                "fmax": np.array(2093.75, np.float32),
            }
        ]
    ),
    "minimol": _molecules,
    "gradient_boosting_regressor": _table,
    "k_neighbors_classifier": _table,
    "k_neighbors_regressor": _table,
    "k_neighbors_validity": _table,
}


def inputs_of(name: str) -> list[Feeds]:
    """Where a packaged model is differentiated: at several points where one does not reach all weights."""
    return list(_INPUTS[name]())
