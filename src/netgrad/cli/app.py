"""The command `netgrad`. Verbs import what they need when they run: `--help` needs no onnx and no runtime."""

from __future__ import annotations

from typing import Annotated

import typer

from netgrad import __version__
from netgrad.cli.check import check
from netgrad.cli.convert import convert
from netgrad.cli.demo import demo
from netgrad.cli.grad import grad
from netgrad.cli.inspect import inspect
from netgrad.cli.lower import lower
from netgrad.cli.run import run
from netgrad.cli.train import train

app = typer.Typer(
    name="netgrad",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Gradients for operator graphs: the backward pass of an ONNX model as an ONNX model.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"netgrad {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Gradients for operator graphs: the backward pass of an ONNX model as an ONNX model."""


for _verb in (grad, train, check, inspect, run, lower, convert, demo):
    app.command()(_verb)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
