"""Operators of any number of blobs: passed on, scaled and added."""

from __future__ import annotations

from collections.abc import Sequence

from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lowers
from netgrad.onnx.builder import Value


@lowers("AsyncNetBarrier", "DataCouple")
def _passed_on(c: Context, *blobs: Value) -> Sequence[Value]:
    """The inputs as outputs: what comes after waits for all of them, which a compiled net does anyway."""
    if c.outputs > len(blobs):
        raise c.refused(f"it passes on what it reads, and has {c.outputs} outputs for {len(blobs)} inputs")
    return [c.b.op("Identity", blob) for blob in blobs[: c.outputs]]


@lowers("ScaleBlobs")
def _scaled(c: Context, *blobs: Value) -> Sequence[Value]:
    return [blob * c.argument("scale", 1.0) for blob in blobs]


@lowers("SumRelu")
def _sum_relu(c: Context, *terms: Value) -> Value:
    return c.b.op("Relu", c.b.op("Sum", *terms))
