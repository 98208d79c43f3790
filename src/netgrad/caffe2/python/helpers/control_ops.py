"""Control flow between models, which become nets inside operators."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from netgrad.caffe2.python.control_ops_util import add_if_op, add_while_op


def cond(
    model: Any, cond_blob: Any, external_blobs: Iterable[Any], then_model: Any, else_model: Any = None
) -> None:
    """An ``If`` over the nets of models; ``external_blobs`` are those that they share with ``model``."""
    blobs = {str(blob) for blob in external_blobs}
    add_if_op(model.net, cond_blob, blobs, then_model.net, else_model.net if else_model else None)


def loop(
    model: Any, cond_blob: Any, external_blobs: Iterable[Any], loop_model: Any, cond_model: Any = None
) -> None:
    """A ``While`` over the nets of models; ``external_blobs`` are those that they share with ``model``."""
    blobs = {str(blob) for blob in external_blobs}
    add_while_op(model.net, cond_blob, blobs, loop_model.net, cond_model.net if cond_model else None)
