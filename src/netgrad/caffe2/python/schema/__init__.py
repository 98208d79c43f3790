"""Schemas of data, and records of blobs: what scripts know as ``caffe2.python.schema``."""

from netgrad.caffe2.python.core.blob_reference import BlobReference
from netgrad.caffe2.python.schema.containers import List, ListWithEvicted, Struct
from netgrad.caffe2.python.schema.field import FIELD_SEPARATOR, Field
from netgrad.caffe2.python.schema.making import (
    Map,
    MapWithEvicted,
    NamedTuple,
    RawTuple,
    Tuple,
    as_record,
    attach_metadata_to_scalars,
    data_type_for_dtype,
    dtype_for_core_type,
    equal_schemas,
    from_blob_list,
    from_column_list,
    from_dtype,
    is_schema_subset,
    schema_check,
)
from netgrad.caffe2.python.schema.records import (
    ConstRecord,
    FeedRecord,
    FetchRecord,
    InitEmptyRecord,
    NewRecord,
)
from netgrad.caffe2.python.schema.scalar import FeatureSpec, Metadata, Scalar

__all__ = [
    "FIELD_SEPARATOR",
    "BlobReference",
    "ConstRecord",
    "FeatureSpec",
    "FeedRecord",
    "FetchRecord",
    "Field",
    "InitEmptyRecord",
    "List",
    "ListWithEvicted",
    "Map",
    "MapWithEvicted",
    "Metadata",
    "NamedTuple",
    "NewRecord",
    "RawTuple",
    "Scalar",
    "Struct",
    "Tuple",
    "as_record",
    "attach_metadata_to_scalars",
    "data_type_for_dtype",
    "dtype_for_core_type",
    "equal_schemas",
    "from_blob_list",
    "from_column_list",
    "from_dtype",
    "is_schema_subset",
    "schema_check",
]
