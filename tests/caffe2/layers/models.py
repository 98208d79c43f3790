"""Models of layers for tests: made, fed and run."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import layer_model_instantiator, schema, workspace
from netgrad.caffe2.python.layer_model_helper import LayerModelHelper

RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> Any:
    """Normal float32 values."""
    return RANDOM.normal(size=shape).astype(np.float32)


def model(extra: Any = None) -> LayerModelHelper:
    """A model without features."""
    return LayerModelHelper("m", schema.Struct(), extra or schema.Struct())


def fed(made: LayerModelHelper, **columns: Any) -> Any:
    """A record of the model with these columns, fed; each has the type and shape of its rows."""
    record = schema.NewRecord(
        made.net,
        schema.Struct(
            *[(name, schema.Scalar((array.dtype, array.shape[1:]))) for name, array in columns.items()]
        ),
    )
    schema.FeedRecord(record, list(columns.values()))
    return record


def lists(made: LayerModelHelper, ids: Any, lengths: Any, scores: Any = None, limit: int = 10) -> Any:
    """A record of lists of ids, with scores if given, fed."""
    keys = schema.Scalar(np.int64, metadata=schema.Metadata(categorical_limit=limit))
    kind = schema.List(keys) if scores is None else schema.Map(keys, np.float32)
    record = schema.NewRecord(made.net, kind)
    values = [np.array(ids, np.int64), *([] if scores is None else [np.array(scores, np.float32)])]
    schema.FeedRecord(record, [np.array(lengths, np.int32), *values])
    return record


def train(made: LayerModelHelper) -> Any:
    """Run the nets that initialize and train the model once; the latter."""
    if made._output_schema is None:
        made.output_schema = schema.Struct()
    init_net, net = layer_model_instantiator.generate_training_nets(made)
    workspace.RunNetOnce(init_net)
    workspace.CreateNet(net, overwrite=True)
    workspace.RunNet(net)
    return net


def value(column: Any) -> Any:
    """What a column holds."""
    return workspace.FetchBlob(column())


def types(net: Any) -> list[str]:
    """The operators' types."""
    return [op.type for op in net.Proto().op]
