"""RecurrentNetwork as an operator: links, states, saved nets, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import netgrad
from netgrad import caffe2
from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import brew, core, recurrent, rnn_cell, workspace
from netgrad.caffe2.python.model_helper import ExtractPredictorNet, ModelHelper
from netgrad.caffe2.python.workspace.current import current

STEPS, BATCH, SIZE = 4, 3, 2
Array = Any


def sum_mul(scope: str = "cell", **kwargs: Any) -> tuple[ModelHelper, tuple[Any, ...]]:
    """h' = x * (x + h)."""
    model = ModelHelper(name="outer")
    sequence, initial = model.net.AddExternalInputs("x", "h0")
    step = ModelHelper(name="step", param_model=model)
    row, before = step.net.AddExternalInputs("x_t", "h_prev")
    after = step.net.Mul([row, step.net.Sum([row, before], "s")], "h")
    step.net.AddExternalOutput(after)
    outputs = recurrent.recurrent_net(
        net=model.net,
        cell_net=step.net,
        inputs=[(row, sequence)],
        initial_cell_inputs=[(before, initial)],
        links={before: after},
        scope=scope,
        **kwargs,
    )
    return model, outputs


def sum_mul_formula(x: Array, h0: Array) -> Array:
    h, found = np.broadcast_to(h0, (1, *x.shape[1:]))[0], []
    for row in x:
        h = row * (row + h)
        found.append(h)
    return np.array(found)


def slopes(function: Any, values: list[Array], at: int) -> Array:
    """Central differences by one argument, element by element."""
    found = np.zeros_like(values[at])
    for place in np.ndindex(found.shape):
        sides = []
        for sign in (1, -1):
            changed = [value.copy() for value in values]
            changed[at][place] += sign * 1e-6
            sides.append(function(*changed))
        found[place] = (sides[0] - sides[1]) / 2e-6
    return found


def feed(shape: tuple[int, ...] = (1, BATCH, SIZE), seed: int = 0, steps: int = STEPS) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    x, h0 = rng.normal(size=(steps, BATCH, SIZE)), rng.normal(size=shape)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("h0", h0)
    return x, h0


@pytest.mark.parametrize("shape", [(1, BATCH, SIZE), (BATCH, SIZE), (SIZE,)])
def test_initial_states_of_each_rank_have_gradients(shape: tuple[int, ...]) -> None:
    model, (every, last) = sum_mul(outputs_with_grads=[0, 1])
    x, h0 = feed(shape)
    rng = np.random.default_rng(1)
    seeds = rng.normal(size=x.shape), rng.normal(size=(1, BATCH, SIZE))
    workspace.FeedBlob("every_seed", seeds[0])
    workspace.FeedBlob("last_seed", seeds[1])
    model.net.AddExternalInput("every_seed", "last_seed")
    gradients = model.net.AddGradientOperators({every: "every_seed", last: "last_seed"})
    workspace.RunNetOnce(model.net)
    states = sum_mul_formula(x, h0)
    np.testing.assert_allclose(workspace.FetchBlob(every), states)
    np.testing.assert_allclose(workspace.FetchBlob(last), states[-1:])

    def objective(x: Array, h0: Array) -> Array:
        states = sum_mul_formula(x, h0)
        return (states * seeds[0]).sum() + (states[-1] * seeds[1]).sum()

    for at, blob in enumerate(("x", "h0")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]), slopes(objective, [x, h0], at), rtol=1e-6, atol=1e-8
        )


def test_a_state_that_is_added_passes_its_gradient_through() -> None:
    """h' = h + x: the gradient of the state before a step is, by name, that of the state after it."""
    model = ModelHelper(name="outer")
    sequence, initial = model.net.AddExternalInputs("x", "h0")
    step = core.Net("step")
    row, before = step.AddExternalInputs("x_t", "h_prev")
    after = step.Sum([row, before], "h")
    step.AddExternalOutput(after)
    every, _ = recurrent.recurrent_net(
        model.net, step, [(row, sequence)], [(before, initial)], {before: after}, scope="cell"
    )
    x, h0 = feed()
    gradients = model.net.AddGradientOperators([every])
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(every), h0 + x.cumsum(0))
    remaining = np.arange(STEPS, 0, -1.0).reshape(-1, 1, 1) * np.ones_like(x)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), remaining)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["h0"]), np.full(h0.shape, float(STEPS)))


