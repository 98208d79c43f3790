"""Nets, operators, gradients, plans: what scripts know as ``caffe2.python.core``."""

from netgrad.caffe2.python.core.blob_reference import BlobReference, ScopedBlobReference, ScopedName
from netgrad.caffe2.python.core.data_type import DataType
from netgrad.caffe2.python.core.device import DeviceOption, IsGPUDeviceType, device_option_equal
from netgrad.caffe2.python.core.gradient import (
    IR,
    GetIndexFromGradientList,
    GradientRegistry,
    GradientSlice,
)
from netgrad.caffe2.python.core.operators import CreateOperator, IsOperator, IsOperatorWithEngine
from netgrad.caffe2.python.scope import (
    CurrentDeviceScope,
    CurrentNameScope,
    DeviceScope,
    EmptyDeviceScope,
    NameScope,
)

__all__ = [
    "IR",
    "BlobReference",
    "CreateOperator",
    "CurrentDeviceScope",
    "CurrentNameScope",
    "DataType",
    "DeviceOption",
    "DeviceScope",
    "EmptyDeviceScope",
    "GetIndexFromGradientList",
    "GradientRegistry",
    "GradientSlice",
    "IsGPUDeviceType",
    "IsOperator",
    "IsOperatorWithEngine",
    "NameScope",
    "ScopedBlobReference",
    "ScopedName",
    "device_option_equal",
]
