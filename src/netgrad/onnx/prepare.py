"""Preparing a model for differentiation: one flat, normalised form whatever an exporter wrote."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir
from onnx_ir.passes import common

from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes

TARGET_OPSET = 18
"""The lowest version of the default operator set that the gradient rules know."""


@dataclass(frozen=True)
class Prepared:
    """A prepared model and what was done to it.

    Attributes:
        model: A fresh model; the source is unchanged.
        actions: What was done, one readable line each.
    """

    model: onnx_ir.Model
    actions: tuple[str, ...]


def prepare(source: ModelSource, *, keep: Collection[str] = ()) -> Prepared:
    """Give a fresh model that computes the same as ``source``, in the form that the gradient rules expect."""
    model = load(source)
    common.RemoveInitializersFromInputsPass()(model)
    common.InlinePass()(model)
    common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
    infer_shapes(model)
    return Prepared(model, ())