@pytest.mark.parametrize("listed_once", [False, True])
def test_an_initial_state_of_two_states_gets_both_gradients(listed_once: bool) -> None:
    """a' = a * x and b' = b + a', both from h0, which the original lists at its first place for both."""
    model = ModelHelper(name="outer")
    sequence, initial = model.net.AddExternalInputs("x", "h0")
    step = core.Net("step")
    row, a, b = step.AddExternalInputs("x_t", "a_prev", "b_prev")
    new_a = step.Mul([a, row], "a")
    new_b = step.Add([b, new_a], "b")
    step.AddExternalOutput(new_a, new_b)
    outputs = recurrent.recurrent_net(
        model.net,
        step,
        [(row, sequence)],
        [(a, initial), (b, initial)],
        {a: new_a, b: new_b},
        scope="cell",
        outputs_with_grads=[2],
    )
    x, h0 = feed()

    def objective(x: Array, h0: Array) -> Array:
        first = h0[0] * x.cumprod(0)
        return (h0 + first.cumsum(0)).sum()

    if listed_once:
        for argument in model.net.Proto().op[-1].arg:
            if argument.name == "initial_recurrent_state_ids":
                argument.ints[:] = [1, 1]
    gradients = model.net.AddGradientOperators([outputs[2]])
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(outputs[2]).sum(), objective(x, h0))
    for at, blob in enumerate(("x", "h0")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]), slopes(objective, [x, h0], at), rtol=1e-6, atol=1e-8
        )


def test_a_blob_that_is_sequence_initial_state_and_parameter_gets_all_gradients() -> None:
    """h' = h * x_t + c, where h starts with c, and c is the first row of x."""
    model = ModelHelper(name="outer")
    sequence = model.net.AddExternalInput("x")
    first = model.net.Slice(sequence, "c", starts=[0, 0, 0], ends=[1, -1, -1])
    step = core.Net("step")
    row, before = step.AddExternalInputs("x_t", "h_prev")
    after = step.Add([step.Mul([before, row], "product"), first], "h")
    step.AddExternalOutput(after)
    every, _ = recurrent.recurrent_net(
        model.net, step, [(row, sequence)], [(before, first)], {before: after}, scope="cell"
    )
    x, _ = feed()

    def objective(x: Array) -> Array:
        h, total = x[0], 0
        for row in x:
            h = h * row + x[0]
            total = total + h.sum()
        return total

    gradients = model.net.AddGradientOperators([every])
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(every).sum(), objective(x))
    np.testing.assert_allclose(
        workspace.FetchBlob(gradients["x"]), slopes(objective, [x], 0), rtol=1e-6, atol=1e-8
    )


def test_a_gradient_that_the_operator_does_not_list_counts() -> None:
    """The original ignores gradients of outputs that are not among outputs_with_grads."""
    model, (_, last) = sum_mul(outputs_with_grads=[0])
    x, h0 = feed()
    gradients = model.net.AddGradientOperators([last])
    (listed,) = (arg for arg in model.net.Proto().op[-1].arg if arg.name == "outputs_with_grads")
    assert list(listed.ints) == [1]
    workspace.RunNetOnce(model.net)
    for at, blob in enumerate(("x", "h0")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]),
            slopes(lambda x, h0: sum_mul_formula(x, h0)[-1].sum(), [x, h0], at),
            rtol=1e-6,
            atol=1e-8,
        )


def test_operators_one_by_one_need_only_the_workspace() -> None:
    """What the backward pass reads of the steps is kept between runs of the two operators."""
    model, (every, _) = sum_mul()
    feed()
    gradients = model.net.AddGradientOperators([every])
    workspace.RunNetOnce(model.net)
    together = workspace.FetchBlob(gradients["x"])
    workspace.ResetWorkspace()
    feed()
    for op in model.net.Proto().op:
        workspace.RunOperatorOnce(op)
    np.testing.assert_array_equal(workspace.FetchBlob(gradients["x"]), together)


