"""Weights by buckets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer, get_categorical_limit
from netgrad.caffe2.python.layers.tags import Tags


class BucketWeighted(ModelLayer):
    """Gives each score of a list the trained weight of its bucket, as the field ``bucket_weights``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        max_score: int = 0,
        bucket_boundaries: Sequence[float] | None = None,
        hash_buckets: bool = True,
        weight_optim: Any = None,
        name: str = "bucket_weighted",
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Lists of ids with scores.
            max_score: How many weights there are, if buckets have no bounds; 0 for the limit of ids.
            bucket_boundaries: The bounds of buckets, in order; without them scores are cast to integers.
            hash_buckets: Whether buckets are hashed before a weight is looked up.
            weight_optim: Optimizer of the weights; None for the model's.
            name: The layer's name.
        """
        super().__init__(model, name, input_record)
        assert isinstance(input_record, schema.List), f"the layer {name} does not take {input_record!r}"
        self.bucket_boundaries = bucket_boundaries
        self.hash_buckets = hash_buckets
        if bucket_boundaries is not None:
            self.shape = len(bucket_boundaries) + 1
        else:
            self.shape = max_score if max_score > 0 else get_categorical_limit(input_record)
        self.bucket_w = self.create_param(
            param_name="bucket_w",
            shape=[self.shape],
            initializer=("ConstantFill", {"value": 1.0}),
            optimizer=weight_optim,
        )
        weights = schema.Scalar((np.float32, self.shape), self.get_next_blob_reference("bucket_w_gather"))
        self.output_schema = schema.Struct(("bucket_weights", weights))
        self.tags.add(Tags.HANDLE_AS_SPARSE_LAYER)

    def get_memory_usage(self) -> int:
        """How many weights there are."""
        return self.shape

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        scores = self.input_record.values()
        if self.bucket_boundaries is not None:
            buckets = net.Bucketize(scores, "buckets_int", boundaries=self.bucket_boundaries)
        else:
            buckets = net.Cast(scores, "buckets_int", to=core.DataType.INT32)
        if self.hash_buckets:
            buckets = net.IndexHash(buckets, "hashed_buckets_int", seed=0, modulo=self.shape)
        net.Gather([self.bucket_w, buckets], self.output_schema.bucket_weights.field_blobs())
