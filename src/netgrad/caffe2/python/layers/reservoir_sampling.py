"""A sample of all examples so far."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.layers.collected import Collector


class ReservoirSampling(Collector):
    """Collects examples so that each one so far is kept with the same probability.

    Those of several columns are packed before (see ``PackRecords``). The output has the fields ``reservoir``,
    ``num_visited`` and ``mutex``.
    """

    def __init__(
        self,
        model: Any,
        input_record: Any,
        num_to_collect: int,
        name: str = "reservoir_sampling",
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: The column ``data``; and ``object_id``, if those of one number are one example, of
                which the last one is kept.
            num_to_collect: How many examples are kept.
            name: Its name.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name, input_record, **kwargs)
        assert num_to_collect > 0, f"num_to_collect has to be positive, not {num_to_collect}"
        self.num_to_collect = num_to_collect
        self.reservoir = self._state("reservoir", shape=[0])
        self._make_count()
        self._make_mutex()
        self.extra_input_blobs: list[Any] = []
        self.extra_output_blobs: list[Any] = []
        if "object_id" in input_record:
            kinds = {"key_dtype": core.DataType.INT64, "valued_dtype": core.DataType.INT32}
            places = self.create_param(
                param_name="object_to_pos",
                shape=None,
                initializer=("CreateMap", kinds),
                optimizer=model.NoOptim,
            )
            objects = self._state("pos_to_object", core.DataType.INT64, shape=[0])
            self.extra_input_blobs = [input_record.object_id(), places, objects]
            self.extra_output_blobs = [places, objects]
        self.output_schema = self._output("reservoir", input_record.data, self.reservoir)

    def add_ops(self, net: Any) -> None:
        """Add the operators."""
        state = [self.reservoir, self.num_visited_blob]
        net.ReservoirSampling(
            [*state, self.input_record.data(), self.mutex, *self.extra_input_blobs],
            [*state, *self.extra_output_blobs],
            num_to_collect=self.num_to_collect,
        )
