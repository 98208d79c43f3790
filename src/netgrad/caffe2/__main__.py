"""Run an old script: ``python -m netgrad.caffe2 script.py arguments...``."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from netgrad.caffe2.install import install


def main() -> int:
    """Run the script that the arguments name, with ``caffe2`` importable."""
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print("usage: python -m netgrad.caffe2 script.py [arguments...]", file=sys.stderr)
        return 0 if len(sys.argv) > 1 else 2
    script = sys.argv[1]
    if not Path(script).is_file():
        print(f"netgrad.caffe2: there is no file '{script}'", file=sys.stderr)
        return 2
    install()
    sys.argv = sys.argv[1:]
    sys.path[0] = str(Path(script).resolve().parent)
    runpy.run_path(script, run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main())
