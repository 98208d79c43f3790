"""Tables whose rows are looked up by ids, and pooled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.helpers.arg_scope import get_current_scope
from netgrad.caffe2.python.layers.layers import (
    IdListWithEvicted,
    IdScoreListWithEvicted,
    LayerPsParam,
    ModelLayer,
    get_categorical_limit,
    get_key,
)
from netgrad.caffe2.python.layers.lookup_versions import (
    VERSIONS,
    get_sparse_lookup_predictor_version,
    get_trainer_version_based_on_optim,
)
from netgrad.caffe2.python.layers.lookup_versions import (
    get_sparse_lookup_trainer_version as get_sparse_lookup_trainer_version,
)
from netgrad.caffe2.python.layers.records import is_id_list, is_id_score_list

_QUANTIZED = ("uint8rowwise", "fused_uint8rowwise", "fused_uint4rowwise")


class _Fused(NamedTuple):
    w: Any


class _WithScales(NamedTuple):
    w: Any
    scale_bias: Any


class SparseLookup(ModelLayer):
    """The rows of a trained table at the ids of a list, pooled for each example.

    Attributes:
        w: The table.
        scale_bias: Scale and offset of its rows, once they are in eight bits.
        reducer: How rows are pooled.
        shape: The table's shape.
    """

    _id_list_supported_reducers = (
        "LogMeanExp",
        "LogSumExp",
        "Max",
        "Mean",
        "Sum",
        "WeightedSum",
        "WeightedMean",
        "Sqrt",
        "None",
    )
    _id_score_list_supported_reducers = (
        "PositionWeighted",
        "RecencyWeighted",
        "Mean",
        "Sum",
        "WeightedSum",
        "WeightedMean",
        "None",
    )
    _fp16_compatible_init_op_types = ("Float16UniformFill",)
    _fp16_compatible_reducers = ("Sum", "Mean", "Sqrt", "PositionWeighted", "RecencyWeighted")

    def __init__(
        self,
        model: Any,
        input_record: Any,
        inner_shape: int | Sequence[int],
        reducer: str,
        weight_init: Any = None,
        weight_optim: Any = None,
        name: str = "sparse_lookup",
        regularizer: Any = None,
        use_external_weights: bool = False,
        uniform_weight_init_scale_numerator: float = 1.0,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Lists of ids with a limit, also with scores, or with a column of evicted ids, whose
                rows start anew in training.
            inner_shape: The shape of a row.
            reducer: ``Sum``, ``Mean``, ``Max``, ``LogSumExp``, ``LogMeanExp``, ``Sqrt`` (the sum over the
                root of the number), ``None`` (rows as they are); with scores ``WeightedSum``, and
                ``PositionWeighted`` and ``RecencyWeighted``, which train the scores too.
            weight_init: The operator that the table starts with, and its arguments.
            weight_optim: Its optimizer; None for the model's.
            name: Its name.
            regularizer: The table's regularizer.
            use_external_weights: Whether a sum is weighted by the scores, and trains them.
            uniform_weight_init_scale_numerator: See `initial_weights.uniform`.
            **kwargs: See `ModelLayer`.

        Raises:
            AssertionError: The reducer, the list and the precision that the optimizer needs don't agree.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.sparse_key = get_key(input_record)()
        row = [inner_shape] if isinstance(inner_shape, int) else list(inner_shape)
        self.reducer = reducer
        self.use_external_weights = use_external_weights
        if reducer in ("PositionWeighted", "RecencyWeighted") or use_external_weights:
            assert is_id_score_list(input_record), (
                f"{'external weights' if use_external_weights else reducer} need ids with scores, which "
                f"{self.sparse_key} has not; the layer PositionWeighted makes some"
            )
            self.external_weights = input_record.values()
        if use_external_weights and reducer not in ("PositionWeighted", "RecencyWeighted"):
            assert reducer in ("Sum", "WeightedSum"), (
                f"use_external_weights only supports the reducers Sum and WeightedSum, not {reducer}"
            )
        self.input_dim = get_categorical_limit(input_record)
        assert (self.input_dim or 0) > 0, (
            f"the table of {self.sparse_key} has a row per id, and its categorical_limit is {self.input_dim}"
        )
        self.shape = [self.input_dim, *row]
        self.trainer_version = get_trainer_version_based_on_optim(weight_optim)
        self.weight_init = weight_init or self._default_init(uniform_weight_init_scale_numerator)
        if self.trainer_version == "fp16":
            self._check_half_precision(regularizer)
        has_evicted = schema.equal_schemas(input_record, IdListWithEvicted) or schema.equal_schemas(
            input_record, IdScoreListWithEvicted, check_field_types=False
        )
        self.evicted_values = input_record._evicted_values if has_evicted else None
        lengths = input_record.lengths.metadata
        average = None if lengths is None else lengths.expected_value
        self.w = self.create_param(
            param_name="w",
            shape=self.shape,
            initializer=self.weight_init,
            optimizer=weight_optim,
            ps_param=LayerPsParam(sparse_key=self.sparse_key, average_length=average),
            regularizer=regularizer,
        )
        if has_evicted:
            self.reinit_vec = self.create_param(
                param_name="reinit_vec", shape=row, initializer=self.weight_init, optimizer=model.NoOptim
            )
        self.scale_bias = self.create_param(
            param_name="scale_bias",
            shape=[],
            initializer=("ConstantFill", {"value": 0.0}),
            optimizer=model.NoOptim,
        )
        self.output_schema = schema.Scalar((np.float32, row), self.get_next_blob_reference("output"))

    def _default_init(self, numerator: float) -> tuple[str, dict[str, float]]:
        scale = math.sqrt(numerator / self.input_dim)
        fill = "UniformFill" if self.trainer_version == "fp32" else "Float16UniformFill"
        return fill, {"min": -scale, "max": scale}

    def _check_half_precision(self, regularizer: Any) -> None:
        assert self.reducer in self._fp16_compatible_reducers or self.use_external_weights, (
            f"tables are trained in half precision with the reducers "
            f"{', '.join(self._fp16_compatible_reducers)}, not {self.reducer}"
        )
        if self.weight_init[0] == "UniformFill":
            self.weight_init = ("Float16UniformFill", self.weight_init[1])
        assert self.weight_init[0] in self._fp16_compatible_init_op_types, (
            f"tables of half precision start with {', '.join(self._fp16_compatible_init_op_types)}, "
            f"not {self.weight_init[0]}"
        )
        assert regularizer is None, "tables of half precision have no regularizer"

    # ---- what is known of it -----------------------------------------------------------------------

    def get_memory_usage(self) -> int:
        """The table's bytes, in float32."""
        return int(math.prod(self.shape)) * 4

    def get_fp16_compatible_parameters(self) -> list[Any]:
        """The table."""
        return [self.w]

    def support_8bit(self) -> bool:
        """Whether the table has rows of eight elements or more."""
        return len(self.shape) == 2 and self.shape[1] >= 8

    def get_8bits_compatible_parameters(self, fused: bool = True) -> list[Any]:
        """The table, and if it isn't ``fused`` the blob of scales; none if its rows are too short."""
        if not self.support_8bit():
            return []
        return [_Fused(self.w) if fused else _WithScales(self.w, self.scale_bias)]

    # ---- operators ---------------------------------------------------------------------------------

    def _gather(self, net: Any, version: str, ids: Any, output: Any) -> Any:
        """Add what gives a row for each id, as floats."""
        known = VERSIONS[version]
        if known.to_float is None:
            return net.Gather([self.w, ids], output)
        rows = [net.Gather([self.w, ids], "gathered_w")]
        if known.has_scales:
            rows.append(net.Gather([self.scale_bias, ids], "gathered_scale_bias"))
        return getattr(net, known.to_float)(rows, output)

    def _pool(self, net: Any, version: str, kind: str, inputs: Sequence[Any], **kwargs: Any) -> None:
        """Add ``SparseLengths<kind>`` in a precision."""
        known = VERSIONS[version]
        more = [self.scale_bias] if known.has_scales else []
        arguments = {} if known.suffix else kwargs
        operator = getattr(net, f"SparseLengths{kind}{known.suffix}")
        operator([self.w, *inputs, *more], self.output_schema.field_blobs(), **arguments)

    def _pool_weighted(
        self, net: Any, version: str, kind: str, ids: Any, weights: Any, trains_weights: bool = False
    ) -> None:
        is_half = version == "fp16" and kind == "WeightedSum"
        self._pool(
            net,
            version,
            kind,
            [weights, ids, self.input_record.lengths()],
            grad_on_weights=int(trains_weights),
            engine="FP16" if is_half else None,
        )

    def _add_ops_id_list(self, net: Any, version: str) -> None:
        assert self.reducer in self._id_list_supported_reducers, (
            f"rows for lists of ids, as {self.sparse_key}, are not pooled by {self.reducer}"
        )
        ids, lengths = self.input_record.items(), self.input_record.lengths()
        # Without scores every weight is 1.
        reducer = self.reducer.removeprefix("Weighted")
        if reducer in ("Sum", "Mean"):
            self._pool(net, version, reducer, [ids, lengths])
        elif reducer == "Sqrt":
            name = net.NextScopedBlob("root_of_lengths")
            weights = net.LengthsToWeights([lengths], [name], power=0.5)
            self._pool_weighted(net, version, "WeightedSum", ids, weights)
        elif reducer == "None":
            self._gather(net, version, ids, self.output_schema.field_blobs())
        else:
            rows = self._gather(net, version, ids, "table_rows")
            segments = net.LengthsToSegmentIds(lengths, net.NextScopedBlob(lengths + "_sid"))
            reduce = getattr(net, f"SortedSegmentRange{reducer}")
            reduce([rows, segments], self.output_schema.field_blobs())

    def _add_ops_id_score_list(self, net: Any, version: str) -> None:
        assert self.reducer in self._id_score_list_supported_reducers, (
            f"rows for ids with scores, as {self.sparse_key}, are not pooled by {self.reducer}"
        )
        ids = self.input_record.keys()
        if self.reducer in ("WeightedSum", "WeightedMean"):
            self._pool_weighted(net, version, self.reducer, ids, self.input_record.values())
        elif self.reducer in ("PositionWeighted", "RecencyWeighted") or self.use_external_weights:
            self._pool_weighted(net, version, "WeightedSum", ids, self.external_weights, trains_weights=True)
        elif self.reducer == "None":
            self._gather(net, version, ids, self.output_schema.field_blobs())
        else:
            self._pool(net, version, self.reducer, [ids, self.input_record.lengths()])

    def _add_ops(self, net: Any, version: str = "fp32", is_train: bool = True) -> None:
        if self.evicted_values is not None and is_train:
            net.CopyRowsToTensor([self.w, self.evicted_values.get(), self.reinit_vec], [self.w])
        add = self._add_ops_id_list if is_id_list(self.input_record) else self._add_ops_id_score_list
        add(net, version)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._add_ops(net, self.trainer_version, is_train=True)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions, in the precision that is in force."""
        in_force = get_current_scope().get(get_sparse_lookup_predictor_version.__name__, {})
        version = get_sparse_lookup_predictor_version(
            in_force.get("version", "fp32"),
            blob_size=math.prod(self.shape),
            min_blob_size_4bits=in_force.get("min_blob_size_4bits"),
            embedding_dim=self.shape[1],
            sparse_feature_name=self.sparse_key,
        )
        if version in _QUANTIZED and not self.support_8bit():
            version = "fp16"
        self._add_ops(net, version, is_train=False)
