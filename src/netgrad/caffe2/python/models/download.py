"""Models that were saved: the original's store of them is gone, and they are read from folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.load import read_net


class ModelDownloader:
    """Finds saved models in a folder: ``<folder>/<name>/init_net.pb`` and ``predict_net.pb``."""

    def __init__(self, model_env_name: str = "CAFFE2_MODELS") -> None:
        """Take the folder from the environment.

        Args:
            model_env_name: The variable that names it; without the variable it is ``~/.caffe2/models``.
        """
        self._folder = Path(os.environ.get(model_env_name) or Path.home() / ".caffe2" / "models")

    def getC2Model(self, model_name: str) -> tuple[NetDef, NetDef]:
        """The initializing net and the net of a saved model.

        Raises:
            NotImplementedError: It isn't in the folder, and can't be fetched.
        """
        folder = self._folder / model_name
        files = [folder / f"{part}_net.pb" for part in ("init", "predict")]
        missing = [file.name for file in files if not file.is_file()]
        if missing:
            _refuse(model_name, f"put {' and '.join(missing)} into {folder}")
        return read_net(files[0]), read_net(files[1])


def downloadModel(model: str, args: Any = None) -> NoReturn:
    """Fetch a model from the store, which is gone.

    Raises:
        NotImplementedError: Always.
    """
    _refuse(model, "read a pair of nets that you have with netgrad.caffe2.load")


def _refuse(model: str, instead: str) -> NoReturn:
    raise NotImplementedError(
        f"netgrad can't download model {model}: the original's store is gone; {instead}"
    )
