"""Operators that fail, with which programs try what happens then."""

from __future__ import annotations

from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.registry import runs


@runs("Fail")
def _fail(call: Call) -> None:
    raise call.error("it fails always, which is what it is for")


@runs("ThrowException")
def _throw(call: Call) -> None:
    # It is no failed run, which RunNet may be told to allow, but an exception.
    raise RuntimeError(call.argument("message", "Exception from ThrowExceptionOp"))
