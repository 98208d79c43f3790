"""Lists of ids that are dropped at random."""

from __future__ import annotations

from netgrad.caffe2.python.layers.id_dropout import IdDropout


class SparseDropoutWithReplacement(IdDropout):
    """Whole lists are dropped at random: one value stands for all their ids."""

    _operator = "SparseDropoutWithReplacement"
    _usual_name = "sparse_dropout"
