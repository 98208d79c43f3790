"""What goes wrong while nets run; scripts catch these as ``RuntimeError``."""

from __future__ import annotations

from netgrad.core import NetgradError


class RunError(NetgradError, RuntimeError):
    """An operator, net or plan can't be run as it is.

    Cause: an operator that reads a blob without a value, a net that isn't there, an operator type without a
    kernel, a wrong value.

    Example: ``RunNet("train")`` before ``CreateNet``.

    What to do: the message names the operator, blob or net.
    """


class UnknownBlobError(RunError, KeyError):
    """A blob isn't in the workspace.

    Cause: a misspelt name, a missing name scope, or a net that hasn't run yet.

    Example: ``FetchBlob("w")`` where the blob is called ``gpu_0/w``.

    What to do: feed the blob, or run the net that writes it.
    """

    __str__ = RunError.__str__


class WrongKindError(RunError, TypeError):
    """A net, an operator or a plan is needed, and something else was given.

    Cause: a name where the object or its message is meant.

    Example: ``workspace.C.Workspace().create_net("train")``.

    What to do: pass the object, its message, or the bytes of that.
    """


_ORIGINAL_WORDS = {"delta in Range operator can not be zero": "Step size cannot be 0"}
"""What scripts may look for in an error, by what ONNX Runtime says in its place."""


def in_original_words(message: str) -> str:
    """ONNX Runtime's failure with the key words of the original before it, which scripts look for."""
    words = [words for sign, words in _ORIGINAL_WORDS.items() if sign in message]
    return ": ".join(["enforce fail", *words, message])