def test_sequences_of_other_lengths_need_no_new_model() -> None:
    model, (every, _) = sum_mul()
    feed()
    model.net.AddGradientOperators([every])
    workspace.CreateNet(model.net)
    (part,) = current().net(model.net.Name()).parts
    for steps in (2, 7, 1):
        x, h0 = feed(steps=steps, seed=steps)
        workspace.RunNet(model.net)
        np.testing.assert_allclose(workspace.FetchBlob(every), sum_mul_formula(x, h0))
    assert part.compiled == 1


def test_sequences_without_rows_leave_the_initial_state() -> None:
    """And what is said of the last state reaches the initial one as it is."""
    model, (every, last) = sum_mul(outputs_with_grads=[0, 1])
    seeds = {"every_seed": np.zeros((0, BATCH, SIZE)), "last_seed": np.full((1, BATCH, SIZE), 3.0)}
    model.net.AddExternalInput(*seeds)
    gradients = model.net.AddGradientOperators({every: "every_seed", last: "last_seed"})
    for steps in (0, STEPS, 0):
        x, h0 = feed(steps=steps)
        for name, seed in {**seeds, "every_seed": np.zeros_like(x)}.items():
            workspace.FeedBlob(name, seed)
        workspace.RunNetOnce(model.net)
        assert workspace.FetchBlob(every).shape == x.shape
        assert workspace.FetchBlob(gradients["x"]).shape == x.shape
        np.testing.assert_allclose(workspace.FetchBlob(last), sum_mul_formula(x, h0)[-1:] if steps else h0)
        factors = np.prod(x, 0)  # h' = x (x + h)
        np.testing.assert_allclose(workspace.FetchBlob(gradients["h0"]), seeds["last_seed"] * factors)


def test_a_state_stands_among_the_outputs() -> None:
    """With its initial rows, between outputs that have gradients, which count their places with it."""
    model, (every, last) = sum_mul(outputs_with_grads=[0, 2])
    recurrent_op = next(op for op in model.net.Proto().op if op.type == "RecurrentNetwork")
    state = next(
        argument.strings[0].decode() for argument in recurrent_op.arg if argument.name == "recurrent_states"
    )
    outputs = list(recurrent_op.output)
    recurrent_op.output[:] = [outputs[0], state, *outputs[1:]]
    x, h0 = feed()
    seed = np.random.default_rng(2).normal(size=(1, BATCH, SIZE))
    workspace.FeedBlob("every_seed", np.full_like(x, 2.0))
    workspace.FeedBlob("last_seed", seed)
    model.net.AddExternalInput("every_seed", "last_seed")
    gradients = model.net.AddGradientOperators({every: "every_seed", last: "last_seed"})
    workspace.RunNetOnce(model.net)
    states = sum_mul_formula(x, h0)
    np.testing.assert_allclose(workspace.FetchBlob(state), np.concatenate([h0, states]))
    np.testing.assert_allclose(workspace.FetchBlob(last), states[-1:])

    def objective(x: Array, h0: Array) -> Array:
        states = sum_mul_formula(x, h0)
        return 2 * states.sum() + (states[-1] * seed).sum()

    for at, blob in enumerate(("x", "h0")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]), slopes(objective, [x, h0], at), rtol=1e-6, atol=1e-8
        )


def test_shapes_are_inferred() -> None:
    model, (every, last) = sum_mul()
    feed()
    model.net.AddGradientOperators([every])
    shapes, types = workspace.InferShapesAndTypes([model.net])
    assert shapes[str(every)] == [STEPS, BATCH, SIZE]
    assert shapes[str(last)] == shapes["h0_grad"] == [1, BATCH, SIZE]
    assert shapes["x_grad"] == [STEPS, BATCH, SIZE]
    assert types["x_grad"] == core.DataType.DOUBLE


