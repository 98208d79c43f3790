"""Nets of a model of layers: for training, for evaluation and for predictions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.core.shared_gradients import separate_gradients
from netgrad.caffe2.python.layers.layers import InstantiationContext
from netgrad.caffe2.python.layers.tags import Tags


def _chosen(model: Any, include_tags: Sequence[str] | None, excluded_by: str) -> list[Any]:
    """The layers that have one of some tags, if there are any, and not the one that leaves them out."""
    return [
        layer
        for layer in model.layers
        if excluded_by not in layer.tags and (include_tags is None or not layer.tags.isdisjoint(include_tags))
    ]


def shrink_output_schema(net: core.Net, out_schema: Any) -> Any:
    """A record without the columns whose blobs a net doesn't define; a single column stays in any case."""
    names = out_schema.field_names()
    if len(names) <= 1:
        return out_schema
    columns = zip(
        names,
        out_schema.field_types(),
        out_schema.field_blobs(),
        out_schema.field_metadata(),
        strict=True,
    )
    kept = [column for column in columns if net.BlobIsDefined(column[2])]
    return schema.from_column_list(*[[column[at] for column in kept] for at in range(4)])


def generate_predict_net(model: Any, include_tags: Sequence[str] | None = None) -> core.Net:
    """The net for predictions; its records are the model's features and outputs."""
    net = core.Net("predict_net")
    for layer in _chosen(model, include_tags, Tags.EXCLUDE_FROM_PREDICTION):
        layer.add_operators(net, context=InstantiationContext.PREDICTION)
    net.set_input_record(model.input_feature_schema.clone())
    net.set_output_record(shrink_output_schema(net, model.output_schema.clone()))
    return net


def _set_records(model: Any, net: core.Net) -> None:
    net.set_input_record(model.input_feature_schema + model.trainer_extra_schema)
    net.set_output_record(shrink_output_schema(net, model.output_schema + model.metrics_schema))


def generate_eval_net(model: Any, include_tags: Sequence[str] | None = None) -> core.Net:
    """The net for evaluation; its records are all inputs, and the outputs and metrics."""
    net = core.Net("eval_net")
    for layer in _chosen(model, include_tags, Tags.EXCLUDE_FROM_EVAL):
        layer.add_operators(net, context=InstantiationContext.EVAL)
    _set_records(model, net)
    return net


def generate_training_nets_forward_only(
    model: Any, include_tags: Sequence[str] | None = None
) -> tuple[core.Net, core.Net]:
    """The net that initializes the model, and that for training without the backward pass."""
    net = core.Net("train_net")
    init_net = model.create_init_net("train_init_net")
    for layer in _chosen(model, include_tags, Tags.EXCLUDE_FROM_TRAIN):
        layer.add_operators(net, init_net)
    _set_records(model, net)
    return init_net, net


def generate_training_nets(
    model: Any, include_tags: Sequence[str] | None = None
) -> tuple[core.Net, core.Net]:
    """The net that initializes the model, and that for training.

    With a loss, the latter has the backward pass, the optimizers, the regularizers and the modifiers that the
    model was given.
    """
    init_net, net = generate_training_nets_forward_only(model, include_tags)
    model.apply_regularizers_on_loss(net, init_net)
    if not model.has_loss():
        return init_net, net
    grad_map = net.AddGradientOperators(model.loss.field_blobs())
    separate_gradients(net, model.param_to_optim, grad_map)
    model.apply_post_grad_net_modifiers(net, init_net, grad_map, modify_output_record=True)
    model.apply_optimizers(net, init_net, grad_map)
    model.apply_regularizers_after_optimizer(net, init_net, grad_map)
    model.apply_final_net_modifiers(net, init_net, grad_map, modify_output_record=True)
    return init_net, net
