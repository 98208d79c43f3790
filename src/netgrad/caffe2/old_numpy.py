"""What NumPy has dropped since scripts of 2018 were written, and they still use."""

from __future__ import annotations

from typing import Any

import numpy as np


def _as_floats(array: Any, dtype: Any = np.float64) -> Any:
    """An array of floats: of the default type where the one that is asked for has none."""
    wanted = np.dtype(dtype)
    return np.asarray(array, wanted if np.issubdtype(wanted, np.inexact) else np.float64)


def _is_in(first: Any, second: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return np.isin(np.ravel(first), second, assume_unique=assume_unique, invert=invert)


NAMES: dict[str, Any] = {
    "Inf": np.inf,
    "Infinity": np.inf,
    "NINF": -np.inf,
    "NaN": np.nan,
    "PINF": np.inf,
    "alltrue": np.all,
    "asfarray": _as_floats,
    "asscalar": lambda array: np.asarray(array).item(),
    "bool": bool,
    "bool8": np.bool_,
    "complex": complex,
    "complex_": np.complex128,
    "cumproduct": np.cumprod,
    "float": float,
    "float_": np.float64,
    "in1d": _is_in,
    "infty": np.inf,
    "int": int,
    "long": int,
    "mat": np.asmatrix,
    "msort": lambda array: np.sort(array, axis=0),
    "object": object,
    "product": np.prod,
    "round_": np.round,
    "sometrue": np.any,
    "str": str,
    "string_": np.bytes_,
    "trapz": np.trapezoid if hasattr(np, "trapezoid") else None,
    "typeDict": np.sctypeDict,
    "unicode_": np.str_,
}
"""Dropped names and what they meant."""


class _FromString:
    """``numpy.fromstring``, which of bytes has become an error: the records of data sets are read by it."""

    def __init__(self, current: Any) -> None:
        self._current = current
        self.__doc__ = current.__doc__

    def __call__(self, string: Any, dtype: Any = float, count: int = -1, sep: str = "", **more: Any) -> Any:
        if sep != "":
            return self._current(string, dtype, count, sep=sep, **more)
        content = string.encode("ascii") if isinstance(string, str) else string
        return np.frombuffer(content, dtype, count).copy()


def supply() -> None:
    """Add what is missing to NumPy, once."""
    known = set(dir(np))
    for name, value in NAMES.items():
        if name not in known and value is not None:
            setattr(np, name, value)
    if not isinstance(np.fromstring, _FromString):
        vars(np)["fromstring"] = _FromString(np.fromstring)
