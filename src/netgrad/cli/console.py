"""What the command prints: data on stdout, everything else on stderr; errors as one clear line."""

from __future__ import annotations

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec

import typer

from netgrad.cli.exit_status import ExitStatus
from netgrad.core.errors import NetgradError

P = ParamSpec("P")


def note(text: str, *, quiet: bool = False) -> None:
    """A line on stderr, unless ``quiet``."""
    if not quiet:
        print(text, file=sys.stderr)


def print_json(report: dict[str, Any]) -> None:
    """A report on stdout in machine form."""
    json.dump(report, sys.stdout, indent=2, sort_keys=False)
    sys.stdout.write("\n")


def failed(message: str, hint: str | None = None) -> None:
    """An error on stderr: what is wrong, then what can be done."""
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def verb(body: Callable[P, ExitStatus]) -> Callable[P, None]:
    """Make a verb of a function: its answer is the exit status, its errors are lines.

    `NETGRAD_TRACEBACK=1` in the environment shows the traceback instead, for reporting a defect.
    """

    @functools.wraps(body)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        show_traceback = bool(os.environ.get("NETGRAD_TRACEBACK"))
        warnings.showwarning = _one_line_warning
        try:
            status = body(*args, **kwargs)
        except NetgradError as error:
            if show_traceback:
                raise
            failed(error.message, error.hint)
            status = ExitStatus.WRONG_CALL
        except BrokenPipeError:
            # The reader of our stdout has gone (`netgrad inspect m.onnx | head`); nothing is wrong.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = ExitStatus.DONE
        except OSError as error:
            if show_traceback:
                raise
            failed(f"{error.filename}: {error.strerror}" if error.filename else str(error))
            status = ExitStatus.WRONG_CALL
        except MemoryError:
            failed("out of memory", "use a smaller batch, or a machine with more memory")
            status = ExitStatus.WRONG_CALL
        except KeyboardInterrupt:
            note("interrupted")
            status = ExitStatus.INTERRUPTED
        raise typer.Exit(int(status))

    return run


def _one_line_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)
