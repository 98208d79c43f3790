"""What a model's inputs and outputs are, and whether the arrays a caller gives fit them.

ONNX Runtime stops at the first input that does not fit and does not say what was expected of the others, so
the check is made here, for all of them at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir

from netgrad.core.errors import InvalidArgumentError, nearest


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of an input or output.

    Attributes:
        name: The name in the graph.
        dtype: Element type, or None where the value is not a tensor or its type is unknown.
        shape: One entry per axis: an int, the name of a symbolic dim, or None; None for an unknown rank.
        optional: Whether an input may be left out, because the model has a default for it.
    """

    name: str
    dtype: onnx_ir.DataType | None
    shape: tuple[int | str | None, ...] | None
    optional: bool = False

    def __str__(self) -> str:
        """Such as ``float32[N, 3]``."""
        dims = "..." if self.shape is None else ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"{dtype_name(self.dtype)}[{dims}]"


def dtype_name(dtype: onnx_ir.DataType | None) -> str:
    """NumPy's name of an element type (``float32``, ``bfloat16``); ``string`` for strings."""
    if dtype is None:
        return "value"
    return "string" if dtype == onnx_ir.DataType.STRING else dtype.numpy().name


def spec_of(value: onnx_ir.Value, optional: bool = False) -> TensorSpec:
    """The spec of a graph's value."""
    dtype = value.type.dtype if isinstance(value.type, onnx_ir.TensorType) else None
    shape: tuple[int | str | None, ...] | None = None
    if value.shape is not None:
        shape = tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)
    return TensorSpec(value.name or "", dtype, shape, optional)


def fit_inputs(inputs: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> dict[str, Any]:
    """The given inputs as contiguous arrays of exactly the dtypes that the model takes.

    Numbers and lists are converted. An array of another dtype is converted where nothing can be lost: a safe
    widening (float32 to float64, bool to int64), integers that all fit the target, and float64 to a narrower
    floating-point type, which is rounded, because float64 is merely NumPy's default. Everything else is an
    error: floating-point numbers are never made integers, nor numbers booleans.

    Args:
        inputs: Arrays (or numbers, lists; for sequence inputs lists of arrays) by input name.
        specs: The inputs of the model by name.

    Raises:
        InvalidArgumentError: Unknown or missing names, wrong ranks, dims or dtypes: all of them, a line each.
    """
    problems = []
    fitted: dict[str, Any] = {}
    for name, given in inputs.items():
        if name not in specs:
            known = ", ".join(f"'{choice}'" for choice in specs) or "none"
            problems.append(f"no input '{name}'{nearest(name, specs)} (inputs: {known})")
            continue
        spec = specs[name]
        if spec.dtype is None:
            fitted[name] = given
            continue
        try:
            array = to_dtype(given, spec.dtype)
        except (TypeError, ValueError) as error:
            problems.append(f"input '{name}' takes {spec}: {error}")
            continue
        mismatch = _shape_mismatch(array.shape, spec.shape)
        if mismatch:
            problems.append(f"input '{name}' takes {spec}: {mismatch}")
            continue
        fitted[name] = array
    problems += [
        f"input '{spec.name}' ({spec}) is missing"
        for spec in specs.values()
        if not spec.optional and spec.name not in inputs
    ]
    if problems:
        raise InvalidArgumentError("\n".join(problems))
    return fitted


def to_dtype(given: Any, dtype: onnx_ir.DataType) -> np.ndarray[Any, Any]:
    """``given`` as a contiguous array of ``dtype``, by the conversions that `fit_inputs` describes.

    Raises:
        ValueError: The conversion could lose something.
        TypeError: ``given`` is no array, number or list of numbers.
    """
    is_array = isinstance(given, (np.ndarray, np.generic))
    array = np.asarray(given)
    if dtype == onnx_ir.DataType.STRING:
        if array.dtype.kind not in "OSU":
            raise ValueError(f"got {array.dtype.name}")
        return array.astype(object)
    target = dtype.numpy()
    if array.dtype != target:
        array = _convert(array, target, is_array)
    # ascontiguousarray makes a 0-d array 1-d
    return array if array.flags.c_contiguous and array.dtype.isnative else np.array(array, order="C")


def _convert(array: np.ndarray[Any, Any], target: np.dtype[Any], is_array: bool) -> np.ndarray[Any, Any]:
    """``array`` in the dtype ``target``; `ValueError` where something could be lost."""
    if array.dtype.kind not in "biuf" and not _is_custom_float(array.dtype):
        raise TypeError(f"got {array.dtype.name}")
    if array.size == 0 and not is_array:
        return array.astype(target)  # an empty list has no dtype of its own
    to_float = target.kind == "f" or _is_custom_float(target)
    from_float = array.dtype.kind == "f" or _is_custom_float(array.dtype)
    if from_float and not to_float:
        raise ValueError(f"got {array.dtype.name}, which is not made {target.name} silently")
    if target == np.bool_:
        raise ValueError(f"got {array.dtype.name}, which is not made bool silently")
    if from_float and (array.dtype == np.float64 or np.can_cast(array.dtype, target, "safe")):
        return array.astype(target)
    if from_float:
        raise ValueError(f"got {array.dtype.name}")
    with np.errstate(over="ignore"):
        converted = array.astype(target)
    # compared as Python integers, since a float comparison would round both sides alike
    if any(int(a) != int(b) for a, b in zip(_extremes(array), _extremes(converted), strict=True)) or not (
        np.array_equal(converted.astype(array.dtype), array)
    ):
        raise ValueError(f"got {array.dtype.name} with values that {target.name} cannot hold")
    return converted


def _extremes(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.min(), array.max()) if array.size else ()


def _is_custom_float(dtype: np.dtype[Any]) -> bool:
    """Whether ``dtype`` is one of the narrow types that NumPy knows only by extension (bfloat16, float8)."""
    return dtype.kind == "V" and "float" in dtype.name


def _shape_mismatch(actual: tuple[int, ...], expected: tuple[int | str | None, ...] | None) -> str:
    """What is wrong with ``actual``, or an empty string."""
    if expected is None:
        return ""
    if len(actual) != len(expected):
        return f"got {len(actual)} axes, shape {list(actual)}"
    wrong = [
        f"{got} instead of {want} on axis {axis}"
        for axis, (got, want) in enumerate(zip(actual, expected, strict=True))
        if isinstance(want, int) and got != want
    ]
    return f"got shape {list(actual)}, {', '.join(wrong)}" if wrong else ""
