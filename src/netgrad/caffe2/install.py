"""Making ``caffe2.python`` and ``caffe2.proto`` importable, for old scripts.

The modules are netgrad's own under other names. A module or a name of the original that netgrad doesn't have
can be imported all the same; it says so when it is used.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import pkgutil
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any, NoReturn

from netgrad.caffe2.old_names import supply

_PYTHON = "caffe2.python"
_OURS = "netgrad.caffe2.python"
_MESSAGES = "netgrad.caffe2.caffe2_pb2"

# Modules of the original's schema, and what in netgrad holds what they hold.
_SCHEMAS = {
    "caffe2.proto.caffe2_pb2": _MESSAGES,
    "caffe2.proto.caffe2_legacy_pb2": _MESSAGES,
    "caffe2.proto.metanet_pb2": _MESSAGES,
    "caffe2.proto.prof_dag_pb2": _MESSAGES,
    "caffe2.proto.hsm_pb2": "netgrad.caffe2.hsm_pb2",
    "caffe2.proto.predictor_consts_pb2": f"{_OURS}.predictor_constants",
}


class _MissingType(type):
    """The type of stand-ins for names that netgrad doesn't have: any use says so."""

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        _refuse(cls.__qualname__)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _missing(f"{cls.__qualname__}.{name}")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(f"netgrad does not have {name}")


def _missing(name: str) -> Any:
    return _MissingType(name, (), {"__doc__": f"Stands for {name}, which netgrad does not have."})


class _MissingModule(ModuleType):
    """A module of the original that netgrad doesn't have."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__: list[str] = []  # it may have modules inside

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _missing(f"{self.__name__}.{name}")


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds ``caffe2`` and everything in it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "caffe2" and not fullname.startswith("caffe2."):
            return None
        package = sys.modules.get(fullname.rpartition(".")[0])
        if package is not None and not package.__name__.startswith("netgrad.") and path:
            # A package that somebody else has made, with modules of its own.
            return importlib.machinery.PathFinder.find_spec(fullname, path, target)
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        if spec.name in _SCHEMAS:
            return importlib.import_module(_SCHEMAS[spec.name])
        if spec.name == _PYTHON or spec.name.startswith(f"{_PYTHON}."):
            ours = _OURS + spec.name.removeprefix(_PYTHON)
            if _exists(ours):
                return _with_stand_ins(importlib.import_module(ours), spec.name)
            return _MissingModule(spec.name)
        return ModuleType(spec.name) if spec.name in ("caffe2", "caffe2.proto") else _MissingModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing: the modules exist already."""


def _exists(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _with_stand_ins(module: ModuleType, name: str) -> ModuleType:
    """A module whose missing names are found, and say when they are used that they are missing."""
    if not hasattr(module, "__getattr__"):

        def missing(attribute: str) -> Any:
            if attribute.startswith("__"):
                raise AttributeError(attribute)
            return _missing(f"{name}.{attribute}")

        module.__getattr__ = missing  # type: ignore[method-assign]
    return module


def install(old_names: bool = True) -> None:
    """Make ``caffe2`` importable in this process.

    Args:
        old_names: Whether names that Python and NumPy have dropped, and packages that scripts of that time
            import, are added where they are missing; see `netgrad.caffe2.old_names`.

    Raises:
        RuntimeError: Another ``caffe2`` has been imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    if "caffe2" in sys.modules:
        raise RuntimeError("another package 'caffe2' has been imported already")
    package = importlib.import_module(_OURS)
    # All at once: `from caffe2.python import core` takes what the package has, and asks no finder.
    modules = []
    for found in pkgutil.walk_packages(package.__path__, f"{_OURS}."):
        with contextlib.suppress(ImportError):  # some need packages that are not installed
            modules.append(importlib.import_module(found.name))
    # Stand-ins come last: where a module imports another one from its package, the package has to ask for it.
    for module in modules:
        _with_stand_ins(module, _PYTHON + module.__name__.removeprefix(_OURS))
    sys.meta_path.insert(0, _Finder())
    if old_names:
        supply()
