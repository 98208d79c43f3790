"""The last examples."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core, schema
from netgrad.caffe2.python.layers.collected import Collector


class LastNWindowCollector(Collector):
    """Collects the last examples; packed ones, if they have several columns (see ``PackRecords``).

    The output has the fields ``last_n``, ``num_visited`` and ``mutex``.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_to_collect: int,
        name: str = "last_n_window_collector",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: A column.
            num_to_collect: How many examples are kept.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert num_to_collect > 0, f"num_to_collect has to be positive, not {num_to_collect}"
        assert isinstance(input_record, schema.Scalar), f"Got {input_record!r}"
        self.num_to_collect = num_to_collect
        self.last_n = self._state("last_n", shape=[0])
        self.next_blob = self._state("next", core.DataType.INT32)
        self._make_mutex()
        self._make_count()
        self.output_schema = self._output("last_n", input_record, self.last_n)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        net.LastNWindowCollector(
            [self.last_n, self.next_blob, self.input_record(), self.mutex, self.num_visited_blob],
            [self.last_n, self.next_blob, self.num_visited_blob],
            num_to_collect=self.num_to_collect,
        )
