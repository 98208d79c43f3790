"""Layers that can be trained with a sample of their outputs only."""

from __future__ import annotations

import abc
from typing import Any


class SamplingTrainableMixin(metaclass=abc.ABCMeta):
    """For layers whose parameters have a row per output: training may take other blobs than predictions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._train_param_blobs: list[Any] | None = None

    @property
    @abc.abstractmethod
    def param_blobs(self) -> list[Any]:
        """The parameters that predictions take."""

    @property
    def train_param_blobs(self) -> list[Any]:
        """The blobs that training takes; the parameters, unless it was set, which is done once at most."""
        if self._train_param_blobs is None:
            self._train_param_blobs = self.param_blobs
        return self._train_param_blobs

    @train_param_blobs.setter
    def train_param_blobs(self, blobs: list[Any]) -> None:
        assert self._train_param_blobs is None, "what training takes was used or set already"
        assert blobs is not None, "blobs are needed"
        self._train_param_blobs = blobs

    @abc.abstractmethod
    def _add_ops(self, net: Any, param_blobs: list[Any]) -> None:
        """Add the operators that read ``param_blobs``."""

    def add_ops(self, net: Any) -> None:
        """Add the operators with the parameters."""
        self._add_ops(net, self.param_blobs)

    def add_train_ops(self, net: Any) -> None:
        """Add the operators with what training takes."""
        self._add_ops(net, self.train_param_blobs)