def test_seeds_of_operators_in_the_step_draw_again_what_they_drew() -> None:
    def drawn() -> Array:
        step = core.Net("step")
        row, before = step.AddExternalInputs("x_t", "h_prev")
        noise = step.GaussianFill(row, "noise", input_as_shape=0)
        after = step.Sum([before, noise], "h")
        step.AddExternalOutput(after)
        step.set_rand_seed(5)
        net = core.Net("outer")
        every, _ = recurrent.recurrent_net(
            net, step, [(row, "x")], [(before, "h0")], {before: after}, scope="cell", forward_only=True
        )
        workspace.FeedBlob("x", np.zeros((STEPS, BATCH, SIZE), np.float32))
        workspace.FeedBlob("h0", np.zeros((1, BATCH, SIZE), np.float32))
        workspace.RunNetOnce(net)
        return workspace.FetchBlob(every)

    first = drawn()
    np.testing.assert_array_equal(drawn(), first)
    rows = np.diff(first, axis=0, prepend=0)
    assert len(np.unique(rows.round(5))) == rows.size  # each step draws numbers of its own


def test_blobs_of_steps_are_retrieved() -> None:
    model, _ = sum_mul()
    x, h0 = feed()
    workspace.RunNetOnce(model.net)
    names = recurrent.retrieve_step_blobs(model.net, "seen")
    assert {f"seen_{blob}{t}".encode() for blob in ("x_t", "h", "s") for t in range(STEPS)} == set(names)
    states = np.concatenate([h0, sum_mul_formula(x, h0)])
    for t in range(STEPS):
        np.testing.assert_allclose(workspace.FetchBlob(f"seen_x_t{t}"), x[t : t + 1])
        np.testing.assert_allclose(workspace.FetchBlob(f"seen_s{t}"), x[t : t + 1] + states[t : t + 1])
        np.testing.assert_allclose(workspace.FetchBlob(f"seen_h{t}"), states[t + 1 : t + 2])


def test_a_copy_in_another_scope_runs() -> None:
    model, (every, _) = sum_mul()
    x, h0 = feed()
    model.net.AddGradientOperators([every])
    names = model.net.UsedBlobNames()
    renamed = model.net.Clone("copy", blob_remap={name: f"copied/{name}" for name in names})
    workspace.FeedBlob("copied/x", x)
    workspace.FeedBlob("copied/h0", h0)
    workspace.RunNetOnce(renamed)
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob("copied/h_all"), sum_mul_formula(x, h0))
    np.testing.assert_array_equal(workspace.FetchBlob("copied/x_grad"), workspace.FetchBlob("x_grad"))


