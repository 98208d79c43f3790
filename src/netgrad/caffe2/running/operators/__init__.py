"""Operators that run in Python."""

from netgrad.caffe2.running.operators import (  # noqa: F401  they are registered
    control,
    counters,
    databases,
    ftrl,
    printing,
    python_function,
    queues,
    texts,
)
