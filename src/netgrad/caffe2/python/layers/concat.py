"""Columns side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


def get_concatenated_feature_to_index(blobs_to_concat: Iterable[Any]) -> dict[Any, list[int]] | None:
    """Where features are once columns are side by side, as their metadata says; None if none does."""
    found: defaultdict[Any, list[int]] = defaultdict(list)
    start = 0
    for scalar in blobs_to_concat:
        specs = getattr(scalar.metadata, "feature_specs", None)
        places = getattr(specs, "feature_to_index", None)
        if isinstance(places, dict):
            for feature, indices in places.items():
                found[feature] += [start + index for index in indices]
        start += scalar.dtype.shape[0]
    return dict(found) or None


class Concat(ModelLayer):
    """One column of several, whose tensors are joined along an axis."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        axis: int = 1,
        add_axis: int = 0,
        name: str = "concat",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A struct of columns.
            axis: The axis, the batch being axis 0.
            add_axis: Whether the tensors get that axis first.
            name: Its name.
            **kwargs: See `ModelLayer`.

        Raises:
            AssertionError: A field is no column, or shapes don't agree.
        """
        super().__init__(model, name, input_record, **kwargs)
        self.axis = axis
        self.add_axis = add_axis
        assert not (axis == 0 and add_axis), "axis 0 is that of the batch, and is not added"
        assert isinstance(input_record, schema.Struct), (
            f"columns of a Struct are joined, not {input_record!r}"
        )
        shapes = []
        for field, scalar in input_record.fields.items():
            assert isinstance(scalar, schema.Scalar), f"the field {field} is no column, but {scalar!r}"
            shape = [int(dim) for dim in scalar.field_type().shape]
            if add_axis:
                shape.insert(axis - 1, 1)
            assert len(shape) >= axis, f"rows of {field} have the shape {shape}, which has no axis {axis}"
            shapes.append(shape)
        output = self.get_next_blob_reference("output")
        if axis == 0:
            self.output_schema = schema.from_blob_list(input_record[0], [output])
            return
        others = {(*shape[: axis - 1], *shape[axis:]) for shape in shapes}
        assert len(others) == 1, f"rows differ in other axes than the joined one: {shapes}"
        joined = [*shapes[0]]
        joined[axis - 1] = sum(shape[axis - 1] for shape in shapes)
        self.output_schema = schema.Scalar((np.float32, joined), output)
        places = get_concatenated_feature_to_index(input_record.fields.values())
        if places:
            specs = schema.FeatureSpec(feature_to_index=places)
            self._output_schema.set_metadata(schema.Metadata(feature_specs=specs))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        output = self.output_schema.field_blobs()[0]
        net.Concat(
            self.input_record.field_blobs(),
            [output, output + "_concat_dims"],
            axis=self.axis,
            add_axis=self.add_axis,
        )
