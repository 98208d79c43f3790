"""What losses have in common: labels of the predictions' type, and weights of examples."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema


def label_like_prediction(net: Any, record: Any) -> Any:
    """The blob of ``record.label``, cast to the type of ``record.prediction`` if that is another one."""
    wanted = record.prediction.field_type()
    if record.label.field_type().base == wanted.base:
        return record.label()
    number = schema.data_type_for_dtype(wanted)
    return net.Cast(record.label(), net.NextScopedBlob("cast_label"), to=number)


def weight_of(net: Any, record: Any) -> Any:
    """The blob of ``record.weight``, as float32."""
    blob = record.weight()
    if record.weight.field_type().base == np.float32:
        return blob
    return net.Cast(blob, blob + "_float32", to=core.DataType.FLOAT)


def weighted(net: Any, record: Any, loss: Any, name: str) -> Any:
    """``loss`` times ``record.weight``, through which no gradient goes; as it is if the record has none."""
    if "weight" not in record.fields:
        return loss
    weight = net.StopGradient([weight_of(net, record)], [net.NextScopedBlob("weight_stop_gradient")])
    return net.Mul([loss, weight], net.NextScopedBlob(name))


def needs_fields(record: Any, *fields: tuple[str, Any]) -> None:
    """Check that a record has fields.

    Raises:
        AssertionError: It lacks one.
    """
    needed = schema.Struct(*fields)
    assert schema.is_schema_subset(needed, record), (
        f"fields {', '.join(needed.field_names())} are needed, not {', '.join(record.field_names())}"
    )
