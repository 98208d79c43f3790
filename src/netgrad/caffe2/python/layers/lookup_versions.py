"""The precision of a table that rows are looked up in, for training and for predictions."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from netgrad.caffe2.python.optimizer import FP16_ENGINES, Optimizer

_logger = logging.getLogger(__name__)


class Version(NamedTuple):
    """How the operators of a precision are named.

    Attributes:
        suffix: What the names of sums end in.
        to_float: The operator that makes rows floats; None if they are.
        has_scales: Whether scale and offset of the rows are a blob of their own.
    """

    suffix: str
    to_float: str | None
    has_scales: bool = False


VERSIONS = {
    "fp32": Version("", None),
    "fp16": Version("", "HalfToFloat"),
    "uint8rowwise": Version("8BitsRowwise", "Rowwise8BitQuantizedToFloat", has_scales=True),
    "fused_uint8rowwise": Version("Fused8BitRowwise", "Fused8BitRowwiseQuantizedToFloat"),
    "fused_uint4rowwise": Version("Fused4BitRowwise", "Fused4BitRowwiseQuantizedToFloat"),
}


def get_trainer_version_based_on_optim(optim_def: Any) -> str:
    """The precision that an optimizer needs: ``fp16`` if its engine is for that, else ``fp32``."""
    is_half = isinstance(optim_def, Optimizer) and getattr(optim_def, "engine", None) in FP16_ENGINES
    return "fp16" if is_half else "fp32"


def get_sparse_lookup_trainer_version(version: str) -> str:
    """A precision for training.

    Raises:
        AssertionError: It is neither ``fp32`` nor ``fp16``.
    """
    assert version in ("fp32", "fp16"), f"tables are trained in fp32 or fp16, not in {version}"
    return version


def get_sparse_lookup_predictor_version(
    version: str,
    blob_size: int | None = None,
    min_blob_size_4bits: int | None = None,
    embedding_dim: int | None = None,
    sparse_feature_name: str | None = None,
) -> str:
    """A precision for predictions, which ``arg_scope`` sets by this function.

    Args:
        version: One of `VERSIONS`. Four bits are for large tables with rows of even length; others get eight.
        blob_size: How many elements the table has.
        min_blob_size_4bits: How many a large one has at least.
        embedding_dim: The length of a row.
        sparse_feature_name: What the table is for.

    Raises:
        AssertionError: There is no such precision.
        ValueError: Four bits are asked for, and the sizes are not all given.
    """
    assert version in VERSIONS, f"{version} is no form of tables for predictions"
    if version != "fused_uint4rowwise":
        return version
    if blob_size is None or min_blob_size_4bits is None or embedding_dim is None:
        raise ValueError(
            f"{version} for {sparse_feature_name} requires arguments blob_size:{blob_size}, "
            f"min_blob_size_4bits:{min_blob_size_4bits}, embedding_dim:{embedding_dim}"
        )
    if blob_size >= min_blob_size_4bits and embedding_dim % 2 == 0:
        return version
    _logger.info(
        "the table of %s gets eight bits: it has %d elements, of %d at least, in rows of %d",
        sparse_feature_name,
        blob_size,
        min_blob_size_4bits,
        embedding_dim,
    )
    return "fused_uint8rowwise"
