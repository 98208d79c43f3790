"""Sums, means and maxima over dims, and their gradient operators."""

from __future__ import annotations

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.caffe2.lowering.vjp import gradients
from netgrad.onnx.builder import Builder, Value


@lowers("SumElements", "SumSqrElements")
def _sum_elements(c: Context, x: Value) -> Value:
    return _summed(c, c.b, x)


def _summed(c: Context, b: Builder, x: Value) -> Value:
    axes = range(c.rank(x))
    terms = x * x if c.definition.type.startswith("SumSqr") else x
    return b.reduce_mean(terms, axes) if c.argument("average", False) else b.reduce_sum(terms, axes)


@lowers("SumElementsGradient")
def _sum_elements_gradient(c: Context, x: Value, dy: Value) -> list[Value]:
    return gradients(c.b, lambda b, given: [_summed(c, b, given[0])], [x], [c.b.reshape(dy, [])])


_REDUCTIONS = {
    "ReduceSum": "ReduceSum",
    "ReduceMean": "ReduceMean",
    "ReduceMax": "ReduceMax",
    "ReduceMin": "ReduceMin",
    "ReduceL1": "ReduceL1",
    "ReduceL2": "ReduceL2",
}


def _reduced(c: Context, b: Builder, x: Value, type_: str) -> Value:
    axes = [c.axis(x, int(axis)) for axis in c.numbers("axes")] or list(range(c.rank(x)))
    return b.reduce(type_, x, axes, keepdims=c.argument("keepdims", True))


@lowers(*_REDUCTIONS)
def _reduce(c: Context, x: Value) -> Value:
    return _reduced(c, c.b, x, _REDUCTIONS[c.definition.type])


@lowers(*(f"{type_}Gradient" for type_ in _REDUCTIONS))
def _reduce_gradient(c: Context, dy: Value, x: Value, y: Value) -> list[Value]:
    type_ = _REDUCTIONS[c.definition.type.removesuffix("Gradient")]
    return gradients(c.b, lambda b, given: [_reduced(c, b, given[0], type_)], [x], [dy])


_ENDS = {
    f"Reduce{end}{kind}": (end, f"Reduce{kind}")
    for end in ("Front", "Back")
    for kind in ("Sum", "Mean", "Max")
}


def _one_end(c: Context, b: Builder, x: Value, type_: str) -> Value:
    end, reduction = _ENDS[type_]
    count = c.argument("num_reduce_dim", 1)
    axes = range(count) if end == "Front" else range(c.rank(x) - count, c.rank(x))
    return b.reduce(reduction, x, list(axes), keepdims=False)


@lowers(*_ENDS)
def _reduce_one_end(c: Context, x: Value, lengths: Value | None = None) -> Value:
    if lengths is not None:
        raise c.refused("its lengths have no lowering")
    return _one_end(c, c.b, x, c.definition.type)


@lowers(*(f"{type_}Gradient" for type_ in _ENDS))
def _reduce_one_end_gradient(c: Context, dy: Value, x: Value, *rest: Value) -> list[Value]:
    type_ = c.definition.type.removesuffix("Gradient")
    if len(rest) > (1 if type_.endswith("Max") else 0):
        raise c.refused("its lengths have no lowering")
    return gradients(c.b, lambda b, given: [_one_end(c, b, given[0], type_)], [x], [dy])
