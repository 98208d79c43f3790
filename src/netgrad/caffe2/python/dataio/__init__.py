"""Readers and writers: what scripts know as ``caffe2.python.dataio``."""

from netgrad.caffe2.python.dataio.base import Pipe, PipedReaderBuilder, Reader, ReaderBuilder, Writer
from netgrad.caffe2.python.dataio.composite import CompositeReader, CompositeReaderBuilder
from netgrad.caffe2.python.dataio.limits import (
    CounterReader,
    CountUntil,
    ReaderWithDelay,
    ReaderWithLimit,
    ReaderWithLimitBase,
    ReaderWithTimeLimit,
)

__all__ = [
    "CompositeReader",
    "CompositeReaderBuilder",
    "CountUntil",
    "CounterReader",
    "Pipe",
    "PipedReaderBuilder",
    "Reader",
    "ReaderBuilder",
    "ReaderWithDelay",
    "ReaderWithLimit",
    "ReaderWithLimitBase",
    "ReaderWithTimeLimit",
    "Writer",
]
