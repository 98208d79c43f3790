"""Single elements and rows of blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python.modeling.net_modifier import BlobMeasures


class GetEntryFromBlobs(BlobMeasures):
    """Copies an element of matrices to ``<blob>_<i1>_<i2>``, or a row to ``<blob>_<i1>_all``."""

    _type = np.float64

    def __init__(self, blobs: Sequence[Any], logging_frequency: int, i1: int = 0, i2: int = 0) -> None:
        """Prepare the copies.

        Args:
            blobs: The names of matrices.
            logging_frequency: See `BlobMeasures`.
            i1: The row.
            i2: The column; -1 for the whole row.

        Raises:
            ValueError: The row is negative, or the column is below -1.
        """
        if i1 < 0 or i2 < -1:
            raise ValueError(f"index is out of range: row {i1}, column {i2}")
        super().__init__(blobs, logging_frequency, f"_{i1}_{i2}" if i2 >= 0 else f"_{i1}_all")
        self._i1, self._i2 = int(i1), int(i2)

    def _measure(self, net: Any, blob: Any) -> tuple[Any, Any]:
        row = net.Slice([blob], starts=[self._i1, 0], ends=[self._i1 + 1, -1])
        name = self._name(net, blob)
        if self._i2 == -1:
            found = net.Copy([row], name)
        else:
            found = net.Slice([row], name, starts=[0, self._i2], ends=[-1, self._i2 + 1])
        self._print(net, found)
        return blob, found
