"""What a model of layers reads and gives: features, outputs, metrics, losses."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from netgrad.caffe2.python import core, schema


class ModelRecords:
    """A model's part that keeps its records.

    Attributes:
        ad_hoc_plot_blobs: Blobs to be plotted.
        ad_hoc_diagnose_blobs_and_operations: Free for programs to use.
    """

    net: core.Net

    def _init_records(self, input_feature_schema: Any, trainer_extra_schema: Any, keep_blobs: bool) -> None:
        def record(given: Any) -> Any:
            return given.clone() if keep_blobs else schema.NewRecord(self.net, given)

        self._input_feature_schema = record(input_feature_schema)
        self._trainer_extra_schema = record(trainer_extra_schema)
        self._metrics_schema: Any = schema.Struct()
        self._output_schema: Any = None
        self._preproc_output_schema: Any = None
        self._loss: Any = None
        self._prediction: list[tuple[Any, float]] = []
        self._breakdown_map: dict[str, int] | None = None
        self._transfer_learning_blob_name_mappings: Any = None
        self.ad_hoc_diagnose_blobs_and_operations: list[Any] = []
        self.ad_hoc_plot_blobs: list[Any] = []

    @property
    def input_feature_schema(self) -> Any:
        """The features."""
        return self._input_feature_schema

    @property
    def trainer_extra_schema(self) -> Any:
        """What is read besides, in training and evaluation."""
        return self._trainer_extra_schema

    def add_trainer_extra_schema(self, trainer_extra_schema: Any) -> None:
        """Add fields to it."""
        self._trainer_extra_schema += schema.NewRecord(self.net, trainer_extra_schema)

    # ---- metrics -----------------------------------------------------------------------------------

    @property
    def metrics_schema(self) -> Any:
        """What training and evaluation give for metrics, besides the outputs."""
        return self._metrics_schema

    def add_metric_field(self, name: str, value: Any) -> None:
        """Add a field to it.

        Raises:
            AssertionError: There is one of that name.
        """
        assert name not in self._metrics_schema, f"there is a metric {name} already"
        self._metrics_schema = self._metrics_schema + schema.Struct((name, value))

    def filter_metrics_schema(self, white_set: Collection[str]) -> None:
        """Leave only columns of these names in it."""
        for name in self._metrics_schema.field_names():
            if name not in white_set:
                self._metrics_schema = self._metrics_schema - schema.Struct((name, schema.Scalar()))

    def add_ad_hoc_plot_blob(self, blob: Any, dtype: Any = None) -> None:
        """Add a blob to the metrics, and to those to be plotted."""
        assert isinstance(blob, str | core.BlobReference), (
            f"a blob is given by its name or a reference, not {blob!r}"
        )
        column = schema.Scalar(dtype or (float, (1,)), core.BlobReference(blob))
        self.add_metric_field(str(blob), column)
        self.ad_hoc_plot_blobs.append(blob)

    # ---- outputs -----------------------------------------------------------------------------------

    @property
    def output_schema(self) -> Any:
        """The outputs; set once, unless `clear_output_schema` is called."""
        assert self._output_schema is not None, "the model's output_schema has not been set"
        return self._output_schema

    @output_schema.setter
    def output_schema(self, value: Any) -> None:
        assert self._output_schema is None, "the model's output_schema is set once"
        self._output_schema = value

    def clear_output_schema(self) -> None:
        """Forget the outputs."""
        self._output_schema = None

    def add_output_schema(self, name: str, value: Any) -> None:
        """Add a field to the outputs.

        Raises:
            AssertionError: There is one of that name, or the field is neither a column nor a struct.
        """
        assert isinstance(value, schema.Scalar | schema.Struct), (
            f"the output {name} is a Scalar or Struct, not {value!r}"
        )
        known = schema.Struct() if self._output_schema is None else self._output_schema
        assert name not in known.fields, f"there is an output {name} already"
        self._output_schema = known + schema.Struct((name, value))

    @property
    def preproc_output_schema(self) -> Any:
        """What preprocessing gives; set once."""
        assert self._preproc_output_schema is not None, "preproc_output_schema has not been set"
        return self._preproc_output_schema

    @preproc_output_schema.setter
    def preproc_output_schema(self, value: Any) -> None:
        assert self._preproc_output_schema is None, "preproc_output_schema is set once"
        self._preproc_output_schema = value

    @property
    def prediction(self) -> list[tuple[Any, float]]:
        """Predictions and their weights."""
        assert self._prediction, "the model has no predictions"
        return self._prediction

    def add_prediction(self, prediction: Any, weight: float = 1.0) -> None:
        """Add one."""
        assert prediction is not None, "a prediction is a blob, not None"
        self._prediction.append((prediction, weight))

    # ---- losses ------------------------------------------------------------------------------------

    @property
    def loss(self) -> Any:
        """The losses, a column or a struct; set once, or added by `add_loss`."""
        assert self._loss is not None, "the model has no loss"
        return self._loss

    @loss.setter
    def loss(self, value: Any) -> None:
        assert self._loss is None, "the model's loss is set once; others are added by add_loss"
        self._loss = value

    def has_loss(self) -> bool:
        """Whether there is one."""
        return self._loss is not None

    def add_loss(self, loss: Any, name: str = "unnamed") -> None:
        """Add a loss, a column or a struct; its name gets a number if it is taken.

        Raises:
            AssertionError: It is something else.
        """
        assert isinstance(loss, schema.Scalar | schema.Struct), f"a loss is a Scalar or Struct, not {loss!r}"
        known = schema.Struct() if self._loss is None else self._loss
        if isinstance(known, schema.Scalar):
            known = schema.Struct(("unnamed", known))
        free, count = name, 0
        while free in known:
            free, count = f"{name}_auto_{count}", count + 1
        self._loss = known + schema.Struct((free, loss))

    # ---- other -------------------------------------------------------------------------------------

    @property
    def transfer_learning_blob_name_mappings(self) -> Any:
        """Names of blobs here to those in a model that parameters are taken from; None without one."""
        return self._transfer_learning_blob_name_mappings

    @transfer_learning_blob_name_mappings.setter
    def transfer_learning_blob_name_mappings(self, blob_name_mappings: Any) -> None:
        assert blob_name_mappings is not None, "names are mapped by a dictionary, not None"
        self._transfer_learning_blob_name_mappings = blob_name_mappings

    @property
    def breakdown_map(self) -> dict[str, int] | None:
        """Features that metrics are broken down by, and their numbers from 0 on."""
        return self._breakdown_map

    @breakdown_map.setter
    def breakdown_map(self, breakdown_map: dict[str, int]) -> None:
        assert isinstance(breakdown_map, dict), f"a dictionary is needed, not {breakdown_map!r}"
        assert all(isinstance(name, str) for name in breakdown_map), "features are named by texts"
        assert sorted(breakdown_map.values()) == list(range(len(breakdown_map))), (
            f"features are numbered from 0 on, not {sorted(breakdown_map.values())}"
        )
        self._breakdown_map = breakdown_map
