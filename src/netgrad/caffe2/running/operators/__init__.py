"""Operators that run in Python."""

from netgrad.caffe2.running.operators import (  # noqa: F401  they are registered
    collecting,
    control,
    counters,
    databases,
    datasets,
    features,
    histograms,
    indexes,
    maps,
    partitions,
    printing,
    python_function,
    quantized,
    queues,
    ranking,
    rebatching,
    sparse_updates,
    text_files,
    texts,
    times,
)
