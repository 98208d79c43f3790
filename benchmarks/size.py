"""Nodes of forward + backward against the forward graph, over the model zoo that the onnx package carries.

Run: python benchmarks/size.py [--models squeezenet,resnet50]

The gradient model is counted whole: the forward nodes that are left after preparation, and the backward pass
for the input, and for all weights. Its ratio is given to the forward graph as shipped, in which each weight
is a node of its own, and to the prepared one, in which weights are initializers.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import onnx

from netgrad.transforms.grad import differentiate

ZOO = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def count(model: onnx.ModelProto, wrt: list[str] | None) -> tuple[int, int, float]:
    """Nodes of the prepared forward graph and of the gradient model, and the seconds it took to write."""
    start = time.perf_counter()
    result = differentiate(model, wrt=wrt)
    seconds = time.perf_counter() - start
    return len(result.forward), sum(1 for _ in result.model.graph.all_nodes()), seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="comma separated parts of file names; default: all")
    wanted = [part for part in parser.parse_args().models.split(",") if part]
    print(
        f"{'':16} {'forward nodes':>17} {'by input':>9} {'by all weights':>15}\n"
        f"{'model':16} {'shipped':>8} {'prepared':>8} {'nodes':>9} {'nodes':>15} "
        f"{'/ shipped':>10} {'/ prepared':>10} {'s':>6}"
    )
    worst = 0.0
    for path in sorted(ZOO.glob("*.onnx")):
        if wanted and not any(part in path.name for part in wanted):
            continue
        model = onnx.load(path)
        shipped = len(model.graph.node)
        initialized = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in initialized]
        _, by_input, _ = count(model, inputs)
        prepared, by_weights, seconds = count(model, None)
        worst = max(worst, by_weights / shipped)
        name = path.stem.removeprefix("light_")
        print(
            f"{name:16} {shipped:8} {prepared:8} {by_input:9} {by_weights:15} "
            f"{by_weights / shipped:10.2f} {by_weights / prepared:10.2f} {seconds:6.2f}",
            flush=True,
        )
    print(f"largest ratio for all weights, to the graph as shipped: {worst:.2f}")


if __name__ == "__main__":
    main()
