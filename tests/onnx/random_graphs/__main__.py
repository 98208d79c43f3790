"""Many random graphs: python -m tests.onnx.random_graphs --graphs 2000 --seed 0 --record FILE.

Graph number n of seed s is the recipe of s + n, whatever the number of processes. Exit status 1 if one is
wrong; each that is gets a line with its number, for `--only`, which makes it as small as it can be and prints
it.
A run that was stopped goes on where it was if it is given the same `--log`.
"""

from __future__ import annotations

import sys

from tests.onnx.random_graphs.judge import judge
from tests.onnx.random_graphs.many import command_line, summary, verdict_of


def main() -> int:
    """Judge the graphs, and write the record."""
    return command_line(__doc__.splitlines()[0], lambda graph: judge(graph).wrong, verdict_of, summary)


if __name__ == "__main__":
    sys.exit(main())
