"""Gradients of random graphs against PyTorch's: python -m tests.parity.random_graphs --graphs 2000 --seed 0.

The graphs are those of `tests.onnx.random_graphs`, with the same numbers. Both sides compute in float64,
netgrad's on ONNX Runtime, and whole gradients are compared, by every input and initializer. `--record FILE`
writes the totals; a run that was stopped goes on where it was if it is given the same `--log`.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from tests.onnx.random_graphs.graphs import Arrays, Graph, recipe_of, sized
from tests.onnx.random_graphs.judge import gradient_of, with_inputs
from tests.onnx.random_graphs.many import command_line
from tests.onnx.random_graphs.running import in_float64
from tests.parity.torch_interpreter import UnknownOperatorError, gradients, inlined

TOLERANCE = 1e-10
"""Norm of the difference of two gradients, relative to that of PyTorch's."""

FLOOR = 1e-12
"""The same, relative to the size of the objective's terms and of the graph's largest gradient."""

STEPS = 1e-5, 1e-6
"""Of the differences, to both sides, that say whether there is a derivative at all."""

UNSTEADY = 1e-3
"""Relative difference of slopes, between steps or sides, from which on the point is at a corner."""

MOST_SKIPPED = 0.01
"""Share of the gradients that may be taken at a corner."""


@dataclass
class Verdict:
    """What was found of one graph.

    Attributes:
        compared: Gradients, of one input or initializer each, that were compared.
        zero: Those that are zero on both sides.
        skipped: Gradients that differ where the graph has no derivative.
        largest: The largest difference, as a share of what is allowed.
        wrong: A line for each that is wrong.
        unknown: Operators that PyTorch's side has not, for which the graph doesn't count.
    """

    compared: int = 0
    zero: int = 0
    skipped: int = 0
    largest: float = 0.0
    wrong: list[str] = field(default_factory=list)
    unknown: str = ""


def judge(graph: Graph) -> Verdict:
    """Compare the outputs of a graph, and its gradients by all inputs and initializers."""
    verdict = Verdict()
    point = {**graph.inputs, **graph.weights}
    rng = np.random.default_rng([graph.recipe.seed, 13])
    proto, outputs, seeds = gradient_of(graph)
    try:
        expected, cotangents, theirs = gradients(
            graph.model, point, lambda shape: np.asarray(rng.normal(size=shape))
        )
    except UnknownOperatorError as error:
        verdict.unknown = str(error)
        return verdict
    feeds = {**graph.inputs, **{seeds[name]: array for name, array in cotangents.items()}}
    values = in_float64(proto, feeds)[0](feeds)
    for name, array in expected.items():
        if not np.allclose(values[name], array, rtol=TOLERANCE, atol=TOLERANCE):
            verdict.wrong.append(f"output {name} {array.shape} of the forward graph")
    magnitude = float(sum(np.abs(expected[name] * c).sum() for name, c in cotangents.items()))
    magnitude = max(magnitude, *(float(np.linalg.norm(each)) for each in theirs.values()))
    for name, array in theirs.items():
        ours = values[outputs[name]]
        if ours.shape != array.shape:
            verdict.wrong.append(f"gradient by {name} {array.shape}: has the shape {ours.shape}")
            continue
        difference = float(np.linalg.norm(ours - array))
        allowed = TOLERANCE * float(np.linalg.norm(array)) + FLOOR * magnitude
        if difference <= allowed:
            verdict.compared += 1
            verdict.zero += not array.any()
            verdict.largest = max(verdict.largest, difference / allowed if difference else 0.0)
            continue
        direction = (ours - array) / difference
        slopes = _slopes(graph, point, cotangents, name, direction)
        if max(slopes) - min(slopes) > UNSTEADY * max(*(abs(slope) for slope in slopes), 1e-6 * magnitude):
            verdict.skipped += 1
            continue
        verdict.compared += 1
        verdict.wrong.append(
            f"gradient by {name} {array.shape} along the difference: {(ours * direction).sum():.12g}, "
            f"PyTorch {(array * direction).sum():.12g}, differences {', '.join(f'{s:.9g}' for s in slopes)}"
        )
    return verdict


def _slopes(graph: Graph, point: Arrays, cotangents: Arrays, name: str, direction: np.ndarray) -> list[float]:
    """One-sided differences, free of curvature, at both steps and to both sides."""
    forward, _ = in_float64(with_inputs(graph), point)

    def objective(t: float) -> float:
        outputs = forward({**point, name: point[name] + t * direction})
        return float(sum((outputs[key] * each).sum() for key, each in cotangents.items()))

    here = objective(0.0)
    return [
        (4 * objective(side * step) - 3 * here - objective(2 * side * step)) / (2 * side * step)
        for step in STEPS
        for side in (1, -1)
    ]


def verdict_of(seed: int) -> dict[str, Any]:
    """What became of one graph, as plain numbers."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    graph = sized(recipe_of(seed))
    try:
        verdict = judge(graph)
    except Exception as error:
        return {"seed": seed, "nodes": graph.nodes, "failed": [f"{type(error).__name__}: {error}"[:400]]}
    return {
        "seed": seed,
        "nodes": graph.nodes,
        "compared": verdict.compared,
        "zero": verdict.zero,
        "skipped": verdict.skipped,
        "largest": verdict.largest,
        "failed": verdict.wrong,
        "unknown": verdict.unknown,
        "operators": dict(Counter(node.op_type for node in inlined(graph.model).graph.node)),
    }


def summary(seed: int, verdicts: list[dict[str, Any]]) -> dict[str, Any]:
    """The totals, for the record; graphs with an operator that PyTorch's side has not don't count."""
    counted = [verdict for verdict in verdicts if not verdict.get("unknown")]
    operators = Counter[str]()
    for verdict in counted:
        operators.update(verdict.get("operators", {}))
    nodes = [verdict["nodes"] for verdict in counted]
    return {
        "seed": seed,
        "graphs": len(counted),
        "not_expressible": len(verdicts) - len(counted),
        "wrong": sum(bool(verdict["failed"]) for verdict in counted),
        "wrong_graphs": [verdict["seed"] for verdict in counted if verdict["failed"]],
        "nodes": sum(nodes),
        "fewest_nodes": min(nodes),
        "most_nodes": max(nodes),
        "gradients_compared": sum(verdict.get("compared", 0) for verdict in counted),
        "gradients_that_are_zero": sum(verdict.get("zero", 0) for verdict in counted),
        "gradients_skipped": sum(verdict.get("skipped", 0) for verdict in counted),
        "largest_difference_of_allowed": max(verdict.get("largest", 0.0) for verdict in counted),
        "tolerance": TOLERANCE,
        "operators": dict(sorted(operators.items())),
        "onnx": onnx.__version__,
        "onnxruntime": onnxruntime.__version__,
        "torch": torch.__version__,
    }


def main() -> int:
    """Judge the graphs, and write the record."""
    assert __doc__ is not None
    return command_line(__doc__.splitlines()[0], lambda graph: judge(graph).wrong, verdict_of, summary)


if __name__ == "__main__":
    sys.exit(main())
