"""Devices for test programs that compare with IDEEP, which this package never runs on."""

from __future__ import annotations

import hypothesis.strategies as st

from netgrad.caffe2.caffe2_pb2 import IDEEP, DeviceOption
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

ideep_do = DeviceOption(device_type=IDEEP)
gcs_ideep_only = {"gc": st.just(ideep_do), "dc": st.just([ideep_do])}
gcs_cpu_ideep = {"gc": st.sampled_from([cpu_do, ideep_do]), "dc": st.just([cpu_do, ideep_do])}

__all__ = [
    "cpu_do",
    "device_checker_device_options",
    "device_options",
    "gcs",
    "gcs_cpu_ideep",
    "gcs_cpu_only",
    "gcs_gpu_only",
    "gcs_ideep_only",
    "gpu_do",
    "gradient_checker_device_option",
    "ideep_do",
]
