"""Cells and layers of recurrent nets against NumPy, and their gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import gru_cell, rnn_cell, workspace
from netgrad.caffe2.python.rnn.rnn_cell_test_util import _prepare_rnn

STEPS, BATCH, SIZE = 5, 3, 4
SCOPE = "test_name_scope/external/recurrent/"
Array = Any


def logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def normalized(x: Array, scale: Array, bias: Array) -> Array:
    """Layer normalization over the last axis with the layer's epsilon."""
    centered = x - x.mean(-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-4) * scale + bias


def steps(
    x: Array, states: Sequence[Array], step: Callable[..., Sequence[Array]], lengths: Array, drop: bool
) -> list[Array]:
    """All and last states of ``states' = step(row, *states)``, kept or zero past the end of a sequence."""
    before = [np.array(state).reshape(x.shape[1], -1) for state in states]
    every: list[list[Array]] = [[] for _ in states]
    for t, row in enumerate(x):
        valid = (t < lengths)[:, np.newaxis]
        new = step(row, *before)
        before = [np.where(valid, n, 0 if drop else b) for n, b in zip(new, before, strict=True)]
        for collected, state in zip(every, before, strict=True):
            collected.append(state)
    return [piece for collected in every for piece in (np.array(collected), collected[-1][np.newaxis])]


@dataclass
class Layer:
    """The parameters of one layer, and what is special about it."""

    get: Callable[[str], Array]
    forget_bias: float = 0.0
    gates: Callable[[Layer, Array, Array], Array] = field(default=lambda _, x, u: x + u)
    product: str = "gates_t"

    def linear(self, x: Array, name: str) -> Array:
        return x @ self.get(f"{name}_w").T + self.get(f"{name}_b")

    def lstm(self, row: Array, h: Array, c: Array) -> list[Array]:
        gates = self.gates(self, self.linear(row, "i2h"), self.linear(h, self.product))
        i, f, o, g = np.split(gates, 4, axis=-1)
        c = logistic(f + self.forget_bias) * c + logistic(i) * np.tanh(g)
        return [logistic(o) * np.tanh(c), c]

    def gru(self, row: Array, h: Array, linear_before_reset: bool = False) -> list[Array]:
        r, u, o = np.split(self.linear(row, "i2h"), 3, axis=-1)
        reset = logistic(r + self.linear(h, "reset_gate_t"))
        update = logistic(u + self.linear(h, "update_gate_t"))
        if linear_before_reset:
            candidate = np.tanh(o + reset * self.linear(h, "output_gate_t"))
        else:
            candidate = np.tanh(o + self.linear(reset * h, "output_gate_t"))
        return [update * h + (1 - update) * candidate]

    def plain(self, row: Array, h: Array, activation: Callable[[Array], Array] = np.tanh) -> list[Array]:
        return [activation(self.linear(row, "i2h") + self.linear(h, "gates_t"))]


def multiplicative(layer: Layer, x: Array, u: Array) -> Array:
    get = layer.get
    return get("alpha") * x * u + get("beta1") * u + get("beta2") * x + get("b")


def with_norm(gates: Callable[[Layer, Array, Array], Array]) -> Callable[[Layer, Array, Array], Array]:
    def found(layer: Layer, x: Array, u: Array) -> Array:
        return normalized(gates(layer, x, u), layer.get("gates_t_norm_scale"), layer.get("gates_t_norm_bias"))

    return found


def added(_: Layer, x: Array, u: Array) -> Array:
    return x + u


@dataclass
class Case:
    """A kind of layer: what makes it, its step in NumPy, and arguments."""

    create: Callable[..., Any]
    step: Callable[..., Any] = Layer.lstm
    states: int = 2
    arguments: dict[str, Any] = field(default_factory=dict)
    layer: dict[str, Any] = field(default_factory=dict)
    lengths: bool = True
    dtype: Any = np.float64


MI = {"gates": multiplicative, "product": "prev_t"}
CASES = {
    "lstm": Case(rnn_cell.LSTM),
    "lstm_without_lengths": Case(rnn_cell.LSTM, lengths=False),
    "lstm_drop_states": Case(rnn_cell.LSTM, arguments={"drop_states": True}),
    "lstm_recomputed": Case(rnn_cell.LSTM, arguments={"memory_optim": True}),
    "lstm_unrolled": Case(rnn_cell.LSTM, arguments={"T": STEPS}),
    "lstm_two_layers": Case(rnn_cell.LSTM, arguments={"dim_out": [4, 3]}),
    "lstm_two_layers_unrolled": Case(rnn_cell.LSTM, arguments={"dim_out": [4, 3], "T": STEPS}),
    "lstm_two_layers_recomputed": Case(rnn_cell.LSTM, arguments={"dim_out": [3, 4], "memory_optim": True}),
    "layer_norm": Case(rnn_cell.LayerNormLSTM, layer={"gates": with_norm(added)}),
    "layer_norm_recomputed": Case(
        rnn_cell.LayerNormLSTM, arguments={"memory_optim": True}, layer={"gates": with_norm(added)}
    ),
    "milstm": Case(rnn_cell.MILSTM, layer=MI),
    "milstm_without_lengths": Case(rnn_cell.MILSTM, layer=MI, lengths=False),
    "milstm_layer_norm": Case(
        rnn_cell.LayerNormMILSTM, layer={"gates": with_norm(multiplicative), "product": "prev_t"}
    ),
    "gru": Case(gru_cell.GRU, Layer.gru, 1),
    "gru_without_lengths": Case(gru_cell.GRU, Layer.gru, 1, lengths=False),
    "gru_drop_states": Case(gru_cell.GRU, Layer.gru, 1, arguments={"drop_states": True}),
    "gru_linear_before_reset": Case(
        gru_cell.GRU,
        partial(Layer.gru, linear_before_reset=True),
        1,
        arguments={"linear_before_reset": True},
    ),
    "gru_two_layers": Case(gru_cell.GRU, Layer.gru, 1, arguments={"dim_out": [4, 2]}),
    "basic_tanh": Case(rnn_cell.BasicRNN, Layer.plain, 1, arguments={"activation": "tanh"}, dtype=np.float32),
    "basic_drop_states": Case(
        rnn_cell.BasicRNN,
        Layer.plain,
        1,
        arguments={"activation": "tanh", "drop_states": True},
        dtype=np.float32,
    ),
    "basic_relu_without_lengths": Case(
        rnn_cell.BasicRNN,
        partial(Layer.plain, activation=lambda x: np.maximum(x, 0)),
        1,
        arguments={"activation": "relu"},
        lengths=False,
    ),
}


