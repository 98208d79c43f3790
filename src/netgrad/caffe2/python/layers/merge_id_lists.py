"""Lists of ids in one."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import IdList, ModelLayer, get_categorical_limit


class MergeIdLists(ModelLayer):
    """One list of the different ids of several ones, for each example."""

    def __init__(self, model: Any, input_record: Any, name: str = "merged") -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A struct of lists of ids, each with a limit.
            name: Its name.
        """
        super().__init__(model, name, input_record)
        records = list(input_record)
        assert all(schema.equal_schemas(one, IdList) for one in records), (
            "only lists of ids without scores are merged"
        )
        assert all(one.items.metadata is not None for one in records), (
            "a list has no metadata, which says what its ids are below"
        )
        limits = [get_categorical_limit(one) for one in records]
        assert None not in limits, "a list has no categorical_limit, and the merged one needs it"
        items = schema.Scalar(
            np.int64,
            blob=model.net.NextBlob(name),
            metadata=schema.Metadata(categorical_limit=max(limits)),
        )
        self.output_schema = schema.NewRecord(model.net, schema.List(items))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.MergeIdLists(self.input_record.field_blobs(), self.output_schema.field_blobs())