@pytest.mark.parametrize("as_text", [True, False])
def test_step_nets_in_texts_as_early_nets_have_them(as_text: bool) -> None:
    model, (every, _) = sum_mul()
    x, h0 = feed()
    model.net.AddGradientOperators([every])
    for op in model.net.Proto().op:
        for argument in op.arg:
            if argument.HasField("n"):
                argument.s = str(argument.n).encode() if as_text else argument.n.SerializeToString()
                argument.ClearField("n")
    workspace.RunNetOnce(model.net)
    np.testing.assert_allclose(workspace.FetchBlob(every), sum_mul_formula(x, h0))
    expected = slopes(lambda x, h0: sum_mul_formula(x, h0).sum(), [x, h0], 0)
    np.testing.assert_allclose(workspace.FetchBlob("x_grad"), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_windows_over_a_state_include_its_new_row(window: int) -> None:
    """The step doubles its row, and sums the last rows of what it has doubled; zeros lie in front."""
    net = core.Net("outer")
    step = core.Net("step")
    step.AddExternalInputs("x_t", "recent")
    step.Scale("x_t", "new", scale=2.0)
    step.ReduceSum("recent", "total", axes=[0], keepdims=1)
    net.RecurrentNetwork(
        ["x", "recent0", "total0"],
        ["new_all", "total_all", "step_workspaces"],
        alias_src=["doubled", "totals"],
        alias_dst=["new_all", "total_all"],
        alias_offset=[window - 1, 1],
        recurrent_states=["doubled", "totals"],
        initial_recurrent_state_ids=[1, 2],
        link_internal=["x_t", "recent", "new", "total"],
        link_external=["x", "doubled", "doubled", "totals"],
        link_offset=[0, 0, window - 1, 1],
        link_window=[1, window, 1, 1],
        step_net=step.Proto(),
        outputs_with_grads=[],
    )
    x, _ = feed()
    workspace.FeedBlob("recent0", np.zeros((window - 1, BATCH, SIZE)))
    workspace.FeedBlob("total0", np.zeros((1, BATCH, SIZE)))
    workspace.RunNetOnce(net)
    padded = np.concatenate([np.zeros((window - 1, BATCH, SIZE)), 2 * x])
    np.testing.assert_allclose(workspace.FetchBlob("new_all"), 2 * x)
    totals = [padded[t : t + window].sum(0) for t in range(STEPS)]
    np.testing.assert_allclose(workspace.FetchBlob("total_all"), totals)


def test_initial_rows_of_another_number_are_an_error() -> None:
    model, _ = sum_mul(forward_only=True)
    feed(shape=(2, BATCH, SIZE))
    with pytest.raises(Exception, match=r"RecurrentNetwork.*Reshape"):
        workspace.RunNetOnce(model.net)


def test_dropout_masks_are_those_of_the_forward_steps() -> None:
    """h' = dropout(h * x): without the masks of the forward steps the gradient would differ."""
    model = ModelHelper(name="outer")
    sequence, initial = model.net.AddExternalInputs("x", "h0")
    step = core.Net("step")
    row, before = step.AddExternalInputs("x_t", "h_prev")
    after, _ = step.Dropout(step.Mul([row, before], "product"), ["h", "mask"], ratio=0.5, is_test=0)
    step.AddExternalOutput(after)
    every, _ = recurrent.recurrent_net(
        model.net, step, [(row, sequence)], [(before, initial)], {before: after}, scope="cell"
    )
    gradients = model.net.AddGradientOperators([every])
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, size=(3, 50, 4)).astype(np.float32)
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("h0", np.ones((1, 50, 4), np.float32))
    workspace.RunNetOnce(model.net)
    states = workspace.FetchBlob(every)
    assert 0.3 < (states[0] != 0).mean() < 0.7
    # each state is a multiple of h0, so the gradient by h0 = 1 is the sum of the states
    np.testing.assert_allclose(workspace.FetchBlob(gradients["h0"])[0], states.sum(0), rtol=1e-5)


def lstm_model(path: Path, **kwargs: Any) -> tuple[caffe2.SavedModel, dict[str, Array], Array]:
    """A saved LSTM with an output layer over the last state; the model, its parameters, and an input."""
    model = ModelHelper(name="reader")
    model.net.AddExternalInput("x")
    _, last, _, _ = rnn_cell.LSTM(
        model, "x", None, None, dim_in=SIZE, dim_out=3, scope="lstm", outputs_with_grads=[1], **kwargs
    )
    score = brew.fc(model, last, "score", dim_in=3, dim_out=2, axis=2)
    model.net.AddExternalOutput(score)
    workspace.RunNetOnce(model.param_init_net)
    rng = np.random.default_rng(5)
    parameters = {}
    for blob in model.params:
        parameters[str(blob)] = rng.normal(size=workspace.FetchBlob(blob).shape).astype(np.float32)
    saved = caffe2.SavedModel(model.net.Proto(), caffe2.init_net_of(parameters))
    caffe2.save(saved, path / "init.pb", path / "predict.pb")
    loaded = caffe2.load(path / "init.pb", path / "predict.pb")
    return loaded, parameters, rng.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32)


