"""Devices that test programs of MKL-DNN draw: those of `hypothesis_test_util`, and MKL-DNN by name.

netgrad has no library of that name, so results are compared on the CPU alone unless a program asks for the
other device; what is placed there runs as everything does.
"""

from __future__ import annotations

import hypothesis.strategies as st

from netgrad.caffe2.caffe2_pb2 import MKLDNN, DeviceOption
from netgrad.caffe2.python.hypothesis_test_util import (
    cpu_do,
    device_checker_device_options,
    device_options,
    gcs,
    gcs_cpu_only,
    gcs_gpu_only,
    gpu_do,
    gradient_checker_device_option,
)

mkl_do = DeviceOption(device_type=MKLDNN)
gcs_mkl_only = {"gc": st.just(mkl_do), "dc": st.just([mkl_do])}
gcs_cpu_mkl = {"gc": st.sampled_from([cpu_do, mkl_do]), "dc": st.just([cpu_do, mkl_do])}

__all__ = [
    "cpu_do",
    "device_checker_device_options",
    "device_options",
    "gcs",
    "gcs_cpu_mkl",
    "gcs_cpu_only",
    "gcs_gpu_only",
    "gcs_mkl_only",
    "gpu_do",
    "gradient_checker_device_option",
    "mkl_do",
]
