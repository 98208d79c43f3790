"""Lifting a model to a later version of the default operator set.

Each operator is brought from the version that it was written for to the target, one change of its definition
at a time. A change is handled by its adapter in ``ADAPTERS``, or needs nothing because it only adds types,
optional inputs, or attributes whose default is the former behaviour. Any other change is refused.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import onnx
import onnx.defs
import onnx.helper
import onnx_ir

from netgrad.core.errors import InvalidModelError, MissingRule, UnsupportedOperatorError
from netgrad.onnx.edit import CannotRewriteError, Editor, all_graphs, as_operator
from netgrad.onnx.fused import is_fused
from netgrad.onnx.opset_forms import ADAPTERS as FORM_ADAPTERS
from netgrad.onnx.opset_meanings import ADAPTERS as MEANING_ADAPTERS
from netgrad.onnx.versions import REVIEWED

REVIEWED_OPSET = REVIEWED[""]
"""Up to this version every change of every operator was read by a person; later ones are refused."""

ADAPTERS = {**FORM_ADAPTERS, **MEANING_ADAPTERS}
"""What to do when an operator crosses a change of its definition, by (operator type, opset of the change)."""


def lift(model: onnx_ir.Model, lowest: int) -> list[str]:
    """Bring every default-domain operator of the model, inner graphs included, to one opset, in place.

    That is ``lowest``, the model's own opset, or the ``version`` of a node (of a function that was inlined),
    whichever is the latest. Shapes should have been inferred: some adapters need a rank.

    Args:
        model: The model, without functions.
        lowest: The opset to lift to at least.

    Returns:
        What was done, one readable line each.

    Raises:
        UnsupportedOperatorError: An operator does not exist in the default domain, or changed in a way that
            cannot be expressed. All of them are named at once.
        InvalidModelError: The model is of an opset that the installed ``onnx`` does not know.
    """
    opset = model.opset_imports.get("", lowest)
    nodes = [node for graph in all_graphs(model) for node in graph if node.domain == ""]
    target = max(lowest, opset, *(node.version or 0 for node in nodes), 0)
    if target > onnx.defs.onnx_opset_version():
        raise InvalidModelError(
            f"the model needs opset {target}, but the installed onnx package knows opset "
            f"{onnx.defs.onnx_opset_version()} at most: install a newer onnx"
        )
    editor = Editor(model)
    changed: Counter[str] = Counter()
    refused: list[MissingRule] = []
    for index, node in enumerate(nodes):
        try:
            changed.update(_lift_node(node, node.version or opset, target, editor))
        except CannotRewriteError as error:
            refused.append(MissingRule(as_operator(node), index, f"no form in opset {target} ({error})"))
    if refused:
        raise UnsupportedOperatorError(
            "\n  ".join(str(missing) for missing in refused),
            refused,
            hint="export the model with a later opset, if you can",
        )
    for graph in all_graphs(model):
        for node in graph:
            node.version = None
    actions = [f"lifted opset {opset} to {target}"] if opset < target else []
    model.opset_imports[""] = target
    needed = _ir_version(target)
    if model.ir_version < needed:
        actions.append(f"raised the IR version {model.ir_version} to {needed}")
        model.ir_version = needed
    return actions + [f"rewrote {count} {what}" for what, count in sorted(changed.items())]


def lift_functions(model: onnx_ir.Model) -> None:
    """Bring the bodies of the model's functions to the model's version of the default operator set, in place.

    Raises:
        UnsupportedOperatorError: See `lift`.
    """
    target = model.opset_imports.get("", 1)
    for function in model.functions.values():
        body = onnx_ir.Model(function.graph, ir_version=model.ir_version)
        if body.opset_imports.get("", target) != target:
            lift(body, target)
            for value in list(function.graph.initializers.values()):
                _write_as_node(value, function.graph)  # a function has no initializers
        function.opset_imports[""] = target


def _write_as_node(value: onnx_ir.Value, graph: onnx_ir.Graph) -> None:
    """Make a Constant node of an initializer, at the front of the graph."""
    tensor = value.const_value
    assert tensor is not None, "an initializer has content"
    node = onnx_ir.Node("", "Constant", [], [onnx_ir.AttrTensor("value", tensor)], name=f"{value.name}_node")
    node.outputs[0].name = value.name
    del graph.initializers[value.name or ""]
    value.replace_all_uses_with(node.outputs[0])
    graph.insert_before(next(iter(graph)), node)


def _lift_node(node: onnx_ir.Node, version: int, target: int, editor: Editor) -> list[str]:
    """Apply every change with ``version`` < change <= ``target``; give what had to be rewritten."""
    node.version = target  # new nodes around it take it over: they are written in the target's form already
    done: list[str] = []
    operator = node.op_type
    if is_fused(node):
        return done  # ONNX Runtime's own, which no opset changes
    if not changes(operator):
        raise CannotRewriteError("the default domain has no such operator")
    while (change := next((v for v in changes(operator) if version < v <= target), None)) is not None:
        adapter = ADAPTERS.get((operator, change))
        if adapter is not None:
            former = _form(node)
            try:
                adapter(node, editor)
            except (AssertionError, LookupError, MemoryError, TypeError, ValueError) as error:
                # What the checker let pass, such as an attribute of another type or an operand left out.
                raise CannotRewriteError(f"the node is malformed: {error}") from error
            if _form(node) != former:
                done.append(f"{operator} of opset {version} into the form of opset {change}")
            operator = node.op_type
        elif change > REVIEWED_OPSET or not only_grows(operator, change):
            raise CannotRewriteError(f"what changed in opset {change} is unknown to netgrad")
        version = change
    return done


def _form(node: onnx_ir.Node) -> tuple[object, ...]:
    return node.op_type, tuple(node.inputs), tuple(node.attributes.items()), len(node.outputs)


@cache
def _history() -> dict[str, tuple[int, ...]]:
    versions: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "":
            versions.setdefault(schema.name, set()).add(schema.since_version)
    return {name: tuple(sorted(numbers)) for name, numbers in versions.items()}


def changes(operator: str) -> tuple[int, ...]:
    """The opsets in which a default-domain operator was defined or its definition changed, in order."""
    return _history().get(operator, ())


@cache
def only_grows(operator: str, change: int) -> bool:
    """Whether a change of an operator's definition leaves every former use as it was, by the two signatures.

    That is: the inputs and outputs are the former ones and perhaps optional ones behind them, the attributes
    are the former ones with their defaults and perhaps optional ones. A first definition counts as one.
    """
    index = changes(operator).index(change)
    if index == 0:
        return True
    former = onnx.defs.get_schema(operator, changes(operator)[index - 1])
    later = onnx.defs.get_schema(operator, change)
    if later.deprecated or len(later.inputs) < len(former.inputs) or len(later.outputs) < len(former.outputs):
        return False
    optional = onnx.defs.OpSchema.FormalParameterOption.Single
    if any(parameter.option == optional for parameter in later.inputs[len(former.inputs) :]):
        return False
    for name, attribute in former.attributes.items():
        if name not in later.attributes:
            return False
        if not attribute.required and _default(later.attributes[name]) != _default(attribute):
            return False
    added = set(later.attributes) - set(former.attributes)
    return not any(later.attributes[name].required for name in added)


def _default(attribute: onnx.defs.OpSchema.Attribute) -> bytes:
    default: bytes = attribute.default_value.SerializeToString()
    return default


def _ir_version(opset: int) -> int:
    version: int = onnx.helper.find_min_ir_version_for([onnx.helper.make_opsetid("", opset)])
    return version
