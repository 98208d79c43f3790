# ruff: noqa: PT009, PT027  assertions of unittest are passed on
"""What old scripts use besides Caffe2, and later Pythons and NumPys have no more.

Scripts of 2018 import the packages ``six``, ``past``, ``future`` and ``mock``, and take names from ``numpy``,
``onnx``, ``collections``, ``inspect`` and ``time`` that have since been dropped. What is there is never
changed, but for ``numpy.fromstring`` of bytes, which would be an error: a name is added where there is none,
and a package is found here only if it is not installed.
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import importlib
import importlib.abc
import importlib.machinery
import inspect
import io
import itertools
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import onnx
import onnx.helper

from netgrad.caffe2 import old_numpy


class _TextMeta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, str | bytes)


class basestring(metaclass=_TextMeta):  # noqa: N801  the name that scripts know
    """Texts and bytes."""


def _with_metaclass(meta: type, *bases: type) -> type:
    """A base class that gives its subclasses a metaclass."""

    class Between(type):
        def __new__(cls, name: str, _: tuple[type, ...], body: dict[str, Any]) -> Any:
            return meta(name, bases, body)

    return type.__new__(Between, "between", (), {})


def _add_metaclass(meta: type) -> Callable[[type], Any]:
    """A decorator that gives a class a metaclass."""

    def wrapped(cls: type) -> Any:
        left_out = ("__dict__", "__weakref__")
        return meta(cls.__name__, cls.__bases__, {k: v for k, v in cls.__dict__.items() if k not in left_out})

    return wrapped


def _raise_from(error: BaseException, cause: BaseException | None) -> None:
    raise error from cause


def _decoded(text: str | bytes, encoding: str = "utf-8") -> str:
    return text.decode(encoding) if isinstance(text, bytes) else text


def _encoded(text: str | bytes, encoding: str = "utf-8") -> bytes:
    return text.encode(encoding) if isinstance(text, str) else text


def _assert_raises_regex(case: Any, *args: Any, **kwargs: Any) -> Any:
    return case.assertRaisesRegex(*args, **kwargs)


def _assert_regex(case: Any, *args: Any, **kwargs: Any) -> Any:
    return case.assertRegex(*args, **kwargs)


def _assert_count_equal(case: Any, *args: Any, **kwargs: Any) -> Any:
    return case.assertCountEqual(*args, **kwargs)


def _old_division(dividend: Any, divisor: Any) -> Any:
    """How Python 2 divided: two whole numbers to a whole number."""
    whole = isinstance(dividend, int) and isinstance(divisor, int)
    return dividend // divisor if whole else dividend / divisor


def _reraise(kind: type[BaseException], error: BaseException | None, traceback: Any = None) -> None:
    raise (kind() if error is None else error).with_traceback(traceback)


def _items(mapping: Mapping[Any, Any]) -> Any:
    return mapping.items()


def _keys(mapping: Mapping[Any, Any]) -> Any:
    return mapping.keys()


def _values(mapping: Mapping[Any, Any]) -> Any:
    return mapping.values()


def _iterators(prefixes: Iterable[str]) -> dict[str, Any]:
    """``viewitems`` and its kin."""
    kinds = {"items": _items, "keys": _keys, "values": _values}
    return {prefix + kind: function for prefix in prefixes for kind, function in kinds.items()}


_PYTHON = {"PY2": False, "PY3": True, "string_types": (str,), "integer_types": (int,), "class_types": (type,)}
_BUILTINS = {
    "basestring": basestring,
    "input": input,
    "intern": sys.intern,
    "long": int,
    "raw_input": input,
    "reduce": functools.reduce,
    "unichr": chr,
    "unicode": str,
    "xrange": range,
}
_MODULES: dict[str, dict[str, Any]] = {
    "six": {
        **_PYTHON,
        **_iterators(["iter", "view"]),
        "BytesIO": io.BytesIO,
        "StringIO": io.StringIO,
        "add_metaclass": _add_metaclass,
        "assertCountEqual": _assert_count_equal,
        "assertRaisesRegex": _assert_raises_regex,
        "assertRegex": _assert_regex,
        "b": lambda text: text.encode("latin-1"),
        "binary_type": bytes,
        "callable": callable,
        "ensure_binary": _encoded,
        "ensure_str": _decoded,
        "ensure_text": _decoded,
        "exec_": exec,
        "next": next,
        "print_": print,
        "raise_from": _raise_from,
        "reraise": _reraise,
        "text_type": str,
        "u": str,
        "unichr": chr,
        "wraps": functools.wraps,
        "with_metaclass": _with_metaclass,
    },
    "six.moves": {
        **_BUILTINS,
        "StringIO": io.StringIO,
        "cStringIO": io.StringIO,
        "filter": filter,
        "filterfalse": itertools.filterfalse,
        "getcwd": os.getcwd,
        "map": map,
        "range": range,
        "reload_module": importlib.reload,
        "shlex_quote": shlex.quote,
        "zip": zip,
        "zip_longest": itertools.zip_longest,
    },
    "past": {},
    "past.builtins": {
        **_BUILTINS,
        "filter": lambda *args: list(filter(*args)),
        "map": lambda *args: list(map(*args)),
        "range": lambda *args: list(range(*args)),
    },
    "future": {},
    "future.utils": {
        **_PYTHON,
        **_iterators(["iter", "view"]),
        "bytes_to_native_str": _decoded,
        "listitems": lambda mapping: list(mapping.items()),
        "listvalues": lambda mapping: list(mapping.values()),
        "native_str": str,
        "native_str_to_bytes": _encoded,
        "raise_from": _raise_from,
        "with_metaclass": _with_metaclass,
    },
    "past.utils": {"old_div": _old_division},
    "onnx.mapping": {},
}

# Packages and modules that Python has under another name.
_NOW_IN_PYTHON = {
    "mock": "unittest.mock",
    "six.moves.builtins": "builtins",
    "six.moves.cPickle": "pickle",
    "six.moves.configparser": "configparser",
    "six.moves.copyreg": "copyreg",
    "six.moves.http_client": "http.client",
    "six.moves.queue": "queue",
    "six.moves.socketserver": "socketserver",
    "six.moves.urllib": "urllib",
    "six.moves.urllib.error": "urllib.error",
    "six.moves.urllib.parse": "urllib.parse",
    "six.moves.urllib.request": "urllib.request",
}
_MODULES.update({name: {} for name in _NOW_IN_PYTHON})


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the packages that are not installed; it is asked last."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname not in _MODULES:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its names; of another one it says that the package has to be installed."""
        name = module.__name__

        def missing(attribute: str) -> Any:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            package = name.partition(".")[0]
            raise AttributeError(f"{name}.{attribute} needs the package '{package}': pip install {package}")

        module.__dict__.update(_MODULES[name])
        if name == "onnx.mapping":
            module.__dict__.update(_onnx_types())
        if name in _NOW_IN_PYTHON:
            found = importlib.import_module(_NOW_IN_PYTHON[name])
            public = getattr(found, "__all__", [key for key in vars(found) if not key.startswith("_")])
            module.__dict__.update({key: getattr(found, key) for key in public})
        module.__getattr__ = missing  # type: ignore[method-assign]


