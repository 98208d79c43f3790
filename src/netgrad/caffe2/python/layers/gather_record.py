"""Examples of a record, chosen by their numbers."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class GatherRecord(ModelLayer):
    """The examples of ``record`` that ``indices`` says, in its order; lists go with all their values."""

    def __init__(self, model: Any, input_record: Any, name: str = "gather_record", **kwargs: Any) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The fields ``indices``, a column of integers, and ``record``.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        for field in ("indices", "record"):
            assert field in input_record, f"the field {field} is needed"
        self._indices = input_record.indices()
        self.output_schema = schema.NewRecord(model.net, input_record.record.clone_schema())

    def _gather(self, net: Any, record: Any, lengths: Any, output: Any) -> None:
        """Add the operators for a field.

        Args:
            net: The net.
            record: The field.
            lengths: How many of its values each example has; None for one.
            output: The field that is written.
        """
        if isinstance(record, schema.Scalar):
            if lengths is None:
                net.Gather([record(), self._indices], output())
            else:
                net.LengthsGather([record(), lengths, self._indices], output())
        elif isinstance(record, schema.Struct):
            for name, field in record.get_children():
                self._gather(net, field, lengths, output[name])
        elif isinstance(record, schema.List):
            self._gather(net, record.lengths, lengths, output.lengths)
            inner = record.lengths()
            if lengths is not None:
                inner = self._sums(net, inner, lengths)
            self._gather(net, record["values"], inner, output["values"])
        else:
            raise NotImplementedError(f"examples are not gathered of a {type(record).__name__}")

    def _sums(self, net: Any, inner: Any, lengths: Any) -> Any:
        """Add what sums the lengths of inner lists; the operator for it takes floats only."""
        as_floats = net.Cast(inner, net.NextScopedBlob(f"{inner}_float"), to=core.DataType.FLOAT)
        sums = net.LengthsSum([as_floats, lengths], net.NextScopedBlob(f"{inner}_nested_float"))
        return net.Cast(sums, net.NextScopedBlob(f"{inner}_nested"), to=core.DataType.INT32)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        self._gather(net, self.input_record.record, None, self.output_schema)
