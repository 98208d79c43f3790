"""Records that depend on what a net is for."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import InstantiationContext, ModelLayer


class SelectRecordByContext(ModelLayer):
    """One of several records of one schema: that of the net's kind."""

    def __init__(
        self,
        model: Any,
        input_record: Any,
        name: str = "select_record_by_context",
        check_field_metas: bool = True,
        use_copy: bool = False,
        default_output_record_field: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The records, by values of `InstantiationContext`.
            name: Its name.
            check_field_metas: Whether what is known of their columns has to be the same, too.
            use_copy: Whether blobs are copied; else the output's are other names for them.
            default_output_record_field: The record for kinds that have none.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert isinstance(input_record, schema.Struct), f"the layer {name} does not take {input_record!r}"
        records = list(input_record)
        assert len(records) > 1, "there is nothing to select from"
        for record in records:
            assert schema.equal_schemas(record, records[0], check_field_metas=check_field_metas), (
                f"records have different schemas: {records[0]!r} and {record!r}"
            )
        self.use_copy = use_copy
        default = default_output_record_field
        self.default_output_record = None if default is None else input_record[default]
        self.output_schema = schema.NewRecord(model.net, records[0])

    def _set_output_blobs(self, net: Any, context: str) -> None:
        record = self.input_record.get(context, self.default_output_record)
        assert record is not None, (
            f"there is no record for the context {context}, and no default_output_record_field"
        )
        write = net.Copy if self.use_copy else net.Alias
        for given, output in zip(record.field_blobs(), self.output_schema.field_blobs(), strict=True):
            write(given, output)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self._set_output_blobs(net, InstantiationContext.PREDICTION)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators for evaluation."""
        self._set_output_blobs(net, InstantiationContext.EVAL)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._set_output_blobs(net, InstantiationContext.TRAINING)

    def add_ops_to_accumulate_pred(self, net: Any) -> None:
        """Add the operators for predictions that are collected."""
        self._set_output_blobs(net, InstantiationContext.ACCUMULATE_PRED)
