"""What layers have in common that collect examples over iterations."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.layers import ModelLayer


class Collector(ModelLayer):
    """A layer with state: a mutex, the number of examples seen, and the examples, which grow from none."""

    _is_base = True  # no layer itself

    def _state(self, name: str, dtype: int | None = None, shape: Any = ()) -> Any:
        """A blob of zeros that the operators change."""
        arguments = {} if dtype is None else {"value": 0, "dtype": dtype}
        return self.create_param(
            param_name=name,
            shape=list(shape),
            initializer=("ConstantFill", arguments),
            optimizer=self.model.NoOptim,
        )

    def _make_mutex(self) -> None:
        self.mutex = self.create_param(
            param_name="mutex", shape=[], initializer=("CreateMutex",), optimizer=self.model.NoOptim
        )

    def _make_count(self) -> None:
        self.num_visited_blob = self._state("num_visited", core.DataType.INT64)

    def _output(self, field: str, record: Any, blob: Any) -> Any:
        return schema.Struct(
            (field, schema.from_blob_list(record, [blob])),
            ("num_visited", schema.Scalar(blob=self.num_visited_blob)),
            ("mutex", schema.Scalar(blob=self.mutex)),
        )
