"""Smoothed labels."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.label_smoothing import matrix_constants, rows_of_labels
from netgrad.caffe2.python.layers.layers import ModelLayer


class LabelSmooth(ModelLayer):
    """Replaces each label by the row of a matrix, or each of two classes by a number.

    Attributes:
        dim: How many numbers a smoothed label has.
        binary_prob_label: Whether there are two classes with a number each.
    """

    def __init__(
        self, model: Any, label: Any, smooth_matrix: Any, name: str = "label_smooth", **kwargs: Any
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            label: A column of classes.
            smooth_matrix: A square matrix; or two numbers, for labels up to 0.5 and for those above.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, label, **kwargs)
        self.label = label
        flat = np.array(smooth_matrix, np.float32).flatten()
        self.binary_prob_label = flat.size == 2
        if self.binary_prob_label:
            self.dim = 1
            self.smooth_matrix: Any = flat
        else:
            self.dim = math.isqrt(flat.size)
            assert self.dim**2 == flat.size, f"a square matrix is needed, not {flat.size} numbers"
            matrix = flat.reshape(self.dim, self.dim)
            self.smooth_matrix, self.len = matrix_constants(model, self.name, matrix, "label_smooth_matrix")
        self.output_schema = schema.Scalar(
            (np.float32, (self.dim,)), self.get_next_blob_reference("smoothed_label")
        )

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        if not self.binary_prob_label:
            rows_of_labels(net, self.label, self.len, self.smooth_matrix, self.output_schema())
            return
        label = self.label()
        if self.label.field_type().base != np.float32:
            label = net.Cast([label], [net.NextScopedBlob("float_label")], to=core.DataType.FLOAT)
        low, high = (float(number) for number in self.smooth_matrix)
        net.StumpFunc(label, self.output_schema(), threshold=0.5, low_value=low, high_value=high)
