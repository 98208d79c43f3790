"""Records that go from layer to layer: lists of ids, their keys, and what is only known of a request."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from netgrad.caffe2.python import schema

IdList = schema.List(np.int64)
IdScoreList = schema.Map(np.int64, np.float32)
IdListWithEvicted = schema.ListWithEvicted(np.int64)
IdScoreListWithEvicted = schema.MapWithEvicted(np.int64, np.float32)


class AccessedFeatures(NamedTuple):
    """Features that a layer reads.

    Attributes:
        type: Their kind, as in `netgrad.caffe2.python.schema.FeatureSpec`.
        ids: The set of their ids.
    """

    type: str
    ids: set[Any]


def almost_equal_schemas(
    record: Any,
    original_schema: Any,
    check_field_names: bool = True,
    check_field_types: bool = True,
    check_field_metas: bool = False,
) -> bool:
    """Whether a record has a schema; of lists of ids also with the column of evicted ones."""
    for plain, evicted in ((IdList, IdListWithEvicted), (IdScoreList, IdScoreListWithEvicted)):
        if original_schema == plain:
            return any(
                schema.equal_schemas(record, one, check_field_names, check_field_types, check_field_metas)
                for one in (plain, evicted)
            )
    return schema.equal_schemas(record, original_schema)


def is_id_list(record: Any) -> bool:
    """Whether a record is a list of ids."""
    return almost_equal_schemas(record, IdList)


def is_id_score_list(record: Any) -> bool:
    """Whether a record is a list of ids with scores, of any types."""
    return almost_equal_schemas(record, IdScoreList, check_field_types=False)


def get_key(record: Any) -> Any:
    """The column of ids.

    Raises:
        NotImplementedError: The record is no list of ids.
        AssertionError: Nothing is known of the ids.
    """
    if is_id_list(record):
        key = record["values"]
    elif is_id_score_list(record):
        key = record["values:keys"]
    else:
        raise NotImplementedError(f"an IdList or IdScoreList has a key, not {record!r}")
    assert key.metadata is not None, f"Blob {key()} doesn't have metadata"
    return key


def get_categorical_limit(record: Any) -> Any:
    """What ids are below."""
    return get_key(record).metadata.categorical_limit


def get_avg_length(record: Any) -> Any:
    """How many values a list has on average."""
    return record["lengths"].metadata.expected_value


def set_request_only(field: Any) -> None:
    """Mark all columns as known of a request as a whole.

    Raises:
        AssertionError: A column that holds no integers has a limit of ids.
    """
    for scalar in field.all_scalars():
        known = scalar.metadata or schema.Metadata()
        specs = (known.feature_specs or schema.FeatureSpec())._replace(feature_is_request_only=True)
        if not np.issubdtype(scalar.field_type().base, np.integer):
            assert known.categorical_limit is None, (
                f"{scalar!r} is not of integers, so it has no categorical_limit"
            )
        scalar.set_metadata(known._replace(feature_specs=specs))


def is_request_only_scalar(scalar: Any) -> bool:
    """Whether all columns of a field, of which there is one at least, are marked by `set_request_only`."""
    found = scalar.field_metadata()
    return bool(found) and all(
        known is not None
        and known.feature_specs
        and bool(getattr(known.feature_specs, "feature_is_request_only", False))
        for known in found
    )