def lstm_formula(x: Array, values: dict[str, Array]) -> Array:
    h = np.zeros((x.shape[1], 3)) + values["lstm/initial_hidden_state"]
    c = np.zeros((x.shape[1], 3)) + values["lstm/initial_cell_state"]
    for row in x:
        gates = row @ values["lstm/i2h_w"].T + values["lstm/i2h_b"]
        gates = gates + h @ values["lstm/gates_t_w"].T + values["lstm/gates_t_b"]
        i, f, o, g = np.split(gates, 4, axis=-1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return (h @ values["score_w"].T + values["score_b"])[np.newaxis]


@pytest.mark.parametrize("forward_only", [False, True])
def test_a_saved_net_becomes_an_onnx_model_for_sequences_of_any_length(
    tmp_path: Path, forward_only: bool
) -> None:
    loaded, parameters, x = lstm_model(tmp_path, forward_only=forward_only)
    found = caffe2.run(loaded.predict_net, {**parameters, "x": x}, ["score"])
    np.testing.assert_allclose(found["score"], lstm_formula(x, parameters), rtol=1e-5, atol=1e-6)

    model = caffe2.to_onnx(loaded, {"x": ["T", "N", SIZE]})
    onnx.checker.check_model(model, full_check=True)
    assert [node.op_type for node in model.graph.node].count("Scan") == 1
    for steps in (STEPS, 2):
        (result,) = netgrad.run(model, {"x": x[:steps]}).values()
        np.testing.assert_allclose(result, lstm_formula(x[:steps], parameters), rtol=1e-5, atol=1e-6)


def test_both_backward_passes_of_a_saved_net_agree_with_its_slopes(tmp_path: Path) -> None:
    """Caffe2's, in the net's own operators, and that of the ONNX model."""
    loaded, parameters, x = lstm_model(tmp_path)
    names = [*parameters, "x"]
    by_onnx = netgrad.run(netgrad.grad(caffe2.to_onnx(loaded, {"x": ["T", "N", SIZE]}), wrt=names), {"x": x})
    values = {**parameters, "x": x}
    by_caffe2 = caffe2.gradients(loaded.predict_net, values, wrt=names, of="score")
    exact = {name: value.astype(np.float64) for name, value in values.items()}
    for name in names:
        others = {other: value for other, value in exact.items() if other != name}

        def objective(value: Array, name: str = name, others: dict[str, Array] = others) -> Array:
            given = {**others, name: value}
            return lstm_formula(given["x"], given).sum()

        expected = slopes(objective, [exact[name]], 0)
        np.testing.assert_allclose(by_caffe2[name], expected, rtol=1e-4, atol=1e-5, err_msg=name)
        np.testing.assert_allclose(by_onnx[f"{name}_grad"], expected, rtol=1e-4, atol=1e-5, err_msg=name)


def test_gradients_of_weights_are_products_of_the_rows_of_all_steps(tmp_path: Path) -> None:
    """The backward steps carry nothing but states; and a net with a backward pass converts as well."""
    loaded, parameters, x = lstm_model(tmp_path)
    net = core.Net(loaded.predict_net)
    gradients = net.AddGradientOperators([core.BlobReference("score")])
    names = [str(gradients[name]) for name in ("lstm/gates_t_w", "lstm/gates_t_b", "x")]
    model = caffe2.to_onnx(
        caffe2.SavedModel(net.Proto(), loaded.init_net), {"x": ["T", "N", SIZE]}, outputs=names
    )
    scans = [node for node in model.graph.node if node.op_type == "Scan"]
    counts = [next(a.i for a in node.attribute if a.name == "num_scan_inputs") for node in scans]
    assert [len(node.input) - count for node, count in zip(scans, counts, strict=True)] == [2, 2]
    expected = caffe2.gradients(
        loaded.predict_net, {**parameters, "x": x}, wrt=["lstm/gates_t_w", "lstm/gates_t_b", "x"], of="score"
    )
    found = netgrad.run(model, {"x": x})
    for name, gradient in zip(names, expected.values(), strict=True):
        np.testing.assert_allclose(found[name], gradient, rtol=1e-5, atol=1e-6)


def test_weights_that_the_step_computes_are_not_taken_out_of_it() -> None:
    """h' = 2 (W h + b) + x: one of the two products is by a copy of the weights that the step makes."""
    model = ModelHelper(name="outer")
    sequence, initial = model.net.AddExternalInputs("x", "h0")
    step = core.Net("step")
    row, before, weights, bias = step.AddExternalInputs("x_t", "h_prev", "w", "b")
    product = step.FC([before, step.Copy(weights, "copied"), bias], "product", axis=2)
    after = step.Sum([product, row, step.FC([before, weights, bias], "second", axis=2)], "h")
    step.AddExternalOutput(after)
    every, _ = recurrent.recurrent_net(
        model.net, step, [(row, sequence)], [(before, initial)], {before: after}, scope="cell"
    )
    x, h0 = feed()
    rng = np.random.default_rng(8)
    w, b = rng.normal(size=(SIZE, SIZE)), rng.normal(size=SIZE)
    workspace.FeedBlob("w", w)
    workspace.FeedBlob("b", b)
    gradients = model.net.AddGradientOperators([every])
    workspace.RunNetOnce(model.net)

    def objective(x: Array, h0: Array, w: Array, b: Array) -> Array:
        h, total = h0[0], 0
        for row in x:
            h = 2 * (h @ w.T + b) + row
            total = total + h.sum()
        return total

    np.testing.assert_allclose(workspace.FetchBlob(every).sum(), objective(x, h0, w, b))
    for at, blob in enumerate(("x", "h0", "w", "b")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]), slopes(objective, [x, h0, w, b], at), rtol=1e-6, atol=1e-6
        )


