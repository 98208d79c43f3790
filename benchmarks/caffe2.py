"""How long programs on Caffe2's API take with netgrad, and with the original where it is installed.

The programs are those of `benchmarks/caffe2_programs`: building nets, runs of tiny nets, single operators,
large blobs, and training steps. Each runs in a process of its own, with one thread. Example:

    python benchmarks/caffe2.py --original /path/to/python --record benchmarks/results/caffe2.json

Times are processor time, which other programs on the machine disturb least: of what is repeated the least
mean of five blocks, of the rest the least of the runs of the whole program. The ratio is netgrad's time over
the original's: below 1.0 netgrad is faster. `make bench` runs it without the original.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import netgrad

FOLDER = Path(__file__).parent / "caffe2_programs"
PROGRAMS = ("building", "overhead", "operators", "large", "training")

Figures = dict[str, dict[str, Any]]


def figures(command: list[str], program: str, runs: int) -> Figures:
    """What a program reports, the least of some runs by name."""
    found: Figures = {}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for _ in range(runs):
        done = subprocess.run(
            [*command, str(FOLDER / f"{program}.py")],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{program} has failed under {command[0]}:\n{done.stderr[-3000:]}")
        for line in done.stdout.splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                if row["name"] not in found or row["value"] < found[row["name"]]["value"]:
                    found[row["name"]] = row
    return found


def cell(row: dict[str, Any] | None) -> str:
    """A figure of the table."""
    return "-" if row is None else f"{row['value']:.3g} {row['unit']}".strip()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--original", metavar="PYTHON", help="an interpreter that has the original Caffe2")
    parser.add_argument("--runs", type=int, default=2, help="runs of each program")
    parser.add_argument("--record", metavar="FILE", help="write the figures to a JSON file")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes and repetitions")
    arguments = parser.parse_args()
    if arguments.quick:
        os.environ["NETGRAD_BENCHMARK_QUICK"] = "1"
    print(f"{'processor time, one thread':62} {'netgrad':>10} {'original':>10} {'ratio':>7}")
    rows = []
    for program in arguments.programs:
        ours = figures([sys.executable, "-m", "netgrad.caffe2"], program, arguments.runs)
        theirs = figures([arguments.original], program, arguments.runs) if arguments.original else {}
        for name, own in ours.items():
            other = theirs.get(name)
            ratio = own["value"] / other["value"] if other and other["value"] else None
            shown = "" if ratio is None else f"{ratio:.2f}"
            print(f"{name:62} {cell(own):>10} {cell(other):>10} {shown:>7}", flush=True)
            rows.append({"program": program, "netgrad": own, "original": other, "ratio": ratio})
    if arguments.record:
        record = {
            "netgrad": netgrad.__version__,
            "onnxruntime": onnxruntime.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "machine": platform.machine(),
            "runs": arguments.runs,
            "rows": rows,
        }
        Path(arguments.record).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
