"""Times of nets, which are printed too: programs that measure print nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.python.workspace.current import current
from netgrad.caffe2.python.workspace.nets import StringifyNetName


def BenchmarkNet(
    name: Any, warmup_runs: int, main_runs: int, run_individual: bool | int = False
) -> list[float]:
    """Mean times of a net that was created, in milliseconds, which are printed as well.

    Args:
        name: The net or its name.
        warmup_runs: Runs before it is measured.
        main_runs: Runs that are measured.
        run_individual: Whether each operator is measured on its own, too.

    Returns:
        The time of the net, then those of its operators.
    """
    net = current().net(StringifyNetName(name))
    print("Starting benchmark.\nRunning warmup runs.\nMain runs.", flush=True)
    times = net.benchmark(warmup_runs, main_runs, bool(run_individual))
    rate = 1000 / times[0] if times[0] else float("inf")
    print(f"Main run finished. Milliseconds per iter: {times[0]:g}. Iters per second: {rate:g}")
    if run_individual:
        _print_operators(list(net.definition.op), times[1:])
    return times


def _print_operators(operators: list[OperatorDef], times: list[float]) -> None:
    """The time of each operator, and of all operators of each type."""
    totals: Counter[str] = Counter()
    for at, (op, time) in enumerate(zip(operators, times, strict=True)):
        title = op.name or (op.output[0] if op.output else "NO_OUTPUT")
        print(f"Operator #{at} ({title}, {op.type}) {time:g} ms/iter")
        totals[op.type] += time  # type: ignore[assignment]
    counts = Counter(op.type for op in operators)
    total = sum(times)
    print("Time per operator type:")
    for kind, time in totals.most_common():
        print(f"{time:15g} ms. {100 * time / total if total else 0:10g}%. {kind} ({counts[kind]} ops)")
    print(f"{total:15g} ms in Total", flush=True)


def BenchmarkNetOnce(
    name: Any, warmup_runs: int, main_runs: int, run_individual: bool | int = False
) -> list[float]:
    """`BenchmarkNet`, after which the net is forgotten."""
    try:
        return BenchmarkNet(name, warmup_runs, main_runs, run_individual)
    finally:
        current().delete_net(StringifyNetName(name))
