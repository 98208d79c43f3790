"""Tasks that read, process and write: what scripts know as ``caffe2.python.pipeline``."""

from netgrad.caffe2.python.pipeline.pipes import DEFAULT_QUEUE_CAPACITY, pipe, pipe_and_output
from netgrad.caffe2.python.pipeline.processors import (
    NetProcessor,
    Output,
    ProcessingReader,
    make_processor,
    normalize_processor_output,
    processor_name,
)

__all__ = [
    "DEFAULT_QUEUE_CAPACITY",
    "NetProcessor",
    "Output",
    "ProcessingReader",
    "make_processor",
    "normalize_processor_output",
    "pipe",
    "pipe_and_output",
    "processor_name",
]
