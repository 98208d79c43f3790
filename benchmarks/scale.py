"""Time and memory of the backward pass against the number of operators.

Four shapes of nets, each size in a fresh process: a chain, one blob with many readers, a ladder of diamonds
(every rung adds two contributions), and a random graph. Example:

    python benchmarks/scale.py --sizes 1000 10000 100000 1000000

The columns are the numbers of forward operators and of gradient operators; the seconds that `backward_pass`
took by the clock, and of processor time; the operators that it handled (forward and gradient) per second of
processor time, which other programs on the machine disturb least; the peak memory of the process in MB (net
and result included) and what of that was there before the call; and the growth: how many times more
processor time this size took than the one before, divided by how many times larger it is. 1.0 is linear.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from netgrad.core import Operator, RuleRegistry, backward_pass
from netgrad.core.accumulation import Strategy

SHAPES = ("chain", "fan-out", "ladder", "random")


def chain(size: int) -> tuple[list[Operator], str]:
    """Every operator reads what the one before wrote."""
    return [Operator("Op", (f"x{i}",), (f"x{i + 1}",)) for i in range(size)], f"x{size}"


def fan_out(size: int) -> tuple[list[Operator], str]:
    """One blob with ``size - 1`` readers, whose outputs one operator joins."""
    operators = [Operator("Op", ("x",), (f"h{i}",)) for i in range(size - 1)]
    return [*operators, Operator("Op", [op.outputs[0] for op in operators], ("y",))], "y"


def ladder(size: int) -> tuple[list[Operator], str]:
    """Diamonds in a row: two readers of a blob, and one operator that joins them."""
    operators = []
    for i in range(size // 3):
        operators.append(Operator("Op", (f"x{i}",), (f"a{i}",)))
        operators.append(Operator("Op", (f"x{i}",), (f"b{i}",)))
        operators.append(Operator("Op", (f"a{i}", f"b{i}"), (f"x{i + 1}",)))
    return operators, f"x{size // 3}"


def random_graph(size: int) -> tuple[list[Operator], str]:
    """Each operator reads one to three of the last hundred blobs; all loose ends are joined at last."""
    generator = random.Random(size)
    loose = {"x0"}
    operators = []
    for i in range(1, size):
        oldest = max(0, i - 100)
        inputs = [f"x{generator.randrange(oldest, i)}" for _ in range(generator.randint(1, 3))]
        operators.append(Operator("Op", inputs, (f"x{i}",)))
        loose.difference_update(inputs)
        loose.add(f"x{i}")
    return [*operators, Operator("Op", sorted(loose), ("y",))], "y"


BUILDERS = {"chain": chain, "fan-out": fan_out, "ladder": ladder, "random": random_graph}


def rule(op: Operator, grads: Sequence[str]) -> tuple[Sequence[Operator], Sequence[str]]:
    """One gradient operator, which is as little as a rule can do."""
    names = [f"{name}_grad" for name in op.inputs]
    return (Operator("OpGradient", grads, names),), names


def peak_memory() -> float:
    """Peak resident memory of this process so far, in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def measure(shape: str, size: int, accumulation: Strategy, single_assignment: bool) -> dict[str, Any]:
    """One backward pass, in this process."""
    operators, target = BUILDERS[shape](size)
    rules = RuleRegistry()
    rules.register("Op", rule)
    before = peak_memory()
    start, start_cpu = time.perf_counter(), time.process_time()
    result = backward_pass(
        operators, [target], rules, accumulation=accumulation, single_assignment=single_assignment
    )
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - start_cpu
    return {
        "shape": shape,
        "operators": len(operators),
        "gradient_operators": len(result.operators),
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "operators_per_second": (len(operators) + len(result.operators)) / cpu_seconds,
        "peak_mb": peak_memory(),
        "before_mb": before,
    }


def in_fresh_process(shape: str, size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """The fastest of some runs of `measure`, each in a process of its own."""
    command = [sys.executable, __file__, "--one", shape, str(size), "--accumulation", arguments.accumulation]
    if arguments.single_assignment:
        command.append("--single-assignment")
    runs = []
    for _ in range(arguments.repeat):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        runs.append(json.loads(done.stdout))
    best: dict[str, Any] = min(runs, key=lambda row: row["cpu_seconds"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--accumulation", choices=("sum", "running", "fused", "auto"), default="sum")
    parser.add_argument("--single-assignment", action="store_true", help="every blob gets its own name")
    parser.add_argument("--repeat", type=int, default=1, help="runs per size, of which the fastest counts")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON lines")
    parser.add_argument("--one", nargs=2, metavar=("SHAPE", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        shape, size = arguments.one
        row = measure(shape, int(size), arguments.accumulation, arguments.single_assignment)
        print(json.dumps(row))
        return
    if not arguments.json:
        print(
            f"{'shape':8} {'operators':>10} {'gradient':>10} {'seconds':>9} {'cpu':>9} {'per second':>11} "
            f"{'peak MB':>8} {'before':>7} {'growth':>7}"
        )
    for shape in arguments.shapes:
        previous: dict[str, Any] | None = None
        for size in sorted(arguments.sizes):
            row = in_fresh_process(shape, size, arguments)
            row["growth"] = None
            if previous is not None:
                larger = row["operators"] / previous["operators"]
                row["growth"] = row["cpu_seconds"] / previous["cpu_seconds"] / larger
            previous = row
            print(json.dumps(row) if arguments.json else line(row), flush=True)


def line(row: dict[str, Any]) -> str:
    """A row of the table."""
    growth = "" if row["growth"] is None else f"{row['growth']:.2f}"
    return (
        f"{row['shape']:8} {row['operators']:10,} {row['gradient_operators']:10,} {row['seconds']:9.3f} "
        f"{row['cpu_seconds']:9.3f} "
        f"{row['operators_per_second']:11,.0f} {row['peak_mb']:8,.0f} {row['before_mb']:7,.0f} {growth:>7}"
    )


if __name__ == "__main__":
    main()
