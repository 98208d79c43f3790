"""The operator Gradient of ``ai.onnx.preview.training``: what it names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir

from netgrad.core.errors import InvalidModelError
from netgrad.onnx.edit import all_graphs, as_operator
from netgrad.onnx.lowering.lower import TRAINING


@dataclass(frozen=True)
class GradientForm:
    """What a Gradient node says.

    Attributes:
        xs: The values to differentiate by.
        zs: The other values that the function depends on.
        y: The value to differentiate.
    """

    xs: tuple[str, ...]
    zs: tuple[str, ...]
    y: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The values that the node's inputs stand for, in their order."""
        return self.xs + self.zs


def is_gradient(node: onnx_ir.Node) -> bool:
    """Whether the node is a Gradient."""
    return node.domain == TRAINING and node.op_type == "Gradient"


def gradient_form(node: onnx_ir.Node) -> GradientForm:
    """Read the attributes of a Gradient node.

    Raises:
        InvalidModelError: One is missing, or does not fit the inputs and outputs.
    """
    given = {name: attribute.value for name, attribute in node.attributes.items()}
    unknown = sorted(set(given) - {"xs", "zs", "y"})
    if unknown or not given.get("xs") or not given.get("y"):
        what = (
            f"its attribute '{unknown[0]}' is not understood" if unknown else "it needs attributes xs and y"
        )
        raise InvalidModelError(f"{as_operator(node)} is not valid: {what}")
    form = GradientForm(tuple(given["xs"]), tuple(given.get("zs") or ()), given["y"])
    if len(node.inputs) != len(form.arguments) or None in node.inputs:
        raise InvalidModelError(
            f"{as_operator(node)} is not valid: xs and zs name {len(form.arguments)} values, "
            f"and it has {sum(value is not None for value in node.inputs)} inputs"
        )
    if len(node.outputs) > len(form.xs):
        raise InvalidModelError(
            f"{as_operator(node)} is not valid: xs names {len(form.xs)} values, "
            f"and it has {len(node.outputs)} outputs"
        )
    return form


def named_by_gradients(model: onnx_ir.Model) -> list[str]:
    """Names of all values that Gradient nodes refer to; these must not be folded away."""
    return [
        name
        for graph in all_graphs(model)
        for node in graph
        if is_gradient(node)
        for name in (*gradient_form(node).arguments, gradient_form(node).y)
    ]


def rename_in_gradients(renamed: Iterable[tuple[onnx_ir.Graph, str, str]]) -> None:
    """Let Gradient nodes name values by their new names, in place.

    Args:
        renamed: Of each renamed value its graph, its old and its new name.
    """
    by_graph: dict[onnx_ir.Graph, dict[str, str]] = {}
    for graph, old, new in renamed:
        by_graph.setdefault(graph, {})[old] = new
    for graph, names in by_graph.items():
        for node in graph:
            if not is_gradient(node):
                continue
            form = gradient_form(node)
            lists = {"xs": form.xs, **({"zs": form.zs} if form.zs else {})}
            for key, given in lists.items():
                node.attributes[key] = onnx_ir.AttrStrings(key, [names.get(name, name) for name in given])
            node.attributes["y"] = onnx_ir.AttrString("y", names.get(form.y, form.y))