class ArgSpec(NamedTuple):
    """The parameters of a function, as far as ``inspect.getargspec`` told them."""

    args: list[str]
    varargs: str | None
    keywords: str | None
    defaults: tuple[Any, ...] | None


def _argspec(function: Callable[..., Any]) -> ArgSpec:
    """What ``inspect.getargspec`` gave."""
    return ArgSpec(*inspect.getfullargspec(function)[:4])


def _onnx_types() -> dict[str, Any]:
    """What ``onnx.mapping`` told: the numbers of ONNX's element types for NumPy's, and back."""
    numbers = [
        number for number in onnx.TensorProto.DataType.values() if number != onnx.TensorProto.UNDEFINED
    ]
    dtypes = {number: onnx.helper.tensor_dtype_to_np_dtype(number) for number in numbers}
    return {
        "NP_TYPE_TO_TENSOR_TYPE": {dtype: number for number, dtype in reversed(dtypes.items())},
        "TENSOR_TYPE_TO_NP_TYPE": dtypes,
    }


def supply() -> None:
    """Add what is missing to this process, once."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
    if not hasattr(onnx, "mapping"):
        importlib.import_module("onnx.mapping")
    old_numpy.supply()
    for name in collections.abc.__all__:
        if not hasattr(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    if not hasattr(time, "clock"):
        vars(time)["clock"] = time.process_time
    if not hasattr(inspect, "getargspec"):
        vars(inspect)["getargspec"] = _argspec
