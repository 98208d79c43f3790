"""Features in maps by id, as dense tensors."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import AccessedFeatures, ModelLayer

# What a feature of each kind has besides the range of its values: output column, type, the column it is of.
_LISTS: dict[str, tuple[tuple[str, Any, str], ...]] = {
    "ID_LIST": (("values", np.int64, "items"),),
    "ID_SCORE_LIST": (("ids", np.int64, "keys"), ("scores", np.float32, "values")),
    "EMBEDDING": (("values", np.float32, "items"),),
}
_RANGES = {
    "ID_LIST": "id_list_ranges",
    "ID_SCORE_LIST": "id_score_list_ranges",
    "EMBEDDING": "embeddings_ranges",
}


class FeatureSparseToDense(ModelLayer):
    """Chosen features of maps from id to feature, in order.

    Floats become one tensor; lists the fields ``ranges``, the first value and the number of values of each
    feature, and their values. What an example has not is ``default_dense_value``, or an empty range.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        input_specs: Sequence[tuple[str, Any]],
        name: str = "feature_sparse_to_dense",
        default_dense_value: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A struct of maps.
            input_specs: Pairs of a field and a `netgrad.caffe2.python.schema.FeatureSpec`, which says its
                kind (``FLOAT``, ``ID_LIST``, ``ID_SCORE_LIST``, ``EMBEDDING``), names and ids.
            name: Its name.
            default_dense_value: 0 or NaN; 0 if None.
            **kwargs: See `ModelLayer`.

        Raises:
            TypeError: There is no such kind.
        """
        super().__init__(model, name, input_record, **kwargs)
        default = float(default_dense_value or 0.0)
        assert math.isnan(default) or default == 0.0, f"missing values are 0 or NaN, not {default}"
        self.input_specs = input_specs
        self.default_float_value = model.global_constants["NAN" if math.isnan(default) else "ZERO"]
        self.zero_range = model.global_constants["ZERO_RANGE"]
        self.output_schema = schema.Struct(
            *[(field, self._columns(field, specs)) for field, specs in input_specs]
        )
        for field, specs in input_specs:
            schema.attach_metadata_to_scalars(
                self._output_schema[field], schema.Metadata(feature_specs=specs)
            )

    def _columns(self, field: str, specs: Any) -> Any:
        count = len(specs.feature_ids)
        assert len(specs.feature_names) == count, (
            f"{field} has {len(specs.feature_names)} names for {count} ids"
        )

        def column(dtype: Any, name: str) -> Any:
            return schema.Scalar(dtype, self.get_next_blob_reference(f"{field}_{name}"))

        if specs.feature_type == "FLOAT":
            return column((np.float32, (count,)), "output")
        if specs.feature_type not in _LISTS:
            raise TypeError(f"Unsupported input type: {specs.feature_type}, not FLOAT, {', '.join(_LISTS)}")
        values = [(name, column(dtype, name)) for name, dtype, _ in _LISTS[specs.feature_type]]
        return schema.Struct(("ranges", column((np.int32, (count, 2)), "ranges")), *values)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        for field, specs in self.input_specs:
            features, output = self.input_record[field], self.output_schema[field]
            if specs.feature_type == "FLOAT":
                given, default, written = features.values(), self.default_float_value, output()
            else:
                name = net.NextScopedBlob(_RANGES[specs.feature_type])
                given = net.LengthsToRanges(features.values.lengths(), name)
                default, written = self.zero_range, output.ranges()
            net.SparseToDenseMask(
                [features.keys(), given, default, features.lengths()], [written], mask=specs.feature_ids
            )
            for name, _, of in _LISTS.get(specs.feature_type, ()):
                net.Alias(getattr(features.values, of)(), output[name]())

    def get_metadata(self) -> list[Any]:
        """For each field what its features are, and the blobs and types of its columns."""
        found = []
        for field, specs in self.input_specs:
            known: dict[str, Any] = {
                "type": specs.feature_type,
                "names": specs.feature_names,
                "ids": specs.feature_ids,
            }
            if specs.feature_type == "FLOAT":
                known["cardinality"] = 1
            output = self.output_schema[field]
            found.append((known, output.field_blobs(), output.field_types()))
        return found

    def get_accessed_features(self) -> dict[str, Any]:
        """Field to the features that it reads of it."""
        found: defaultdict[str, Any] = defaultdict(list)
        for field, specs in self.input_specs:
            found[field].append(AccessedFeatures(specs.feature_type, set(specs.feature_ids)))
        return found
