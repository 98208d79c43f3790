"""Run an old script or module: ``python -m netgrad.caffe2 script.py arguments...``."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from netgrad.caffe2.install import install

_USAGE = "usage: python -m netgrad.caffe2 (script.py | -m module) [arguments...]"


def main() -> int:
    """Run the script or module that the arguments name, with ``caffe2`` importable."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(_USAGE, file=sys.stderr)
        return 0
    if not arguments or arguments == ["-m"]:
        print(_USAGE, file=sys.stderr)
        return 2
    return _run_module(arguments[1:]) if arguments[0] == "-m" else _run_script(arguments)


def _run_script(arguments: list[str]) -> int:
    script = Path(arguments[0])
    if not script.is_file():
        print(f"netgrad.caffe2: there is no file '{script}'", file=sys.stderr)
        return 2
    install()
    sys.argv = arguments
    sys.path[0] = str(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")
    return 0


def _run_module(arguments: list[str]) -> int:
    """A module by its name; of ``caffe2`` itself those that are here."""
    name = arguments[0]
    install()
    sys.argv = arguments
    is_own = name == "caffe2" or name.startswith("caffe2.")
    file = _file_of(f"netgrad.{name}" if is_own else name)
    if file is None:
        print(f"netgrad.caffe2: there is no module '{name}' to run; give a file", file=sys.stderr)
        return 2
    if not is_own:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        return 0
    sys.argv = [str(file), *arguments[1:]]
    runpy.run_path(str(file), run_name="__main__")
    return 0


def _file_of(module: str) -> Path | None:
    """The file that runs as a module; of a package that is its ``__main__``."""
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        return None
    if found is None or found.origin is None:
        return None
    file = Path(found.origin)
    main = file.with_name("__main__.py")
    if found.submodule_search_locations is not None:
        return main if main.is_file() else None
    return file


if __name__ == "__main__":
    sys.exit(main())
