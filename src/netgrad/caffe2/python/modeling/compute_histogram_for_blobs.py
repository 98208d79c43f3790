"""Histograms of blobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.net_modifier import BlobMeasures


class ComputeHistogramForBlobs(BlobMeasures):
    """Computes ``<blob>_curr_normalized_hist``: the shares of a blob's elements in equal buckets of a range.

    The first and the last share are of elements below and above the range.
    """

    def __init__(
        self,
        blobs: Sequence[Any],
        logging_frequency: int,
        num_buckets: int = 30,
        lower_bound: float = 0.0,
        upper_bound: float = 1.0,
        accumulate: bool = False,
    ) -> None:
        """Prepare the histograms.

        Args:
            blobs: The blobs' names.
            logging_frequency: See `BlobMeasures`.
            num_buckets: How many buckets the range has.
            lower_bound: Where it begins.
            upper_bound: Where it ends.
            accumulate: Whether the elements of all runs are counted; then the name ends in
                ``_acc_normalized_hist``.

        Raises:
            AssertionError: There is no bucket.
        """
        super().__init__(
            blobs, logging_frequency, "_acc_normalized_hist" if accumulate else "_curr_normalized_hist"
        )
        self._accumulate = accumulate
        self._num_buckets = int(num_buckets)
        assert self._num_buckets > 0, f"num_buckets need to be greater than 0, got {num_buckets}"
        self._lower_bound, self._upper_bound = float(lower_bound), float(upper_bound)
        self._type = (np.float32, (self._num_buckets + 2,))

    def _measure(self, net: Any, blob: Any) -> tuple[Any, Any]:
        floats = net.Cast(blob, net.NextScopedBlob(prefix=f"{blob}_float"), to=core.DataType.FLOAT)
        counts = net.AccumulateHistogram(
            [floats],
            [net.NextScopedBlob(prefix=f"{blob}{ending}") for ending in ("_curr_hist", "_acc_hist")],
            num_buckets=self._num_buckets,
            lower_bound=self._lower_bound,
            upper_bound=self._upper_bound,
        )[int(self._accumulate)]
        numbers = net.Cast(counts, net.NextScopedBlob(prefix=f"{blob}_cast_hist"), to=core.DataType.FLOAT)
        shares = net.NormalizeL1(numbers, self._name(net, blob))
        self._print(net, shares)
        return blob, shares
