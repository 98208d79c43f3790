"""A column in parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class Split(ModelLayer):
    """Several columns of one, whose tensors are cut along an axis."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_splits: int = 1,
        axis: int = 1,
        name: str = "split",
        split: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column.
            num_splits: How many equal parts there are.
            axis: The axis, the batch being axis 0.
            name: Its name.
            split: The parts' sizes instead.
            **kwargs: See `ModelLayer`.

        Raises:
            AssertionError: The size along the axis is another one than that of the parts.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert axis >= 1, f"the batch is not split: axis is 1 or more, not {axis}"
        assert isinstance(input_record, schema.Scalar), f"a column is split, not {input_record!r}"
        dtype = input_record.field_type()
        assert len(dtype.shape) >= axis, f"axis {axis} is not in the shape {dtype.shape} of a row"
        size = dtype.shape[axis - 1]
        if split is None:
            assert size % num_splits == 0, f"{size} can't be split into {num_splits} equal parts"
            sizes = [size // num_splits] * num_splits
        else:
            assert size == sum(split), f"parts {list(split)} don't make {size}"
            sizes = list(split)
        self.axis = axis
        self.split = split
        self.output_schema = schema.Tuple(
            *[
                schema.Scalar(
                    (dtype.base, (*dtype.shape[: axis - 1], part, *dtype.shape[axis:])),
                    self.get_next_blob_reference(f"output_{at}"),
                )
                for at, part in enumerate(sizes)
            ]
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.Split(
            self.input_record.field_blobs(),
            self.output_schema.field_blobs(),
            split=self.split,
            axis=self.axis,
        )
