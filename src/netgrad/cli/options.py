"""Options that several verbs share, and the reading of their values."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrad.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np
    import onnx_ir as ir

MODEL_HELP = "The model: a file, or - for stdin."

ModelArgument = Annotated[str, typer.Argument(help=MODEL_HELP, metavar="MODEL", show_default=False)]
WrtOption = Annotated[
    list[str] | None,
    typer.Option(
        "--wrt",
        metavar="NAMES",
        help="Differentiate with respect to these inputs or initializers: comma separated, or repeated. "
        "Default: every weight.",
        show_default=False,
    ),
]
OfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--of",
        metavar="NAMES",
        help="The output to differentiate, or several. Default: the only one.",
        show_default=False,
    ),
]
StopOption = Annotated[
    list[str] | None,
    typer.Option(
        "--stop",
        metavar="NAMES",
        help="Let the gradient end at these nodes or operator types: comma separated, or repeated.",
        show_default=False,
    ),
]
StraightThroughOption = Annotated[
    list[str] | None,
    typer.Option(
        "--straight-through",
        metavar="NAMES|all",
        help="Pass the gradient unchanged through these nodes or operator types; all: through every operator "
        "that rounds or quantises.",
        show_default=False,
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Report on stdout as JSON.")]
QuietOption = Annotated[bool, typer.Option("-q", "--quiet", help="No notes and no progress on stderr.")]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "-i",
        "--input",
        metavar="NAME=FILE.npy|FILE.npz",
        help="Values of an input from a .npy file, or of all inputs from a .npz archive; repeatable.",
        show_default=False,
    ),
]


def names(given: Sequence[str] | None) -> list[str] | None:
    """Names of a repeatable, comma separated option; None where the option was not given."""
    if not given:
        return None
    return [name for value in given for name in value.split(",") if name]


def chosen(stop: Sequence[str] | None, straight_through: Sequence[str] | None) -> dict[str, Any]:
    """What ``--stop`` and ``--straight-through`` say, as the keywords of `netgrad.grad`.

    Raises:
        InvalidArgumentError: They name the same thing.
    """
    stopped, passed = names(stop) or [], names(straight_through) or []
    both = sorted({*stopped} & {*passed})
    if both:
        raise InvalidArgumentError(f"'{both[0]}' is named by --stop and by --straight-through")
    gradients = {
        **dict.fromkeys(stopped, "stop"),
        **{name: "straight-through" for name in passed if name != "all"},
    }
    return {"gradients": gradients, "straight_through": "all" in passed}


def read_model(argument: str) -> ir.Model:
    """The model that the MODEL argument names.

    Raises:
        InvalidModelError: It cannot be read.
    """
    from netgrad.onnx.read import load

    return load(sys.stdin.buffer.read() if argument == "-" else argument)


def write_model(model: ir.Model, output: str) -> None:
    """Write a model to a file (whole or not at all), or to stdout for ``-``."""
    from netgrad.onnx.write import save

    if output == "-":
        import onnx_ir as ir

        sys.stdout.buffer.write(ir.to_proto(model).SerializeToString())
    else:
        save(model, output)


def read_arrays(given: Sequence[str] | None) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays that ``--input`` options name.

    Raises:
        InvalidArgumentError: A value is not of the form NAME=FILE.npy or FILE.npz, or its file is unreadable.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for value in given or []:
        name, separator, file = value.rpartition("=")
        content = _read_numpy(file)
        if separator:
            if isinstance(content, dict):
                raise InvalidArgumentError(
                    f"--input {value}: {file} is an archive of several arrays", hint=f"give --input {file}"
                )
            arrays[name] = content
        elif isinstance(content, dict):
            arrays.update(content)
        else:
            raise InvalidArgumentError(
                f"--input {value}: which input is it?", hint=f"give --input NAME={file}"
            )
    return arrays


def read_archive(file: str) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays of a .npz archive.

    Raises:
        InvalidArgumentError: The file is no such archive.
    """
    content = _read_numpy(file)
    if not isinstance(content, dict):
        raise InvalidArgumentError(f"'{file}' holds one array without a name; a .npz archive is needed")
    return content


def _read_numpy(file: str) -> Any:
    """An array from a .npy file, or a dict of arrays from a .npz archive."""
    import numpy as np

    try:
        content = np.load(file, allow_pickle=False)
        if isinstance(content, np.ndarray):
            return content
        with content:
            return {name: content[name] for name in content.files}
    except FileNotFoundError:
        raise InvalidArgumentError(f"there is no file '{file}'") from None
    except Exception as error:
        # NumPy raises whatever the damaged part of the file makes it raise.
        raise InvalidArgumentError(f"'{file}' is no readable .npy or .npz file: {error}") from None


def default_output(model: str, suffix: str, ending: str | None = None) -> str:
    """Where a verb writes without ``--output``: beside the model, with ``suffix`` before the ending.

    The ending is the model's own but where another one is given.
    """
    if model == "-":
        return "-"
    path = Path(model)
    return str(path.with_name(f"{path.stem}{suffix}{ending or path.suffix or '.onnx'}"))