def test_a_training_net_is_one_model() -> None:
    """Forward, backward and update of a recurrent net are compiled together."""
    model = ModelHelper(name="trained")
    model.net.AddExternalInput("x", "target")
    _, last, _, _ = rnn_cell.LSTM(
        model, "x", None, None, dim_in=SIZE, dim_out=3, scope="lstm", outputs_with_grads=[1]
    )
    distance = model.net.SquaredL2Distance([model.net.FlattenToVec(last), "target"], "distance")
    loss = model.net.AveragedLoss(distance, "loss")
    model.AddGradientOperators([loss])
    one = model.param_init_net.ConstantFill([], "one", shape=[1], value=1.0)
    rate = model.param_init_net.ConstantFill([], "rate", shape=[1], value=-1.0)
    for param in model.params:
        model.net.WeightedSum([param, one, model.param_to_grad[param], rate], param)
    workspace.RunNetOnce(model.param_init_net)
    rng = np.random.default_rng(0)
    for param in model.params:
        shape = workspace.FetchBlob(param).shape
        workspace.FeedBlob(param, rng.normal(0, 0.5, shape).astype(np.float32))
    workspace.FeedBlob("x", rng.normal(size=(STEPS, BATCH, SIZE)).astype(np.float32))
    workspace.FeedBlob("target", rng.uniform(-0.5, 0.5, BATCH * 3).astype(np.float32))
    workspace.CreateNet(model.net)
    assert len(current().net(model.net.Name()).parts) == 1
    losses = []
    for _ in range(300):
        workspace.RunNet(model.net)
        losses.append(float(workspace.FetchBlob("loss")))
    assert losses[-1] < 0.25 * losses[0]


def test_what_can_not_be_differentiated_is_refused_by_name() -> None:
    model, (every, _) = sum_mul(forward_only=True)
    with pytest.raises(Exception, match=r"RecurrentNetwork.*forward_only"):
        model.net.AddGradientOperators([every])

    step = core.Net("step")
    row, before, table = step.AddExternalInputs("x_t", "h_prev", "table")
    product = step.Mul([row, before], "product")
    after = step.Add([product, step.Gather([table, "ids"], "rows")], "h")
    step.AddExternalOutput(after)
    with pytest.raises(Exception, match=r"'table' has a sparse gradient in step net 'step"):
        recurrent.recurrent_net(core.Net("outer"), step, [(row, "x")], [(before, "h0")], {before: after})


def test_a_step_that_reads_an_unknown_blob_is_refused_by_name() -> None:
    model, _ = sum_mul(forward_only=True)
    feed()
    net = model.net.Proto()
    for argument in net.op[-1].arg:
        if argument.name == "step_net":
            argument.n.op[0].input[1] = "nowhere"
    with pytest.raises(Exception, match=r"Can't find blob: nowhere(.|\n)*RecurrentNetwork\("):
        workspace.RunNetOnce(NetDef.FromString(net.SerializeToString()))


