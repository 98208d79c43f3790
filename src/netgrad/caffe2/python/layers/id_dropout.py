"""What layers have in common that put another value for ids at random."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.layers import IdList, ModelLayer


class IdDropout(ModelLayer):
    """Lists of ids with another value in places, by a probability for each kind of net."""

    _is_base = True  # no layer itself
    _operator: str
    _usual_name: str

    def __init__(
        self,
        model: Any,
        input_record: Any,
        dropout_prob_train: float,
        dropout_prob_eval: float,
        dropout_prob_predict: float,
        replacement_value: int,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Make the layer.

        Args:
            model: The model.
            input_record: Lists of ids.
            dropout_prob_train: The probability in training.
            dropout_prob_eval: Likewise, in evaluation.
            dropout_prob_predict: Likewise, for predictions.
            replacement_value: The value.
            name: Its name; None for the usual one of such layers.
            **kwargs: See `ModelLayer`.
        """
        super().__init__(model, name or self._usual_name, input_record, **kwargs)
        assert schema.equal_schemas(input_record, IdList), (
            f"the layer {self.name} does not take {input_record!r}"
        )
        self.dropout_prob_train = float(dropout_prob_train)
        self.dropout_prob_eval = float(dropout_prob_eval)
        self.dropout_prob_predict = float(dropout_prob_predict)
        self.replacement_value = int(replacement_value)
        ratios = {kind: getattr(self, f"dropout_prob_{kind}") for kind in ("train", "eval", "predict")}
        for kind, ratio in ratios.items():
            assert 0 <= ratio <= 1, f"dropout_prob_{kind} is from 0 to 1, not {ratio}"
        assert any(ratios.values()), "nothing is ever dropped: all three probabilities are 0"
        output = schema.NewRecord(model.net, IdList)
        for given, new in ((input_record.lengths, output.lengths), (input_record.items, output.items)):
            if given.metadata:
                new.set_metadata(given.metadata)
        self.output_schema = output

    def _add_ops(self, net: Any, ratio: float) -> None:
        record, output = self.input_record, self.output_schema
        getattr(net, self._operator)(
            [record.items(), record.lengths()],
            [output.items(), output.lengths()],
            ratio=ratio,
            replacement_value=self.replacement_value,
        )

    def add_train_ops(self, net: Any) -> None:
        """Add the operators for training."""
        self._add_ops(net, self.dropout_prob_train)

    def add_eval_ops(self, net: Any) -> None:
        """Add the operators for evaluation."""
        self._add_ops(net, self.dropout_prob_eval)

    def add_ops(self, net: Any) -> None:
        """Add the operators for predictions."""
        self._add_ops(net, self.dropout_prob_predict)
