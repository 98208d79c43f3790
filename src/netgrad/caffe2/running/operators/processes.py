"""Operators that connect processes and machines, which are refused."""

from __future__ import annotations

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs(
    "CloneCommonWorld",
    "CreateCommonWorld",
    "DestroyCommonWorld",
    "FileStoreHandlerCreate",
    "RedisStoreHandlerCreate",
    "StoreAdd",
    "StoreGet",
    "StoreSet",
    "StoreWait",
)
def _processes(call: Call) -> None:
    raise call.error(
        "it connects processes, which netgrad doesn't: train on several devices of one process, without a "
        "rendezvous (data_parallel_model)"
    )
