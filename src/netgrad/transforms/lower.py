"""Writing a model in operators that every ONNX runtime has."""

from __future__ import annotations

import onnx_ir

from netgrad.onnx.inline import drop_uncalled
from netgrad.onnx.lowering.lower import TRAINING, check_lowered
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import ModelSource
from netgrad.onnx.rules.choices import NONE_CHOSEN
from netgrad.transforms.gradient_nodes import lower_gradients


def lower(model: ModelSource) -> onnx_ir.Model:
    """Write operators of ``ai.onnx.ml`` and ``ai.onnx.preview.training`` in operators of the default domain.

    Of ``ai.onnx.preview.training``, which stock runtimes do not know, these are Gradient, whose backward pass
    is written, and Adagrad, Adam and Momentum. Of ``ai.onnx.ml`` all that compute with real numbers; what
    they held as attributes become initializers ``<node>_<attribute>``. Names of inputs and outputs stay. As
    for every gradient, the default operator set is lifted to version 18 at least, and functions of the model
    are inlined, but for those with a rule of yours. `netgrad.grad`, `netgrad.check`, `netgrad.inspect` and
    `netgrad.training_step` do this by themselves.

    Args:
        model: A path, bytes, an `onnx.ModelProto` or an `onnx_ir.Model`; it is not changed.

    Returns:
        The model. Operators of ``ai.onnx.ml`` that have no such form, such as tree ensembles, stay as they
        are.

    Raises:
        InvalidModelError: The model cannot be read, or a Gradient names a value that it does not have.
        UnsupportedOperatorError: A gradient that is asked for cannot be written, or an optimizer has an
            unknown form.
    """
    return lower_with_account(model)[0]


def lower_with_account(model: ModelSource) -> tuple[onnx_ir.Model, tuple[str, ...]]:
    """`lower`, and what was done, one readable line each."""
    prepared = prepare(model, opaque=NONE_CHOSEN.opaque())
    actions = lower_gradients(prepared.model)
    for node in prepared.model.graph.all_nodes():
        if node.domain == TRAINING:
            check_lowered(node, "standard operators")
    drop_uncalled(prepared.model)
    return prepared.model, (*prepared.actions, *actions)
