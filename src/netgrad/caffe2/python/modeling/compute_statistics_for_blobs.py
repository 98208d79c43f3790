"""Minimum, maximum, mean and deviation of blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.net_modifier import BlobMeasures


class ComputeStatisticsForBlobs(BlobMeasures):
    """Computes ``<blob>_summary``: minimum, maximum, mean and unbiased standard deviation."""

    _type = (np.float64, (1,))

    def __init__(self, blobs: Sequence[Any], logging_frequency: int) -> None:
        """Prepare the statistics; see `BlobMeasures`."""
        super().__init__(blobs, logging_frequency, "_summary")

    def _measure(self, net: Any, blob: Any) -> tuple[Any, Any]:
        floats = net.Cast(blob, to=core.DataType.FLOAT)
        summary = net.Summarize(floats, self._name(net, blob), to_file=0)
        self._print(net, summary)
        return blob, summary
