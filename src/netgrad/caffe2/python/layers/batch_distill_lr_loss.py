"""The loss of logistic regression that also learns from another model."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer
from netgrad.caffe2.python.layers.losses import needs_fields, weighted
from netgrad.caffe2.python.layers.tags import Tags


class BatchDistillLRLoss(ModelLayer):
    """A mean of two cross entropies of sigmoids: to the labels, and to what a teacher has predicted."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "batch_distill_lr_loss",
        teacher_weight: float = 0.0,
        filter_invalid_teacher_label: bool = False,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The columns ``label``, ``teacher_label`` and ``logit``; ``weight``, if examples have
                one.
            name: Its name.
            teacher_weight: The share of the teacher, from 0 to 1.
            filter_invalid_teacher_label: Whether the teacher has no share in examples for which it says 0.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert 0 <= teacher_weight <= 1, f"teacher_weight is from 0 to 1, not {teacher_weight}"
        needs_fields(
            input_record,
            ("teacher_label", schema.Scalar()),
            ("label", schema.Scalar()),
            ("logit", schema.Scalar()),
        )
        self._teacher_weight = teacher_weight
        self._filters = filter_invalid_teacher_label
        if self._filters:
            self._zero = model.add_global_constant(
                str(model.net.NextScopedBlob("threshold")), [0.0], dtype=np.float32
            )
        self.tags.add(Tags.EXCLUDE_FROM_PREDICTION)
        self.output_schema = schema.Scalar(np.float32, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        record = self.input_record
        label = self._column(net, record.label, "label")
        teacher = self._column(net, record.teacher_label, "teacher_label")
        entropy, from_teacher = (
            net.SigmoidCrossEntropyWithLogits([record.logit(), target], net.NextScopedBlob(name))
            for target, name in ((label, "cross_entropy"), (teacher, "teacher_cross_entropy"))
        )
        if self._filters:
            share = self._share(net, teacher)
            rest = net.Scale(share, net.NextScopedBlob("negated_share"), scale=-1.0)
            rest = net.Add(
                [rest, self.model.global_constants["ONE"]], net.NextScopedBlob("share_of_label"), broadcast=1
            )
            entropy = net.Mul([entropy, rest], net.NextScopedBlob("scaled_cross_entropy"))
            from_teacher = net.Mul([from_teacher, share], net.NextScopedBlob("scaled_teacher_cross_entropy"))
        else:
            entropy = net.Scale(
                entropy, net.NextScopedBlob("scaled_cross_entropy"), scale=1.0 - self._teacher_weight
            )
            from_teacher = net.Scale(
                from_teacher,
                net.NextScopedBlob("scaled_teacher_cross_entropy"),
                scale=float(self._teacher_weight),
            )
        losses = [
            net.AveragedLoss(
                weighted(net, record, one, f"weighted_xent_{name}"), net.NextScopedBlob(f"{name}_loss")
            )
            for one, name in ((entropy, "label"), (from_teacher, "teacher"))
        ]
        net.Add(losses, self.output_schema.field_blobs())

    def _column(self, net: Any, field: Any, name: str) -> Any:
        """Labels as a column of floats."""
        blob = field()
        if field.field_type().base != np.float32:
            blob = net.Cast(blob, net.NextScopedBlob(f"float_{name}"), to=core.DataType.FLOAT)
        return net.ExpandDims(blob, net.NextScopedBlob(f"expanded_{name}"), dims=[1])

    def _share(self, net: Any, teacher: Any) -> Any:
        """The teacher's share in each example: none where it says 0."""
        said = net.Squeeze(teacher, net.NextScopedBlob("squeezed_teacher_label"), dims=[1])
        kept, dropped = (
            net.ConstantFill([said], net.NextScopedBlob(name), value=value, dtype=core.DataType.FLOAT)
            for name, value in (("keep_weights", float(self._teacher_weight)), ("zero_weights", 0.0))
        )
        says = net.GT([said, self._zero], net.NextScopedBlob("judge"), broadcast=1)
        return net.Conditional([says, kept, dropped], net.NextScopedBlob("screened_teacher_weights"))
