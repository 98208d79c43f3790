"""Cells and layers of recurrent nets against NumPy, and their gradients against central differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from netgrad.caffe2.python import gru_cell, rnn_cell, workspace
from netgrad.caffe2.python.model_helper import ModelHelper
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


class Decay(rnn_cell.RNNCell):
    """A cell of one's own: s' = s / 2 + x."""

    def apply_override(self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any) -> Any:
        return (model.net.Add([model.net.Scale(states[0], "half", scale=0.5), input_t], "s"),)

    def get_state_names_override(self) -> list[str]:
        return ["s"]

    def get_output_dim(self) -> int:
        return SIZE


def decayed(x: Array, s: Array) -> Array:
    found = []
    for row in x:
        s = s / 2 + row
        found.append(s)
    return np.array(found)


def fed(*blobs: str) -> list[Array]:
    """Random values of a sequence, or of states."""
    rng = np.random.default_rng(4)
    values = [rng.normal(size=(STEPS if blob == "x" else 1, BATCH, SIZE)) for blob in blobs]
    for blob, value in zip(blobs, values, strict=True):
        workspace.FeedBlob(blob, value)
    return values


def test_a_cell_of_ones_own() -> None:
    model = ModelHelper(name="outer")
    x, s0 = fed("x", "s0")
    output, states = Decay(name="decay").apply_over_sequence(model, "x", initial_states=["s0"])
    gradients = model.net.AddGradientOperators([output])
    workspace.RunNetOnce(model.net)
    assert [str(state) for state in states] == ["decay/s_all", "decay/s_last"]
    np.testing.assert_allclose(workspace.FetchBlob(output), decayed(x, s0[0]))
    weight = [sum(0.5**k for k in range(STEPS - t)) for t in range(STEPS)]
    expected = np.reshape(weight, (-1, 1, 1)) * np.ones_like(x)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), expected)

    single = ModelHelper(name="single")
    output, _ = Decay(name="decay").apply(single, "row", None, ["s0"], None)
    workspace.FeedBlob("row", x[:1])
    workspace.RunNetOnce(single.net)
    np.testing.assert_allclose(workspace.FetchBlob(output), decayed(x[:1], s0[0]))

    with pytest.raises(Exception, match="either initial states or an initializer"):
        Decay(name="decay").apply_over_sequence(model, "x")


@pytest.mark.parametrize("residual", [[], [1], [1, 2], [2]])
def test_residual_layers(residual: list[int]) -> None:
    """A layer's input is added to its output, whether the layer is the last one or not."""
    model = ModelHelper(name="outer")
    x, *initial = fed("x", "a", "b", "c")
    cells = [Decay(name=f"cell_{k}") for k in range(3)]
    cell = rnn_cell.MultiRNNCell(cells, residual_output_layers=residual, name="deep")
    output, states = cell.apply_over_sequence(
        model, "x", initial_states=["a", "b", "c"], outputs_with_grads=[0, 2, 4]
    )
    gradients = model.net.AddGradientOperators([output])
    workspace.RunNetOnce(model.net)

    def formula(x: Array) -> tuple[Array, Array]:
        for layer in range(3):
            new = decayed(x, initial[layer][0])
            last, x = new, new + x if layer in residual else new
        return x, last

    expected, last = formula(x)
    np.testing.assert_allclose(workspace.FetchBlob(output), expected)
    np.testing.assert_allclose(workspace.FetchBlob(states[4]), last)
    # the net is linear in x
    direction = np.random.default_rng(5).normal(size=x.shape)
    slope = (formula(x + direction)[0] - expected).sum()
    np.testing.assert_allclose((workspace.FetchBlob(gradients["x"]) * direction).sum(), slope)


@pytest.mark.parametrize("is_test", [0, 1])
def test_dropout_of_the_output_leaves_the_states(is_test: int) -> None:
    model = ModelHelper(name="outer")
    x, s0 = fed("x", "s0")
    cell = rnn_cell.DropoutCell(Decay(name="decay"), dropout_ratio=0.5, is_test=is_test, name="dropped")
    output, states = cell.apply_over_sequence(model, "x", initial_states=["s0"])
    workspace.RunNetOnce(model.net)
    expected = decayed(x, s0[0])
    np.testing.assert_allclose(workspace.FetchBlob(states[0]), expected)
    found = workspace.FetchBlob(output)
    if is_test:
        np.testing.assert_allclose(found, expected)
    else:
        assert 0 < (found == 0).sum() < found.size
        np.testing.assert_allclose(found[found != 0], 2 * expected[found != 0])


def test_parameters_are_initialized_from_their_parts() -> None:
    """Four gates in a row: of input, forgetting and output, and the candidate."""
    model = ModelHelper(name="outer")
    model.net.AddExternalInput("x")
    *_, params = rnn_cell.LSTM(model, "x", None, None, SIZE, 2, scope="lstm", return_params=True)
    assert params["input"] == {"weights": "lstm/i2h_w", "biases": "lstm/i2h_b"}
    workspace.RunNetOnce(model.param_init_net)
    names = rnn_cell.GetLSTMParamNames()
    assert names["weights"] == ["input_gate_w", "forget_gate_w", "output_gate_w", "cell_w"]
    values = {name: np.full((2, SIZE), k) for k, name in enumerate(names["weights"])}
    values.update((name, np.full(2, k)) for k, name in enumerate(names["biases"]))
    rnn_cell.InitFromLSTMParams(params, {"input": values})
    np.testing.assert_array_equal(
        workspace.FetchBlob("lstm/i2h_w"), np.repeat(np.arange(4), 2)[:, None] * np.ones(SIZE)
    )
    np.testing.assert_array_equal(workspace.FetchBlob("lstm/i2h_b"), np.repeat(np.arange(4), 2))
