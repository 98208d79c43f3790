"""Operators that run in Python."""

from netgrad.caffe2.running.operators import (  # noqa: F401  they are registered
    collecting,
    control,
    counters,
    databases,
    datasets,
    ftrl,
    histograms,
    maps,
    printing,
    python_function,
    queues,
    rebatching,
    text_files,
    texts,
    times,
)
