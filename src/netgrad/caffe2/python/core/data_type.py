"""Types of tensor elements, by the names that scripts use."""

from __future__ import annotations

from netgrad.caffe2.caffe2_pb2 import TensorProto


class DataType:
    """The numbers of the element types, as in `TensorProto.DataType`."""

    UNDEFINED = TensorProto.UNDEFINED
    FLOAT = TensorProto.FLOAT
    INT32 = TensorProto.INT32
    BYTE = TensorProto.BYTE
    STRING = TensorProto.STRING
    BOOL = TensorProto.BOOL
    UINT8 = TensorProto.UINT8
    INT8 = TensorProto.INT8
    UINT16 = TensorProto.UINT16
    INT16 = TensorProto.INT16
    INT64 = TensorProto.INT64
    FLOAT16 = TensorProto.FLOAT16
    DOUBLE = TensorProto.DOUBLE
    ZERO_COLLISION_HASH = TensorProto.ZERO_COLLISION_HASH
    REBATCHING_BUFFER = TensorProto.REBATCHING_BUFFER
