"""Settings of the process, most of which ONNX Runtime doesn't need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2 import threads
from netgrad.caffe2.python.lazy import TriggerLazyImport
from netgrad.caffe2.running import float_exceptions

_arguments: list[str] = []


def GlobalInit(args: Sequence[str]) -> bool:
    """Note the flags of the native runtime, the first being the program's name.

    ``--caffe2_operator_throw_if_fp_exceptions=1`` makes floating point exceptions of operators errors, until
    it is given as 0. ``--caffe2_omp_num_threads`` or ``--caffe2_mkl_num_threads`` is how many threads one
    operator may use, otherwise the environment's ``OMP_NUM_THREADS``. Other flags have no effect.

    Raises:
        AssertionError: They are no texts.
    """
    assert all(isinstance(one, str) for one in args), f"flags are texts, not {list(args)!r}"
    _arguments[:] = args
    float_exceptions.read_flags(args)
    threads.read_flags(args)
    return True


def GetGlobalInitArgs() -> list[str]:
    """What `GlobalInit` was given."""
    return list(_arguments)


def RefreshRegisteredOperators(trigger_lazy: bool = True) -> None:
    """Load what waits for that (see `lazy`), if wanted; new operators are seen by themselves."""
    if trigger_lazy:
        TriggerLazyImport()


def SetEnginePref(per_op_engine_pref: Mapping[str, Any], global_engine_pref: Mapping[int, Any]) -> None:
    """Nothing: an operator has one implementation, whatever engine is preferred."""


def SetGlobalEnginePref(global_engine_pref: Mapping[int, Any]) -> None:
    """Nothing; see `SetEnginePref`."""


def SetPerOpEnginePref(per_op_engine_pref: Mapping[str, Any]) -> None:
    """Nothing; see `SetEnginePref`."""


def SetOpEnginePref(op_type: str, op_pref: Any) -> None:
    """Nothing; see `SetEnginePref`."""
