"""Judging many random graphs, and what to record of them."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnxruntime

from tests.onnx.random_graphs.graphs import Graph, Recipe, build, recipe_of, sized, smallest
from tests.onnx.random_graphs.judge import judge

Plain = dict[str, Any]


def verdict_of(seed: int) -> Plain:
    """What became of one graph, as plain numbers."""
    warnings.simplefilter("ignore")
    graph = sized(recipe_of(seed))
    try:
        verdict = judge(graph)
    except Exception as error:
        return {"seed": seed, "nodes": graph.nodes, "failed": [f"{type(error).__name__}: {error}"[:400]]}
    operators = Counter(node.op_type for node in graph.model.graph.node)
    return {
        "seed": seed,
        "nodes": verdict.nodes,
        "compared": verdict.compared,
        "rejected": verdict.rejected,
        "zero": verdict.zero,
        "flipped": verdict.flipped,
        "failed": verdict.wrong,
        "symbolic": graph.recipe.symbolic,
        "operators": dict(operators),
    }


def summary(seed: int, verdicts: list[Plain]) -> Plain:
    """The totals, for the record."""

    def total(key: str) -> int:
        return sum(verdict.get(key, 0) for verdict in verdicts)

    operators = Counter[str]()
    for verdict in verdicts:
        operators.update(verdict.get("operators", {}))
    nodes = [verdict["nodes"] for verdict in verdicts]
    return {
        "seed": seed,
        "graphs": len(verdicts),
        "wrong": sum(bool(verdict["failed"]) for verdict in verdicts),
        "wrong_graphs": [verdict["seed"] for verdict in verdicts if verdict["failed"]],
        "nodes": sum(nodes),
        "fewest_nodes": min(nodes),
        "most_nodes": max(nodes),
        "with_symbolic_dims": total("symbolic"),
        "derivatives_compared": total("compared"),
        "derivatives_rejected": total("rejected"),
        "derivatives_that_are_zero": total("zero"),
        "float32_gradients_beside_a_corner": total("flipped"),
        "operators": dict(sorted(operators.items())),
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
    }


def command_line(
    description: str,
    wrong: Callable[[Graph], list[str]],
    one: Callable[[int], Plain],
    totals_of: Callable[[int, list[Plain]], Plain],
) -> int:
    """Judge as many graphs as the command line says, in processes, and write the record.

    Args:
        description: The first line of the help.
        wrong: What is wrong of a graph.
        one: The verdict of the graph of a number, with the keys "seed" and "failed"; a function of a module.
        totals_of: The record of all verdicts, with the number of the first.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--graphs", type=int, default=2000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="number of the first")
    parser.add_argument("--processes", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("--record", type=Path, help="write the totals to this file")
    parser.add_argument("--log", type=Path, help="a line per graph; those that it has are not tried again")
    parser.add_argument("--only", type=int, help="a single graph, explained")
    arguments = parser.parse_args()
    if arguments.only is not None:
        return _explain(arguments.only, wrong, one)
    wanted = range(arguments.seed, arguments.seed + arguments.graphs)
    verdicts = _judged(wanted, one, arguments.processes, arguments.log)
    totals = totals_of(arguments.seed, sorted(verdicts, key=lambda verdict: verdict["seed"]))
    print(json.dumps({key: value for key, value in totals.items() if key != "operators"}, indent=1))
    if arguments.record is not None:
        arguments.record.parent.mkdir(parents=True, exist_ok=True)
        arguments.record.write_text(json.dumps(totals, indent=1) + "\n")
    return 1 if totals["wrong"] else 0


def _judged(wanted: range, one: Callable[[int], Plain], processes: int, log: Path | None) -> list[Plain]:
    verdicts: list[Plain] = []
    if log is not None and log.exists():
        verdicts = [json.loads(line) for line in log.read_text().splitlines()]
    done = {verdict["seed"] for verdict in verdicts}
    seeds = [seed for seed in wanted if seed not in done]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for verdict in pool.imap_unordered(one, seeds):
            verdicts.append(verdict)
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps(verdict) + "\n")
            if verdict["failed"]:
                print(f"graph {verdict['seed']}: {verdict['failed'][0]}", flush=True)
            if len(verdicts) % 100 == 0:
                print(f"{len(verdicts)} of {len(wanted)} graphs", file=sys.stderr, flush=True)
    return [verdict for verdict in verdicts if verdict["seed"] in wanted]


def _explain(seed: int, wrong: Callable[[Graph], list[str]], one: Callable[[int], Plain]) -> int:
    """Make a graph that is wrong as small as it can be, and print it."""

    def fails(recipe: Recipe) -> bool:
        try:
            return bool(wrong(build(recipe)))
        except Exception:
            return True

    recipe = sized(recipe_of(seed)).recipe
    if not fails(recipe):
        print(f"graph {seed} is right")
        return 0
    recipe = smallest(recipe, fails)
    print(recipe)
    print(onnx.printer.to_text(build(recipe).model))
    print(one(seed)["failed"])
    return 1
