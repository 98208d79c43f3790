"""Labels as distributions, each row of a matrix for a class."""

from __future__ import annotations

from typing import Any

import numpy as np

from netgrad.caffe2.python import core


def matrix_constants(model: Any, start: str, matrix: Any, name: str) -> tuple[Any, Any]:
    """Constants of a model: the matrix, and its number of classes.

    Args:
        model: The model.
        start: What their names begin with.
        matrix: What is square.
        name: What the matrix's name goes on with.

    Raises:
        AssertionError: It isn't square.
    """
    array = np.array(matrix, np.float32)
    assert array.shape == (len(array), len(array)), f"a square matrix is needed, not {array.shape}"
    return (
        model.add_global_constant(f"{start}_{name}", array=array, dtype=np.dtype(np.float32)),
        model.add_global_constant(f"{start}_label_dim", array=array.shape[0], dtype=np.dtype(np.int64)),
    )


def rows_of_labels(net: Any, label: Any, classes: Any, matrix: Any, output: Any) -> Any:
    """Add the operators that give the matrix's row of each label.

    Args:
        net: The net.
        label: A column of classes.
        classes: The blob of their number.
        matrix: The blob of the matrix.
        output: The blob that is written.
    """
    blob = label()
    if label.field_type().base != np.int64:
        blob = net.Cast([blob], [net.NextScopedBlob("int64_label")], to=core.DataType.INT64)
    one_hot = net.OneHot([blob, classes], [net.NextScopedBlob("one_hot_label")])
    return net.MatMul([one_hot, matrix], output)
