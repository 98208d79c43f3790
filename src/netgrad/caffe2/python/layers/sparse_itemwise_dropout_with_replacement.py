"""Ids that are dropped at random."""

from __future__ import annotations

from netgrad.caffe2.python.layers.id_dropout import IdDropout


class SparseItemwiseDropoutWithReplacement(IdDropout):
    """Single ids are dropped at random, and a value is put in their place."""

    _operator = "SparseItemwiseDropoutWithReplacement"
    _usual_name = "sparse_itemwise_dropout"
