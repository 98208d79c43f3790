"""Makers of If, Loop, Scan and model-local functions, whose bodies are random graphs themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx.random_graphs.makers import MAKERS, maker
from tests.onnx.random_graphs.writer import DOMAIN, Drawn, Writer

DEEPEST = 2


def grow(g: Writer, steps: int) -> None:
    """Write random operators into a body; most of them on what the body has already made."""
    names = [
        name
        for name, each in MAKERS.items()
        if each.body and each.since <= g.opset <= each.until and (each.double or g.shared.kernels == "any")
    ]
    weights = np.asarray([MAKERS[name].weight for name in names])
    for _ in range(steps):
        MAKERS[str(g.rng.choice(names, p=weights / weights.sum()))].make(g)


def _shaped(g: Writer, shape: tuple[int, ...], base: Drawn) -> Drawn:
    """``base`` with everything that the body made and nothing reads, and of no more than size 1."""
    total = base
    for value in [value for value in g.pool if value.name not in g.used and value.name != base.name]:
        mean = g.emit("ReduceMean", value, keepdims=0)
        total = Drawn(g.emit("Add", total, mean), shape, total.bound + value.bound)
    return Drawn(g.emit(g.choose("Tanh", "Sin"), total), shape, 1.0)


def _info(g: Writer, name: str, shape: Sequence[int] | None) -> onnx.ValueInfoProto:
    if shape is not None and g.shared.symbolic:
        return helper.make_tensor_value_info(name, g.element_type, [None] * len(shape))
    return helper.make_tensor_value_info(name, g.element_type, shape)


def _graph(
    g: Writer, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
) -> onnx.GraphProto:
    initializers = [numpy_helper.from_array(array, key) for key, array in g.initializers.items()]
    return helper.make_graph(g.nodes, name, inputs, outputs, initializers)


def _truth(g: Writer) -> str:
    """A scalar truth value that depends on a value."""
    mean = g.emit("ReduceMean", g.any(), keepdims=0)
    return g.emit(g.choose("Greater", "Less"), mean, g.real(round(float(g.rng.normal() * 0.3), 3)))


@maker(weight=0.8)
def branch(g: Writer) -> None:
    if g.depth >= DEEPEST:
        return
    condition, base = _truth(g), g.any()
    branches = []
    for name in ("then", "else"):
        body = g.child()
        start = body.emit(body.choose("Neg", "Sin", "Identity"), base)
        body.pool.append(Drawn(start, base.shape, base.bound))
        if body.chance(0.6):
            made = body.emit("Mul", body.pool[0], body.weight(*base.shape))
            body.pool.append(Drawn(made, base.shape, base.bound))
        grow(body, g.number(0, 3))
        result = _shaped(body, base.shape, body.pool[0])
        branches.append(_graph(body, g.name(name), [], [_info(g, result.name, None)]))
    y = g.emit("If", condition, then_branch=branches[0], else_branch=branches[1])
    g.keep(y, base.shape, 1.0)


@maker(weight=0.7)
def loop(g: Writer) -> None:
    """A carried state, a scanned output, and what the body captures."""
    if g.depth >= DEEPEST:
        return
    state = g.pick(lambda v: v.size <= 40)
    if state is None:
        return
    trips = g.number(0, 4)
    body, counter, going = g.child(), g.name("i"), g.name("going")
    carried, limit = g.name("s"), g.number(1, 4)
    body.pool.append(Drawn(carried, state.shape, max(state.bound, 1.0)))
    grow(body, g.number(1, 4))
    result = _shaped(body, state.shape, body.pool[0])
    way = g.choose("trips", "condition", "both")
    if way == "trips":
        again = body.emit("Identity", going)
    else:
        again = body.emit("Less", counter, body.emit("Constant", value_int=limit))
        trips = limit + 1 if way == "condition" else min(trips, limit + 1)
    scanned = body.emit("Mul", result, body.real(0.9))
    inputs = [
        helper.make_tensor_value_info(counter, TensorProto.INT64, []),
        helper.make_tensor_value_info(going, TensorProto.BOOL, []),
        _info(g, carried, state.shape),
    ]
    outputs = [helper.make_tensor_value_info(again, TensorProto.BOOL, []), _info(g, result.name, state.shape)]
    with_scan = g.chance(0.6) and trips > 0
    if with_scan:
        outputs.append(_info(g, scanned, state.shape))
    graph = _graph(body, g.name("body"), inputs, outputs)
    most = "" if way == "condition" else g.constant(np.asarray(trips, np.int64))
    yes = g.constant(np.asarray(True))
    names = g.emit_all("Loop", most, yes, state, outputs=2 if with_scan else 1, body=graph)
    g.keep(names[0], state.shape, max(state.bound, 1.0))
    if with_scan:
        g.keep(names[1], (trips, *state.shape), 1.0)


@maker(weight=0.7)
def scan(g: Writer) -> None:
    """A state over the slices of a value, along any axis and in either direction."""
    if g.depth >= DEEPEST:
        return
    x = g.pick(lambda v: 1 <= v.rank <= 3)
    if x is None:
        return
    axis = g.axis(x)
    part = (*x.shape[:axis], *x.shape[axis + 1 :])
    state = g.pick(lambda v: v.shape == part)
    state = g.weight(*part) if state is None else state
    body, carried, slice_ = g.child(), g.name("s"), g.name("x")
    body.pool += [Drawn(carried, part, max(state.bound, 1.0)), Drawn(slice_, part, x.bound)]
    mixed = body.emit("Add", carried, slice_)
    body.pool.append(body.small(Drawn(mixed, part, x.bound + max(state.bound, 1.0))))
    grow(body, g.number(0, 3))
    result = _shaped(body, part, body.pool[2])
    scanned = body.emit("Mul", result, slice_)
    graph = _graph(
        body,
        g.name("body"),
        [_info(g, carried, part), _info(g, slice_, part)],
        [_info(g, result.name, part), _info(g, scanned, part)],
    )
    out_axis = g.number(0, len(part))
    names = g.emit_all(
        "Scan",
        state,
        x,
        outputs=2,
        body=graph,
        num_scan_inputs=1,
        scan_input_axes=[axis],
        scan_input_directions=[g.number(0, 1)],
        scan_output_axes=[out_axis],
        scan_output_directions=[g.number(0, 1)],
    )
    g.keep(names[0], part, max(state.bound, 1.0))
    g.keep(names[1], (*part[:out_axis], x.shape[axis], *part[out_axis:]), x.bound)


@maker(weight=0.8, body=False)
def function(g: Writer) -> None:
    """A model-local function of two operands of one shape: written once, called up to three times."""
    known = {each.name for each in g.shared.functions}
    if not known or g.chance(0.5):
        _define(g)
    name = g.choose(*(each.name for each in g.shared.functions))
    for _ in range(g.number(1, 3)):
        a = g.any()
        b = g.pick(lambda v, s=a.shape: v.shape == s)
        assert b is not None, "a itself is in the pool"
        g.keep(g.emit_all(name, a, b, domain=DOMAIN)[0], a.shape, 1.0)


def _define(g: Writer) -> None:
    body = Writer(g.shared, g.rng, function=True)
    body.pool += [Drawn("a", (2, 3), 4.0), Drawn("b", (2, 3), 4.0)]
    for name in ("Mul", "Add", "Sigmoid", "Max"):
        op = MAKERS[name]
        if g.chance(0.6):
            op.make(body)
    total = body.emit("Add", body.pool[0], body.emit("Sin", body.pool[1]))
    for value in body.pool[2:]:
        if value.name not in body.used and value.shape == (2, 3):
            total = body.emit("Add", total, value)
    y = body.emit("Tanh", total)
    g.shared.functions.append(
        helper.make_function(
            DOMAIN,
            g.name("function"),
            ["a", "b"],
            [y],
            body.nodes,
            [helper.make_opsetid("", g.opset)],
        )
    )
