"""Blobs and running nets: what scripts know as ``caffe2.python.workspace``."""

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python.core.process import GlobalInit
from netgrad.caffe2.python.core.tracebacks import operator_tracebacks
from netgrad.caffe2.python.native import C
from netgrad.caffe2.python.scope import CurrentNameScope as GetNameScope
from netgrad.caffe2.python.workspace.benchmarks import BenchmarkNet, BenchmarkNetOnce
from netgrad.caffe2.python.workspace.blobs import (
    Blobs,
    CreateBlob,
    DeserializeBlob,
    FeedBlob,
    FetchBlob,
    FetchBlobs,
    GetBlobSizeBytes,
    HasBlob,
    ResetBlob,
    SerializeBlob,
    blobs,
)
from netgrad.caffe2.python.workspace.costs import GetOperatorCost
from netgrad.caffe2.python.workspace.current import (
    CurrentWorkspace,
    ResetWorkspace,
    RootFolder,
    SwitchWorkspace,
    WorkspaceGuard,
    Workspaces,
)
from netgrad.caffe2.python.workspace.devices import (
    GetBlobNUMANode,
    GetCudaPeerAccessPattern,
    GetCUDAVersion,
    GetCuDNNVersion,
    GetDeviceProperties,
    GetGPUMemoryInfo,
    GetGpuPeerAccessPattern,
    GetNumNUMANodes,
    GpuDeviceType,
    IsNUMAEnabled,
    NumCudaDevices,
    NumGpuDevices,
    has_cuda_support,
    has_fbgemm,
    has_gpu_support,
    has_hip_support,
    is_asan,
)
from netgrad.caffe2.python.workspace.immediate import (
    FeedImmediate,
    FetchImmediate,
    ImmediateBlobs,
    IsImmediate,
    RunOperatorImmediate,
    StartImmediate,
    StopImmediate,
)
from netgrad.caffe2.python.workspace.inputs import (
    FetchInt8Blob,
    FetchInt8BlobRealVal,
    FetchTorch,
    FillRandomNetworkInputs,
    Int8Tensor,
)
from netgrad.caffe2.python.workspace.nets import (
    ClearGlobalNetObserver,
    CreateNet,
    GetNetName,
    InferShapesAndTypes,
    Nets,
    RegisteredOperators,
    RunNet,
    RunNetOnce,
    RunOperatorMultiple,
    RunOperatorOnce,
    RunOperatorsOnce,
    RunPlan,
    RunPlanInBackground,
    StringifyBlobName,
    StringifyNetName,
    StringifyProto,
)
from netgrad.caffe2.python.workspace.op_schema import OpSchema
from netgrad.caffe2.python.workspace.predictor import Predictor
from netgrad.caffe2.python.workspace.transforms import ApplyTransform, ApplyTransformIfFaster

Workspace = C.Workspace

_immediate_root_folder = ""  # the folder of immediate mode, which scripts may look at

__all__ = [
    "ApplyTransform",
    "ApplyTransformIfFaster",
    "BenchmarkNet",
    "BenchmarkNetOnce",
    "Blobs",
    "C",
    "ClearGlobalNetObserver",
    "CreateBlob",
    "CreateNet",
    "CurrentWorkspace",
    "DeserializeBlob",
    "FeedBlob",
    "FeedImmediate",
    "FetchBlob",
    "FetchBlobs",
    "FetchImmediate",
    "FetchInt8Blob",
    "FetchInt8BlobRealVal",
    "FetchTorch",
    "FillRandomNetworkInputs",
    "GetBlobNUMANode",
    "GetBlobSizeBytes",
    "GetCUDAVersion",
    "GetCuDNNVersion",
    "GetCudaPeerAccessPattern",
    "GetDeviceProperties",
    "GetGPUMemoryInfo",
    "GetGpuPeerAccessPattern",
    "GetNameScope",
    "GetNetName",
    "GetNumNUMANodes",
    "GetOperatorCost",
    "GlobalInit",
    "GpuDeviceType",
    "HasBlob",
    "ImmediateBlobs",
    "InferShapesAndTypes",
    "Int8Tensor",
    "IsImmediate",
    "IsNUMAEnabled",
    "Nets",
    "NumCudaDevices",
    "NumGpuDevices",
    "Predictor",
    "RegisteredOperators",
    "ResetBlob",
    "ResetWorkspace",
    "RootFolder",
    "RunNet",
    "RunNetOnce",
    "RunOperatorImmediate",
    "RunOperatorMultiple",
    "RunOperatorOnce",
    "RunOperatorsOnce",
    "RunPlan",
    "RunPlanInBackground",
    "SerializeBlob",
    "StartImmediate",
    "StopImmediate",
    "StringifyBlobName",
    "StringifyNetName",
    "StringifyProto",
    "SwitchWorkspace",
    "Workspace",
    "WorkspaceGuard",
    "Workspaces",
    "blobs",
    "has_cuda_support",
    "has_fbgemm",
    "has_gpu_support",
    "has_hip_support",
    "is_asan",
    "operator_tracebacks",
]

# The functions of this module under the names that the native module has for them.
_NATIVE: dict[str, Callable[..., Any]] = {
    "benchmark_net": BenchmarkNet,
    "benchmark_net_once": BenchmarkNetOnce,
    "blobs": Blobs,
    "clear_global_net_observer": ClearGlobalNetObserver,
    "create_blob": CreateBlob,
    "create_net": CreateNet,
    "current_workspace": CurrentWorkspace,
    "deserialize_blob": DeserializeBlob,
    "fetch_blob": FetchBlob,
    "get_blob_numa_node": GetBlobNUMANode,
    "get_blob_size_bytes": GetBlobSizeBytes,
    "get_cuda_peer_access_pattern": GetCudaPeerAccessPattern,
    "get_cuda_version": GetCUDAVersion,
    "get_device_properties": GetDeviceProperties,
    "get_num_numa_nodes": GetNumNUMANodes,
    "global_init": GlobalInit,
    "has_blob": HasBlob,
    "is_numa_enabled": IsNUMAEnabled,
    "nets": Nets,
    "num_cuda_devices": NumCudaDevices,
    "reset_blob": ResetBlob,
    "reset_workspace": ResetWorkspace,
    "root_folder": RootFolder,
    "run_net": RunNet,
    "run_net_once": RunNetOnce,
    "run_operator_once": RunOperatorOnce,
    "run_plan": RunPlan,
    "serialize_blob": SerializeBlob,
    "switch_workspace": SwitchWorkspace,
    "workspaces": Workspaces,
}
for _name, _function in _NATIVE.items():
    setattr(C, _name, staticmethod(_function))
C.OpSchema = OpSchema  # type: ignore[attr-defined]
C.is_asan, C.has_cuda_support = is_asan, has_cuda_support
C.has_gpu_support, C.has_hip_support = has_gpu_support, has_hip_support
