"""Preparing a model for differentiation: one flat, normalised form, whatever an exporter wrote."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx_ir
from onnx_ir.passes import common

from netgrad.onnx.constants import FLOATS, lift_constants
from netgrad.onnx.edit import CONSTANT_MARK
from netgrad.onnx.fold import fold
from netgrad.onnx.inline import inline_functions
from netgrad.onnx.lowering.gradients import named_by_gradients, rename_in_gradients
from netgrad.onnx.lowering.lower import lower_operators
from netgrad.onnx.names import name_inner_values, name_nodes
from netgrad.onnx.opset import lift, lift_functions
from netgrad.onnx.read import ModelSource, load
from netgrad.onnx.shapes import infer_shapes, infer_shapes_anew
from netgrad.onnx.training_info import keep_training_info
from netgrad.onnx.unchanged import copy_passed_sequences, read_unchanged_from_outside
from netgrad.onnx.unpack import unpack
from netgrad.onnx.validate import check_nodes

LOWEST_OPSET = 18
"""The lowest version of the default operator set that a prepared model has."""


@dataclass(frozen=True)
class Prepared:
    """A prepared model and what was done to it.

    Attributes:
        model: A fresh model; the source is unchanged. Tensors are shared with it.
        actions: What was done, one readable line each.
    """

    model: onnx_ir.Model
    actions: tuple[str, ...]


def prepare(
    source: ModelSource, *, keep: Collection[str] = (), opaque: Collection[tuple[str, str]] = ()
) -> Prepared:
    """Give a fresh model that computes the same as ``source``, in the form that gradient rules expect.

    The result has: no model-local functions but those in ``opaque``; the default operator set at version 18
    or the model's own, if later; no Constant nodes, but initializers of the main graph; no shape arithmetic
    whose result is known, no If whose condition is, and no read of a sequence or an optional whose content
    is; types and shapes as far as they follow; nodes with names that are unique in the whole model; no
    initializers among its inputs; operators of ``ai.onnx.ml``, and the optimizers of
    ``ai.onnx.preview.training``, as operators of the default domain. Names of values stay, and no
    floating-point computation of that domain is reordered.

    Args:
        source: The model: whatever ``load`` takes.
        keep: Names of values that must stay, for example those to differentiate and to differentiate by.
        opaque: Domain and name of functions whose calls stay calls, and of operators that stay as they are.

    Raises:
        InvalidModelError: The source cannot be read, or is not a valid model.
        UnsupportedOperatorError: An operator of an old opset has no form in the later one.
    """
    model = load(source)
    keep_training_info(model, ())  # it may name what is changed here
    actions = _inputs_that_are_initializers(model)
    actions += inline_functions(model, opaque)
    actions += lift_constants(model)
    check_nodes(model)
    actions += read_unchanged_from_outside(model, [*keep, *named_by_gradients(model)])
    rename_in_gradients(name_inner_values(model))
    infer_shapes_anew(model)
    kept = [function.opset_imports.get("", 0) for function in model.functions.values()]
    lifted = lift(model, max([LOWEST_OPSET, *kept]))
    lift_functions(model)
    if lifted:
        infer_shapes(model)
    actions += lifted
    actions += copy_passed_sequences(model)
    keep = [*keep, *named_by_gradients(model)]
    actions += fold(model, keep=keep)
    while unpacked := unpack(model, keep=keep):  # what is taken apart may tell other positions
        infer_shapes(model)
        actions += unpacked + fold(model, keep=keep)
    _drop_unused_constants(model, keep)
    actions += name_nodes(model)
    actions += lower_operators(model, opaque)
    return Prepared(model, tuple(actions))


def _inputs_that_are_initializers(model: onnx_ir.Model) -> list[str]:
    """Up to IR version 3 every initializer had to be an input too, which made it a default value."""
    before = len(model.graph.inputs)
    common.RemoveInitializersFromInputsPass()(model)
    removed = before - len(model.graph.inputs)
    return [f"took {removed} initializers out of the inputs"] if removed else []


def _drop_unused_constants(model: onnx_ir.Model, keep: Collection[str]) -> None:
    """Remove initializers that folding and lifting left without a reader; parameters stay, read or not."""
    for value in list(model.graph.initializers.values()):
        tensor = value.const_value
        if value.uses() or value.is_graph_output() or value.name in keep or tensor is None:
            continue
        if tensor.dtype not in FLOATS or CONSTANT_MARK in tensor.metadata_props:
            model.graph.initializers.pop(value.name or "")
