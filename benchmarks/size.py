"""Nodes of forward + backward against the forward graph, over the model zoo that the onnx package carries.

Run: python benchmarks/size.py [--models squeezenet,resnet50]

Models that ``make corpus`` fetched are counted too. The gradient model is counted whole, branches and bodies
included: the forward nodes that are left after preparation, and the backward pass for the inputs, and for all
weights. Its ratio is given to the forward graph as shipped, in which each weight may be a node of its own,
and to the prepared one, in which weights are initializers.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import onnx
import onnx_ir as ir

from netgrad.core.errors import NetgradError
from netgrad.onnx.prepare import prepare
from netgrad.onnx.read import load
from netgrad.onnx.view import FLOATING
from netgrad.transforms.grad import differentiate

ZOO = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
CORPUS = Path(__file__).parents[1] / ".cache" / "corpus"


def count(model: ir.Model) -> int:
    """All nodes, those inside branches and bodies too."""
    return sum(1 for _ in model.graph.all_nodes())


def row(name: str, path: Path) -> tuple[str, float]:
    """A line of the table, and the ratio for all weights to the graph as shipped."""
    shipped = load(path)
    graph = shipped.graph
    inputs = [v.name for v in graph.inputs if v.dtype in FLOATING and v.name not in graph.initializers]
    targets = [v.name for v in graph.outputs if v.dtype in FLOATING]
    given, prepared = count(shipped), count(prepare(path).model)
    by_inputs = str(count(differentiate(path, wrt=inputs, of=targets).model)) if inputs else "-"
    start = time.perf_counter()
    by_weights = count(differentiate(path, of=targets).model)
    seconds = time.perf_counter() - start
    ratio = by_weights / given
    return (
        f"{name:44} {given:8} {prepared:8} {by_inputs:>9} {by_weights:15} "
        f"{ratio:10.2f} {by_weights / prepared:10.2f} {seconds:6.2f}"
    ), ratio


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="comma separated parts of file names; default: all")
    wanted = [part for part in parser.parse_args().models.split(",") if part]
    print(
        f"{'':44} {'forward nodes':>17} {'by inputs':>9} {'by all weights':>15}\n"
        f"{'model':44} {'shipped':>8} {'prepared':>8} {'nodes':>9} {'nodes':>15} "
        f"{'/ shipped':>10} {'/ prepared':>10} {'s':>6}"
    )
    zoo = {path.stem.removeprefix("light_"): path for path in sorted(ZOO.glob("*.onnx"))}
    corpus = {
        f"{path.relative_to(CORPUS).parts[0].split('==')[0]}/{path.stem}": path
        for path in sorted(CORPUS.rglob("*.onnx"))
    }
    worst = 0.0
    for name, path in [*zoo.items(), *corpus.items()]:
        if wanted and not any(part in path.name for part in wanted):
            continue
        try:
            line, ratio = row(name, path)
        except NetgradError as error:
            print(f"{name:44} {str(error).splitlines()[0][:100]}", flush=True)
            continue
        if name in zoo:
            worst = max(worst, ratio)
        print(line, flush=True)
    print(f"largest ratio of the zoo for all weights, to the graph as shipped: {worst:.2f}")
    if not corpus:
        print("(`make corpus` fetches more models)")


if __name__ == "__main__":
    main()
