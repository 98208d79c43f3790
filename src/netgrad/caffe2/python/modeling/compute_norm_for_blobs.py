"""Norms of blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.net_modifier import BlobMeasures


class ComputeNormForBlobs(BlobMeasures):
    """Computes ``<blob>_l2_norm`` as ``LpNorm`` does: the sum of squares, or of absolute values."""

    _type = (np.float64, (1,))

    def __init__(
        self,
        blobs: Sequence[Any],
        logging_frequency: int,
        p: int = 2,
        compute_averaged_norm: bool = False,
        row_index: int | None = None,
    ) -> None:
        """Prepare the norms.

        Args:
            blobs: The blobs' names.
            logging_frequency: See `BlobMeasures`.
            p: 1 for absolute values, 2 for squares.
            compute_averaged_norm: Whether they are means and not sums.
            row_index: The only row that is measured; None or 0: all.

        Raises:
            Exception: The row has a negative number.
        """
        if row_index is not None and row_index < 0:
            raise Exception(f"{row_index} is not a valid row index, row_index should be >= 0")
        super().__init__(blobs, logging_frequency, f"{'_averaged' * compute_averaged_norm}_l{p}_norm")
        self._p = p
        self._average = compute_averaged_norm
        self.row_index = row_index

    def _measure(self, net: Any, blob: Any) -> tuple[Any, Any]:
        if self.row_index:
            name = net.NextScopedBlob(prefix=f"{blob}_row_{self.row_index}")
            blob = net.Slice([blob], name, starts=[self.row_index, 0], ends=[self.row_index + 1, -1])
        floats = net.Cast(blob, net.NextScopedBlob(prefix=f"{blob}_float"), to=core.DataType.FLOAT)
        norm = net.LpNorm(floats, self._name(net, blob), p=self._p, average=self._average)
        net.StopGradient(norm, net.NextScopedBlob(f"{norm}_stop_gradient"))
        self._print(net, norm)
        return blob, norm