def test_a_step_reads_blobs_around_it() -> None:
    """As a beam search does that attends to what an encoder has said: no input of the operator names it."""
    model, (every, _) = sum_mul(forward_only=True)
    _, h0 = feed()
    net = model.net.Proto()
    for argument in net.op[-1].arg:
        if argument.name == "step_net":
            argument.n.op[0].input[0] = "doubled"
    double = core.CreateOperator("Add", ["h0", "h0"], "doubled")
    around = NetDef.FromString(net.SerializeToString())
    around.op.insert(0, double)
    workspace.RunNetOnce(around)
    x, h, found = workspace.FetchBlob("x"), h0[0], []
    for row in x:
        h = row * (2 * h0[0] + h)
        found.append(h)
    np.testing.assert_allclose(workspace.FetchBlob(every), np.array(found))


def test_cudnn_lstm_says_that_it_is_missing() -> None:
    with pytest.raises(NotImplementedError, match=r"cudnn_LSTM.*rnn_cell\.LSTM"):
        rnn_cell.cudnn_LSTM(ModelHelper("m"), "x", ("h0", "c0"), 2, 3, scope="lstm")


def test_the_predicting_part_has_steps_on_its_device_and_no_backward_steps() -> None:
    model, (every, _) = sum_mul()
    x, h0 = feed()
    model.net.AddGradientOperators([model.net.AveragedLoss(every, "loss")])
    device = core.DeviceOption(0, 1)
    predict, exported = ExtractPredictorNet(
        model.net.Proto(), ["x"], [every], device=device, renames={"h0": "start", str(every): "states"}
    )
    assert exported == ["start"]
    (op,) = predict.Proto().op
    (step,) = (argument.n for argument in op.arg if argument.name == "step_net")
    assert [inner.device_option for inner in step.op] == [device, device]
    assert all(argument.n == NetDef() for argument in op.arg if argument.name == "backward_step_net")
    workspace.ResetWorkspace()
    workspace.FeedBlob("x", x)
    workspace.FeedBlob("start", h0)
    workspace.RunNetOnce(predict)
    np.testing.assert_allclose(workspace.FetchBlob("states"), sum_mul_formula(x, h0))


def test_operators_that_run_one_by_one_find_what_the_steps_have_kept() -> None:
    """A text among what the net reads makes each operator run on its own."""
    model, (every, _) = sum_mul()
    model.net.AddExternalInput("words")
    model.net.Copy("words", "copied_words")
    x, h0 = feed()
    workspace.FeedBlob("words", np.array(["a", "b"], dtype=object))
    gradients = model.net.AddGradientOperators([every])
    workspace.RunNetOnce(model.net)
    assert list(workspace.FetchBlob("copied_words")) == [b"a", b"b"]
    expected = slopes(lambda x, h0: sum_mul_formula(x, h0).sum(), [x, h0], 0)
    np.testing.assert_allclose(workspace.FetchBlob(gradients["x"]), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("shown", [["last"], ["last", "last_again"], ["all", "all_again", "last"]])
def test_outputs_may_show_any_part_of_a_state(shown: list[str]) -> None:
    """As nets may that were not made by recurrent_net: the states are kept if no output shows them."""
    model, _ = sum_mul()
    op = model.net.Proto().op[-1]
    workspaces, state = op.output[-1], "cell/h_prev_states"
    del op.output[:]
    op.output.extend([*shown, workspaces])
    for argument in op.arg:
        if argument.name == "alias_src":
            argument.strings[:] = [state.encode()] * len(shown)
        elif argument.name == "alias_dst":
            argument.strings[:] = [name.encode() for name in shown]
        elif argument.name == "alias_offset":
            argument.ints[:] = [-1 if name.startswith("last") else 1 for name in shown]
    x, h0 = feed()
    gradients = model.net.AddGradientOperators([core.BlobReference(name) for name in shown])
    workspace.RunNetOnce(model.net)

    def objective(x: Array, h0: Array) -> Array:
        states = sum_mul_formula(x, h0)
        return sum((states[-1] if name.startswith("last") else states).sum() for name in shown)

    for name in shown:
        part = sum_mul_formula(x, h0)[-1 if name.startswith("last") else 0 :]
        np.testing.assert_allclose(workspace.FetchBlob(name), part)
    for at, blob in enumerate(("x", "h0")):
        np.testing.assert_allclose(
            workspace.FetchBlob(gradients[blob]), slopes(objective, [x, h0], at), rtol=1e-6, atol=1e-8
        )
