"""Many random graphs: python -m tests.onnx.random_graphs --graphs 2000 --seed 0 --record FILE.

Graph number n of seed s is the recipe of s + n, whatever the number of processes. Exit status 1 if one is
wrong; each that is gets a line with its number, for `--only`, which makes it as small as it can be and prints
it.
A run that was stopped goes on where it was if it is given the same `--log`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import onnx

from tests.onnx.random_graphs.graphs import Recipe, build, recipe_of, sized, smallest
from tests.onnx.random_graphs.judge import judge
from tests.onnx.random_graphs.many import summary, verdict_of


def _fails(recipe: Recipe) -> bool:
    try:
        return bool(judge(build(recipe)).wrong)
    except Exception:
        return True


def _explain(seed: int) -> int:
    recipe = sized(recipe_of(seed)).recipe
    if not _fails(recipe):
        print(f"graph {seed} is right")
        return 0
    recipe = smallest(recipe, _fails)
    print(recipe)
    print(onnx.printer.to_text(build(recipe).model))
    print(verdict_of(seed)["failed"])
    return 1


def main() -> int:
    """Judge the graphs, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=2000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="number of the first")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--record", type=Path, help="write the totals to this file")
    parser.add_argument("--log", type=Path, help="a line per graph; those that it has are not tried again")
    parser.add_argument("--only", type=int, help="a single graph, explained")
    arguments = parser.parse_args()
    if arguments.only is not None:
        return _explain(arguments.only)
    log: Path | None = arguments.log
    verdicts: list[dict[str, Any]] = []
    if log is not None and log.exists():
        verdicts = [json.loads(line) for line in log.read_text().splitlines()]
    done = {verdict["seed"] for verdict in verdicts}
    wanted = range(arguments.seed, arguments.seed + arguments.graphs)
    seeds = [seed for seed in wanted if seed not in done]
    with multiprocessing.get_context("spawn").Pool(arguments.processes) as pool:
        for verdict in pool.imap_unordered(verdict_of, seeds):
            verdicts.append(verdict)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps(verdict) + "\n")
            if verdict["failed"]:
                print(f"graph {verdict['seed']}: {verdict['failed'][0]}", flush=True)
            if len(verdicts) % 100 == 0:
                print(f"{len(verdicts)} of {len(wanted)} graphs", file=sys.stderr, flush=True)
    totals = summary(arguments.seed, sorted(verdicts, key=lambda verdict: verdict["seed"]))
    print(json.dumps({key: value for key, value in totals.items() if key != "operators"}, indent=1))
    if arguments.record is not None:
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        arguments.record.write_text(json.dumps(totals, indent=1) + "\n")
    return 1 if totals["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
