"""Semi-random features (Kawaguchi, Xie and Song, arXiv:1702.08882)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.arc_cosine_feature_map import ArcCosineFeatureMap
from netgrad.caffe2.python.layers.losses import needs_fields


class SemiRandomFeatures(ArcCosineFeatureMap):
    """Random features, and their product with trained ones, as the fields ``random`` and ``full``."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        output_dims: int,
        s: int = 1,
        scale_random: float = 1.0,
        scale_learned: float = 1.0,
        weight_init_random: Any = None,
        bias_init_random: Any = None,
        weight_init_learned: Any = None,
        bias_init_learned: Any = None,
        weight_optim: Any = None,
        bias_optim: Any = None,
        set_weight_as_global_constant: bool = False,
        name: str = "semi_random_features",
        **kwargs: Any,
    ) -> None:
        """Make the layer; see `ArcCosineFeatureMap`.

        Args:
            model: The model.
            input_record: A column of vectors, or what another such layer gives: ``full`` is what trained
                features are of, ``random`` what random ones are of.
            output_dims: The number of features.
            s: The power of the random ones.
            scale_random: Factor of their standard deviation.
            scale_learned: Likewise, of the trained ones.
            weight_init_random: How the random weights are drawn.
            bias_init_random: Likewise.
            weight_init_learned: How the trained weights start.
            bias_init_learned: Likewise.
            weight_optim: Optimizer of the trained weights.
            bias_optim: Likewise.
            set_weight_as_global_constant: Whether the random ones are constants of the model.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        if isinstance(input_record, schema.Struct):
            needs_fields(input_record, ("full", schema.Scalar()), ("random", schema.Scalar()))
            self.input_record_full, self.input_record_random = input_record.full, input_record.random
        else:
            assert isinstance(input_record, schema.Scalar), f"the layer {name} does not take {input_record!r}"
            self.input_record_full = self.input_record_random = input_record
        super().__init__(
            model,
            self.input_record_full,
            output_dims,
            s=s,
            scale=scale_random,
            weight_init=weight_init_random,
            bias_init=bias_init_random,
            set_weight_as_global_constant=set_weight_as_global_constant,
            initialize_output_schema=False,
            name=name,
            **kwargs,
        )
        self.output_schema = schema.Struct(
            *[
                (
                    field,
                    schema.Scalar(
                        (np.float32, (output_dims,)), model.net.NextScopedBlob(f"{name}_{field}_output")
                    ),
                )
                for field in ("full", "random")
            ]
        )
        assert scale_learned > 0.0, f"scale_learned is positive, not {scale_learned}"
        self.stddev = scale_learned * math.sqrt(1.0 / self.input_dims)
        self.learned_w, self.learned_b = self._initialize_params(
            "learned_w", "learned_b", weight_init_learned, bias_init_learned, weight_optim, bias_optim
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        learned = net.FC(
            [*self.input_record_full.field_blobs(), self.learned_w, self.learned_b],
            net.NextScopedBlob("learned_features"),
        )
        random = net.FC(
            [*self.input_record_random.field_blobs(), self.random_w, self.random_b],
            net.NextScopedBlob("random_features"),
        )
        processed = self._heaviside_with_power(net, random, self.output_schema.random.field_blobs(), self.s)
        net.Mul([processed, learned], self.output_schema.full.field_blobs())
