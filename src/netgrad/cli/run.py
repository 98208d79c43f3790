"""`netgrad run`: run a model on ONNX Runtime."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrad.cli.console import note, print_json, verb
from netgrad.cli.exit_status import ExitStatus
from netgrad.cli.nets import InitOption, ShapeOption, TypeOption, read_any
from netgrad.cli.options import (
    InputOption,
    JsonOption,
    ModelArgument,
    QuietOption,
    names,
    read_arrays,
)

if TYPE_CHECKING:
    import numpy as np


@verb
def run(
    model: ModelArgument,
    inputs: InputOption = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option("--outputs", metavar="NAMES", help="Compute only these outputs.", show_default=False),
    ] = None,
    output: Annotated[
        str | None, typer.Option("-o", "--output", help="Write the outputs to this .npz archive.")
    ] = None,
    providers: Annotated[
        list[str] | None,
        typer.Option(
            "--provider", help="Execution provider, repeatable, in order of preference. Default: the CPU."
        ),
    ] = None,
    init: InitOption = None,
    shape: ShapeOption = None,
    dtype: TypeOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> ExitStatus:
    """Run a model once and show or write its outputs.

    An example:
    netgrad run model_grad.onnx --input image=photo.npy -o gradients.npz
    """
    from netgrad.runtime.session import run as run_model

    arrays, wanted = read_arrays(inputs), names(outputs)
    loaded = read_any(model, init, shape, dtype, arrays=arrays, of=wanted)
    results = run_model(loaded, arrays, wanted, providers)
    if output is not None:
        _write_archive(output, results)
        note(f"written to {output}", quiet=quiet)
    if json:
        print_json({"version": 1, "outputs": {name: _described(array) for name, array in results.items()}})
    elif output is None:
        for name, array in results.items():
            print(f"{name}  {array.dtype}{list(array.shape)}")
            print(f"  {array}" if array.size <= 32 else f"  {_range(array)}")
    return ExitStatus.DONE


def _described(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if array.size <= 1000:
        described["values"] = array.tolist()
    return described


def _range(array: np.ndarray[Any, Any]) -> str:
    if array.dtype.kind not in "fiu":
        return f"{array.size} elements"
    return f"minimum {array.min():.6g}, mean {array.mean():.6g}, maximum {array.max():.6g}"


def _write_archive(path: str, arrays: dict[str, Any]) -> None:
    """Write a .npz archive whole or not at all.

    Written by hand because `numpy.savez` takes the names as keyword arguments, of which it keeps one itself.
    """
    import numpy as np

    from netgrad.onnx.files import replacing

    with replacing(Path(path)) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
