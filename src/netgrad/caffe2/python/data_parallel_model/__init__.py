"""Data-parallel models: what scripts know as ``caffe2.python.data_parallel_model``.

A model is built once for each device, in the name scope ``cpu_<number>/`` or ``gpu_<number>/``; the gradients
are summed over the devices in each run. All nets run on the processor, in one process.
"""

from netgrad.caffe2.python.data_parallel_model.blobs import (
    AddBlobSync,
    AddDistributedBlobSync,
    ExtractPredictorNet,
    FinalizeAfterCheckpoint,
    GetCheckpointParams,
    GetLearningRateBlobNames,
)
from netgrad.caffe2.python.data_parallel_model.block_updates import (
    Parallelize_BMUF,
    Parallelize_CPU_BMUF,
    Parallelize_GPU_BMUF,
)
from netgrad.caffe2.python.data_parallel_model.devices import stripBlobName
from netgrad.caffe2.python.data_parallel_model.memory import OptimizeGradientMemory
from netgrad.caffe2.python.data_parallel_model.parallelize import (
    Parallelize,
    Parallelize_CPU,
    Parallelize_GPU,
    Parallelize_iDeep,
)
from netgrad.caffe2.python.data_parallel_model.running import (
    ConvertNetForDevice,
    CreateNet,
    RunInitNet,
    RunNet,
    RunWarmup,
    Synchronize,
)

__all__ = [
    "AddBlobSync",
    "AddDistributedBlobSync",
    "ConvertNetForDevice",
    "CreateNet",
    "ExtractPredictorNet",
    "FinalizeAfterCheckpoint",
    "GetCheckpointParams",
    "GetLearningRateBlobNames",
    "OptimizeGradientMemory",
    "Parallelize",
    "Parallelize_BMUF",
    "Parallelize_CPU",
    "Parallelize_CPU_BMUF",
    "Parallelize_GPU",
    "Parallelize_GPU_BMUF",
    "Parallelize_iDeep",
    "RunInitNet",
    "RunNet",
    "RunWarmup",
    "Synchronize",
    "stripBlobName",
]
