"""A pair of nets as one object that predicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.net import CreatedNet
from netgrad.caffe2.running.workspace import Workspace, message_of


class Predictor:
    """A net with the parameters that another net writes, in a workspace of its own."""

    def __init__(self, init_net: Any, predict_net: Any) -> None:
        """Run ``init_net`` and create ``predict_net``, each given as object, message or serialized bytes.

        Raises:
            RunError: One of them can't run or be created.
        """
        self._workspace = Workspace()
        self._workspace.run(message_of(init_net, NetDef))
        predict: NetDef = message_of(predict_net, NetDef)
        parameters = set(self._workspace.names())
        self._inputs = [blob for blob in predict.external_input if blob not in parameters]
        for blob in predict.external_input:
            self._workspace.create_blob(blob)
        self._outputs = list(predict.external_output)
        self._net = CreatedNet(predict, self._workspace)
        if not self._inputs:  # an init net may write stand-ins for the data
            self._inputs = list(predict.external_input)

    def run(self, inputs: Mapping[Any, Any] | Sequence[Any]) -> list[Any]:
        """Predict.

        Args:
            inputs: Arrays by blob, or in the order of the net's inputs.

        Returns:
            The net's external outputs in order.

        Raises:
            RunError: There are more arrays than inputs, a blob is unknown, or the net can't run.
        """
        if isinstance(inputs, Mapping):
            given = {str(name): array for name, array in inputs.items()}
            unknown = [name for name in given if name not in self._net.definition.external_input]
            if unknown:
                raise RunError(
                    f"the net has no inputs {', '.join(unknown)} "
                    f"(inputs: {', '.join(self._net.definition.external_input)})"
                )
        else:
            if len(inputs) > len(self._inputs):
                raise RunError(f"{len(inputs)} arrays for the {len(self._inputs)} inputs {self._inputs}")
            given = dict(zip(self._inputs, inputs, strict=False))
        for name, array in given.items():
            self._workspace.feed_blob(name, array)
        self._net.run()
        return [self._workspace.fetch_blob(name) for name in self._outputs]
