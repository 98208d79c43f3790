"""Models that translate, in NumPy, one sentence and one word at a time, and all translations there are."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

PAD, GO, EOS, UNK = range(4)


class Step(NamedTuple):
    """What a decoder gives after a word: states, the logarithms of the next words' probabilities, weights."""

    states: Any
    log_probs: Array
    attention: Array


def _lstm(x: Array, h: Array, c: Array, weights: Mapping[str, Array], to_gates: str, of_state: str) -> Any:
    gates = weights[f"{to_gates}_w"] @ x + weights[f"{to_gates}_b"]
    gates = gates + weights[f"{of_state}_w"] @ h + weights[f"{of_state}_b"]
    into, keep, out, new = np.split(gates, 4)
    size = len(into)

    def sigmoid(z: Array) -> Array:
        return 1 / (1 + np.exp(-z))

    c = sigmoid(keep) * c[:size] + sigmoid(into) * np.tanh(new)
    return sigmoid(out) * np.tanh(c), c


class Translator:
    """A model by its description and its parameters."""

    def __init__(self, params: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        self.params = params
        self.weights = {name: np.asarray(value, np.float64) for name, value in weights.items()}

    def _layer(self, rows: Sequence[Array], scope: str) -> tuple[list[Array], Array, Array]:
        size = self.weights[f"{scope}/lstm/gates_t_w"].shape[1]
        h = c = np.zeros(size)
        outputs = []
        for row in rows:
            h, c = _lstm(row, h, c, self.weights, f"{scope}/lstm/i2h", f"{scope}/lstm/gates_t")
            outputs.append(h)
        return outputs, h, c

    def encode(self, source: Sequence[int]) -> tuple[Array, list[tuple[Array, Array]]]:
        """The outputs for the words from the last to the first, and the last states of each layer."""
        rows = [self.weights["encoder_embeddings"][word] for word in reversed(source)]
        finals = []
        described = self.params["encoder_type"]
        for layer in range(len(described["encoder_layer_configs"])):
            scope = f"encoder/layer{layer}"
            if layer == 0 and described.get("use_bidirectional_encoder"):
                there, h, c = self._layer(rows, f"{scope}/fw")
                back, h_back, c_back = self._layer(rows[::-1], f"{scope}/bw")
                rows = [np.concatenate(both) for both in zip(there, back[::-1], strict=True)]
                finals.append((np.concatenate([h, h_back]), np.concatenate([c, c_back])))
            else:
                rows, h, c = self._layer(rows, scope)
                finals.append((h, c))
        return np.array(rows), finals

    def start(self, source: Sequence[int]) -> tuple[Array, Any]:
        """The encoder's outputs, and the states before the first word."""
        outputs, finals = self.encode(source)
        configs = self.params["decoder_layer_configs"]
        offset = max(len(finals) - len(configs), 0)
        layers = []
        for layer, config in enumerate(configs):
            both = []
            for at, kind in enumerate(("hidden", "cell")):
                name = f"decoder_initial_{kind}_state_{layer}"
                if layer + offset >= len(finals):
                    both.append(self.weights[name])
                elif len(finals[layer + offset][at]) == config["num_units"]:
                    both.append(finals[layer + offset][at])
                else:
                    final = finals[layer + offset][at]
                    both.append(self.weights[f"{name}_w"] @ final + self.weights[f"{name}_b"])
            layers.append(tuple(both))
        context = self.weights.get("initial_attention_weighted_encoder_context")
        return outputs, (layers, context)

    def step(self, outputs: Array, states: Any, word: int) -> Step:
        """Read one word."""
        layers, context = states
        row = self.weights["decoder_embeddings"][word]
        after = []
        for layer, (h, c) in enumerate(layers):
            scope = f"decoder/layer_{layer}"
            hidden = np.concatenate([h, context]) if layer == 0 and context is not None else h
            to_gates = "decoder/i2h" if layer == 0 else f"{scope}/i2h"
            row, c = _lstm(row, hidden, c, self.weights, to_gates, f"{scope}/gates_t")
            after.append((row, c))
        attention = np.zeros(len(outputs))
        if context is not None:
            attention = self._attention(outputs, row)
            context = attention @ outputs
            row = np.concatenate([row, context])
        if self.params["decoder_softmax_size"] is not None:
            row = self.weights["decoder_outputs_scaled_w"] @ row + self.weights["decoder_outputs_scaled_b"]
        scores = self.weights["output_projection_w"] @ row + self.weights["output_projection_b"]
        return Step((after, context), scores - np.log(np.exp(scores).sum()), attention)

    def _attention(self, outputs: Array, state: Array) -> Array:
        def product(x: Array, name: str) -> Array:
            scope = f"attention_decoder/{name}"
            return x @ self.weights[f"{scope}_w"].T + self.weights[f"{scope}_b"]

        if self.params["attention"] == "dot":
            if len(state) != outputs.shape[1]:
                state = product(state, "weighted_decoder_hidden_state")
            logits = outputs @ state
        else:
            both = product(outputs, "weighted_encoder_outputs") + product(
                state, "weighted_decoder_hidden_state"
            )
            logits = np.tanh(both) @ self.weights["attention_decoder/attention_logits_w"][0]
        powers = np.exp(logits)
        return powers / powers.sum()

    def loss(self, source: Sequence[int], target: Sequence[int]) -> float:
        """Minus the logarithm of the probability of a translation and its end."""
        outputs, states = self.start(source)
        total = 0.0
        for read, wanted in zip([GO, *target], [*target, EOS], strict=True):
            states, log_probs, _ = self.step(outputs, states, read)
            total -= float(log_probs[wanted])
        return total


def score(models: Sequence[Translator], source: Sequence[int], output: Sequence[int], rewards: Array) -> Any:
    """The score of an output by the mean of models, and the mean weights of the words, in their order."""
    begun = [model.start(source) for model in models]
    outputs = [rows for rows, _ in begun]
    states = [state for _, state in begun]
    total, attended, read = 0.0, [], GO
    for word in output:
        steps = [
            model.step(rows, state, read) for model, rows, state in zip(models, outputs, states, strict=True)
        ]
        states = [step.states for step in steps]
        total += float(np.mean([step.log_probs[word] for step in steps]) + rewards[word])
        attended.append(np.mean([step.attention for step in steps], axis=0)[::-1])
        read = word
    return total, np.array(attended)


def all_outputs(words: int, steps: int) -> Iterator[tuple[int, ...]]:
    """All sequences that end with the token of end, and all that are cut off without it."""
    others = [word for word in range(words) if word != EOS]
    for length in range(steps + 1):
        for begin in itertools.product(others, repeat=length):
            yield begin if length == steps else (*begin, EOS)


def slopes(function: Callable[[], float], values: Array) -> Array:
    """Central differences by each element of an array that the function reads."""
    found = np.zeros_like(values)
    for place in np.ndindex(values.shape):
        before = values[place]
        sides = []
        for changed in (before + 1e-5, before - 1e-5):
            values[place] = changed
            sides.append(function())
        values[place] = before
        found[place] = (sides[0] - sides[1]) / 2e-5
    return found
