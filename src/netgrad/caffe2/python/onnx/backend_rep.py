"""A model that is ready to run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx.backend.base import BackendRep, namedtupledict

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python.onnx.workspace import Workspace


class Caffe2Rep(BackendRep):
    """A pair of nets in a workspace of its own.

    Attributes:
        init_net: The net that writes the parameters.
        predict_net: The net that predicts.
        workspace: Where they run.
        uninitialized: The blobs that are fed at each run, in order.
    """

    def __init__(
        self, init_net: NetDef, predict_net: NetDef, workspace: Workspace, uninitialized: Sequence[str]
    ) -> None:
        self.init_net = init_net
        self.predict_net = predict_net
        self.workspace = workspace
        self.uninitialized = list(uninitialized)
        self._created = False

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model once.

        Args:
            inputs: An array by the name of each input, or a list of arrays in the order of the inputs, or the
                array of the only input.
            **kwargs: What other backends take; it makes no difference.

        Returns:
            A named tuple of the outputs; ``[name]`` takes names that are no words of Python.

        Raises:
            RuntimeError: An input is missing, or there are more than the model has.
        """
        for name, array in self._named(inputs).items():
            self.workspace.FeedBlob(name, array)
        if not self._created:
            self.workspace.CreateNet(self.predict_net)
            self._created = True
        self.workspace.RunNet(self.predict_net.name)
        names = list(self.predict_net.external_output)
        outputs: Any = namedtupledict("Outputs", names)
        return outputs(*(self.workspace.FetchBlob(name) for name in names))

    def _named(self, inputs: Any) -> dict[str, Any]:
        if isinstance(inputs, dict):
            missing = [name for name in self.uninitialized if name not in inputs]
            if missing and not self._created:
                raise RuntimeError(f"no value was given for the inputs {', '.join(missing)}")
            return inputs
        listed = list(inputs) if isinstance(inputs, list | tuple) else [np.asarray(inputs)]
        if len(listed) != len(self.uninitialized):
            raise RuntimeError(
                f"Expected {len(self.uninitialized)} values for uninitialized graph inputs "
                f"({', '.join(self.uninitialized)}), but got {len(listed)}."
            )
        return dict(zip(self.uninitialized, listed, strict=True))
