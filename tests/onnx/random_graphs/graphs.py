"""A random graph from a recipe, and recipes from a seed or from hypothesis.

A recipe is a list of makers with a seed each. A recipe with a step less is a recipe, too, so that a graph
whose gradient is wrong can be made smaller by leaving steps out.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import onnx
from hypothesis import strategies as st
from onnx import helper, numpy_helper

from tests.onnx.random_graphs import control, elementwise, indexing, products, reductions, shapes
from tests.onnx.random_graphs.makers import MAKERS
from tests.onnx.random_graphs.writer import DOMAIN, Drawn, Shared, Writer

FAMILIES = (elementwise, reductions, products, shapes, indexing, control)
FEWEST, MOST = 20, 200
OLDEST, NEWEST = 13, onnx.defs.onnx_opset_version()

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Recipe:
    """How to make a graph.

    Attributes:
        seed: Seed of the inputs.
        opset: Version of the default domain.
        kernels: "double", or "any" if there may be operators that ONNX Runtime has in float32 only.
        symbolic: Whether the dims of the inputs are unknown until the model runs.
        size: With so many nodes no further step is taken.
        steps: Makers by name, each with a seed of its own.
    """

    seed: int
    opset: int
    kernels: str
    symbolic: bool
    size: int
    steps: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Graph:
    """A random graph.

    Attributes:
        model: The model.
        inputs: An array for each graph input.
        weights: The floating-point initializers.
        nodes: Number of nodes, those of all subgraphs and functions included.
        recipe: What made it, with the steps that were taken.
    """

    model: onnx.ModelProto
    inputs: Arrays
    weights: Arrays
    nodes: int
    recipe: Recipe

    @property
    def outputs(self) -> list[str]:
        return [value.name for value in self.model.graph.output]


INPUT_SHAPES = [
    *[(2, 3), (3,), (4, 3), (2, 1), (1, 4), (6,), (2, 3, 4), (3, 1, 2), (), (2, 3, 2, 2)],
    *[(1, 3, 5, 4), (2, 4, 4, 4), (2, 4, 6)],
]


def build(recipe: Recipe, dtype: str = "float64") -> Graph:
    """The graph of a recipe; in float32 it has the same values, up to rounding."""
    shared = Shared(recipe.opset, recipe.kernels, dtype, recipe.symbolic)
    rng = np.random.default_rng(recipe.seed)
    g = Writer(shared, rng)
    for k in range(g.number(1, 4)):
        shape = g.choose(*INPUT_SHAPES)
        g.inputs[f"x{k}"] = g.array(rng.uniform(-2, 2, size=shape))
        g.pool.append(Drawn(f"x{k}", shape, 2.0))
    taken = []
    for name, seed in recipe.steps:
        if shared.nodes >= recipe.size:
            break
        g.rng = np.random.default_rng([recipe.seed, seed])
        before = shared.nodes
        MAKERS[name].make(g)
        if shared.nodes > before:
            taken.append((name, seed))
    outputs = [value.name for value in g.pool if value.name not in g.used] or [g.pool[-1].name]
    return Graph(
        _model(g, outputs),
        dict(g.inputs),
        {name: array for name, array in g.initializers.items() if array.dtype.kind == "f"},
        shared.nodes,
        replace(recipe, steps=tuple(taken)),
    )


def _model(g: Writer, outputs: list[str]) -> onnx.ModelProto:
    inputs = []
    for name, array in g.inputs.items():
        dims = [f"{name}_{axis}" for axis in range(array.ndim)] if g.shared.symbolic else array.shape
        inputs.append(helper.make_tensor_value_info(name, g.element_type, dims))
    ranks = {value.name: value.rank for value in g.pool}
    graph = helper.make_graph(
        g.nodes,
        "random",
        inputs,
        [helper.make_tensor_value_info(name, g.element_type, [None] * ranks[name]) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in g.initializers.items()],
    )
    opsets = [helper.make_opsetid("", g.opset)]
    if g.shared.functions:
        opsets.append(helper.make_opsetid(DOMAIN, 1))
    return helper.make_model(
        graph,
        functions=g.shared.functions,
        opset_imports=opsets,
        ir_version=max(8, min(helper.find_min_ir_version_for(opsets, ignore_unknown=True), 13)),
    )


def allowed(opset: int, kernels: str, only: Collection[str] | None = None) -> list[str]:
    """Makers that a graph of this opset can use."""
    return [
        name
        for name, each in MAKERS.items()
        if each.since <= opset <= each.until
        and (each.double or kernels == "any")
        and (only is None or name in only)
    ]


def recipe_of(seed: int, only: Collection[str] | None = None) -> Recipe:
    """The recipe with this seed."""
    rng = np.random.default_rng([seed, 7])
    opset = int(rng.integers(OLDEST, NEWEST + 1))
    kernels = "double" if rng.random() < 0.4 else "any"
    names = allowed(opset, kernels, only)
    weights = np.asarray([MAKERS[name].weight for name in names])
    size = FEWEST + int((MOST - 20 - FEWEST) * rng.random() ** 3)
    drawn = rng.choice(names, size=size, p=weights / weights.sum())
    steps = tuple((str(name), int(rng.integers(1 << 20))) for name in drawn)
    return Recipe(seed, opset, kernels, bool(rng.random() < 0.4), size, steps)


def sized(recipe: Recipe) -> Graph:
    """The graph of a recipe, with the last steps taken back as far as it would have too many nodes."""
    graph = build(recipe)
    while graph.nodes > MOST:
        graph = build(replace(graph.recipe, steps=graph.recipe.steps[:-1]))
    return graph


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    """A hypothesis strategy: shrinking leaves out steps, and lowers opset and seeds."""
    opset = draw(st.integers(OLDEST, NEWEST))
    kernels = draw(st.sampled_from(["double", "any"]))
    makers = st.sampled_from(sorted(allowed(opset, kernels)))
    steps = draw(st.lists(st.tuples(makers, st.integers(0, 1 << 20)), min_size=FEWEST, max_size=50))
    return Recipe(draw(st.integers(0, 1 << 20)), opset, kernels, draw(st.booleans()), MOST - 20, tuple(steps))


def smallest(recipe: Recipe, fails: object) -> Recipe:
    """The recipe with every step left out that is not needed for ``fails(recipe)`` to hold."""
    assert callable(fails)
    current, chunk = recipe, max(len(recipe.steps) // 2, 1)
    while chunk:
        position = 0
        while position < len(current.steps):
            steps = current.steps[:position] + current.steps[position + chunk :]
            shorter = replace(current, steps=steps)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if steps and fails(shorter):
                    current = shorter
                    continue
            position += chunk
        chunk //= 2
    return current