class Built:
    """A layer in the workspace, with the values of what it reads."""

    def __init__(self, case: Case, outputs_with_grads: Sequence[int], seed: int = 3) -> None:
        workspace.ResetWorkspace()
        np.random.seed(seed)
        self.case = case

        def create(model: Any, blob: Any, lengths: Any, states: Any, **kwargs: Any) -> Any:
            return case.create(model, blob, lengths if case.lengths else None, states, **kwargs)

        self.outputs, self.net, blobs = _prepare_rnn(
            STEPS,
            BATCH,
            SIZE,
            create,
            outputs_with_grads,
            forget_bias=0.5 if case.states == 2 else 0.0,
            num_states=case.states,
            **case.arguments,
        )
        self.states = [str(blob) for blob in blobs[:-1]]
        self.input = str(blobs[-1])
        rng = np.random.default_rng(seed)
        self.params = [
            str(blob)
            for blob in self.net.external_inputs
            if workspace.HasBlob(blob)
            and workspace.FetchBlob(blob).dtype == np.float32
            and str(blob) not in self.states
        ]
        self.values = {blob: rng.normal(0.3, 0.5, workspace.FetchBlob(blob).shape) for blob in self.params}
        self.values.update((blob, rng.normal(size=workspace.FetchBlob(blob).shape)) for blob in self.states)
        self.values[self.input] = rng.normal(size=(STEPS, BATCH, SIZE))
        for blob, value in self.values.items():
            self.feed(blob, value)
        self.rng = rng

    def feed(self, blob: str, value: Array) -> None:
        """Feed a blob in the type that the case computes with."""
        workspace.FeedBlob(blob, value.astype(self.case.dtype))

    def reference(self) -> list[Array]:
        """All outputs of the last layer, by NumPy."""
        case, x = self.case, self.values[self.input]
        lengths = np.array(workspace.FetchBlob("test_name_scope/seq_lengths"))
        if not case.lengths:
            lengths[:] = STEPS
        sizes = case.arguments.get("dim_out", [SIZE])
        found: list[Array] = []
        for at in range(len(sizes)):
            scope = f"{SCOPE}layer_{at}/" if len(sizes) > 1 else SCOPE

            def get(name: str, at: int = at, scope: str = scope) -> Array:
                if name.startswith("i2h") and len(sizes) > 1 and at == 0:
                    return self.values[f"{SCOPE}{name}"]
                return self.values[scope + name]

            layer = Layer(get, 0.5 if case.states == 2 else 0.0, **case.layer)
            states = [self.values[f"state_{k}/layer_{at}"] for k in range(case.states)]
            drop = case.arguments.get("drop_states", False)
            found = steps(x, states, partial(case.step, layer), lengths, drop)
            x = found[0]
        return found


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_numpy(name: str) -> None:
    built = Built(CASES[name], [0])
    workspace.RunNetOnce(built.net)
    expected = built.reference()
    assert len(built.outputs) == len(expected)
    near = 1e-12 if built.case.dtype is np.float64 else 1e-6
    for blob, array in zip(built.outputs, expected, strict=True):
        np.testing.assert_allclose(workspace.FetchBlob(blob), array, rtol=near, atol=near, err_msg=str(blob))


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_central_differences(name: str) -> None:
    """By the input, each state and each parameter, of a weighted sum of all outputs, which NumPy computes."""
    case = CASES[name]
    built = Built(case, range(2 * case.states))
    workspace.RunNetOnce(built.net)
    seeds = {str(blob): built.rng.normal(size=workspace.FetchBlob(blob).shape) for blob in built.outputs}
    for blob, seed in seeds.items():
        built.feed(f"{blob}_seed", seed)
    built.net.AddExternalInput(*(f"{blob}_seed" for blob in seeds))
    gradients = built.net.AddGradientOperators({blob: f"{blob}_seed" for blob in seeds})
    workspace.RunNetOnce(built.net)

    near = 1e-7 if case.dtype is np.float64 else 1e-5
    assert len(built.params) >= 4
    for blob, value in list(built.values.items()):
        gradient = workspace.FetchBlob(gradients[blob])
        assert gradient.shape == value.shape
        direction = built.rng.normal(size=value.shape)
        objective = []
        for sign in (1, -1):
            built.values[blob] = value + sign * 1e-5 * direction
            objective.append(
                sum((out * seed).sum() for out, seed in zip(built.reference(), seeds.values(), strict=True))
            )
        built.values[blob] = value
        slope = (objective[0] - objective[1]) / 2e-5
        assert np.isclose((gradient * direction).sum(), slope, rtol=near, atol=near), blob
