"""Nets, operators, gradients, plans: what scripts know as ``caffe2.python.core``."""

from netgrad.caffe2.makers.types import registered_types
from netgrad.caffe2.python.core.blob_reference import (
    BlobReference,
    ScopedBlobReference,
    ScopedName,
    output_to_list,
)
from netgrad.caffe2.python.core.cross_device import (
    InjectCrossDeviceCopies,
    InjectDeviceCopiesAmongNets,
    InjectDeviceCopiesAmongNetsWithoutB2D,
    RemapEntry,
)
from netgrad.caffe2.python.core.data_type import DataType
from netgrad.caffe2.python.core.device import DeviceOption, IsGPUDeviceType, device_option_equal
from netgrad.caffe2.python.core.gradient import (
    IR,
    GetIndexFromGradientList,
    GradientRegistry,
    GradientSlice,
)
from netgrad.caffe2.python.core.net import Net
from netgrad.caffe2.python.core.operators import CreateOperator, IsOperator, IsOperatorWithEngine
from netgrad.caffe2.python.core.placement import (
    InferBlobDevices,
    InferOpBlobDevices,
    InferOpBlobDevicesAsDict,
    clone_and_bind_net,
    copy_func_between_devices,
    device_equal,
)
from netgrad.caffe2.python.core.plan import Plan
from netgrad.caffe2.python.core.process import (
    GetGlobalInitArgs,
    GlobalInit,
    RefreshRegisteredOperators,
    SetEnginePref,
    SetGlobalEnginePref,
    SetOpEnginePref,
    SetPerOpEnginePref,
)
from netgrad.caffe2.python.core.python_operators import CreatePythonOperator
from netgrad.caffe2.python.core.remap import (
    DEFAULT_REMAP_FUNCS,
    control_op_remap,
    recurrent_network_op_remap,
    remap_input,
    remap_proto,
)
from netgrad.caffe2.python.core.ssa import (
    get_op_ids_in_path,
    get_output_producers,
    get_ssa,
    get_undefined_blobs,
)
from netgrad.caffe2.python.core.steps import (
    ExecutionStep,
    execution_step,
    scoped_execution_step,
    to_execution_step,
)
from netgrad.caffe2.python.native import C
from netgrad.caffe2.python.scope import (
    CurrentDeviceScope,
    CurrentNameScope,
    DeviceScope,
    EmptyDeviceScope,
    NameScope,
)

_REGISTERED_OPERATORS = registered_types()  # scripts ask whether a type is in it

__all__ = [
    "DEFAULT_REMAP_FUNCS",
    "IR",
    "BlobReference",
    "C",
    "CreateOperator",
    "CreatePythonOperator",
    "CurrentDeviceScope",
    "CurrentNameScope",
    "DataType",
    "DeviceOption",
    "DeviceScope",
    "EmptyDeviceScope",
    "ExecutionStep",
    "GetGlobalInitArgs",
    "GetIndexFromGradientList",
    "GlobalInit",
    "GradientRegistry",
    "GradientSlice",
    "InferBlobDevices",
    "InferOpBlobDevices",
    "InferOpBlobDevicesAsDict",
    "InjectCrossDeviceCopies",
    "InjectDeviceCopiesAmongNets",
    "InjectDeviceCopiesAmongNetsWithoutB2D",
    "IsGPUDeviceType",
    "IsOperator",
    "IsOperatorWithEngine",
    "NameScope",
    "Net",
    "Plan",
    "RefreshRegisteredOperators",
    "RemapEntry",
    "ScopedBlobReference",
    "ScopedName",
    "SetEnginePref",
    "SetGlobalEnginePref",
    "SetOpEnginePref",
    "SetPerOpEnginePref",
    "clone_and_bind_net",
    "control_op_remap",
    "copy_func_between_devices",
    "device_equal",
    "device_option_equal",
    "execution_step",
    "get_op_ids_in_path",
    "get_output_producers",
    "get_ssa",
    "get_undefined_blobs",
    "output_to_list",
    "recurrent_network_op_remap",
    "remap_input",
    "remap_proto",
    "scoped_execution_step",
    "to_execution_step",
]

# Scripts know it as `core.workspace`; it needs the names above.
from netgrad.caffe2.python import workspace  # noqa: E402, F401
