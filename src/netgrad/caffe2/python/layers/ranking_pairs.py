"""Examples with one score that should be high, and a list of scores that should be low."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import schema
from netgrad.caffe2.python.layers.losses import needs_fields


def check(record: Any) -> None:
    """Check that a record has the columns ``pos_prediction`` and ``neg_prediction``, the latter of lists.

    Raises:
        AssertionError: It lacks one.
    """
    needs_fields(record, ("pos_prediction", schema.Scalar()), ("neg_prediction", schema.List(np.float32)))


def scores(net: Any, record: Any) -> tuple[Any, Any]:
    """Blobs of the high score of each low one, and of the low ones."""
    high = net.LengthsTile(
        [record.pos_prediction(), record.neg_prediction["lengths"]()],
        net.NextScopedBlob("pos_score_repeated"),
    )
    return high, record.neg_prediction["values"]()
