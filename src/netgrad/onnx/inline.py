"""Inlining of the functions that a model defines itself."""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx_ir
from onnx_ir.passes import InvariantError, common

from netgrad.core.errors import InvalidModelError
from netgrad.onnx.read import reason_of


def inline_functions(model: onnx_ir.Model, opaque: Collection[tuple[str, str]] = ()) -> list[str]:
    """Replace the calls of model-local functions by the function's body, in place.

    The outputs of a call keep their names. A function written for another version of the default operator set
    than the model is inlined as it is: each of its nodes says its version, from which ``opset.lift`` starts.

    Args:
        model: The model.
        opaque: Domain and name of functions that stay, and whose calls do; what they call is inlined in them.
            Functions of the same domains that nobody calls stay, too: a rule may write calls of them.

    Returns:
        What was done, one readable line each.

    Raises:
        InvalidModelError: A function calls itself, or a call does not fit its function.
    """
    if not model.functions:
        return []
    imports = {id(function): dict(function.opset_imports) for function in model.functions.values()}
    for function in model.functions.values():
        version = function.opset_imports.get("")
        if version is not None:
            for node in function.all_nodes():
                node.version = version
        for domain, imported in function.opset_imports.items():
            if domain != "":
                model.opset_imports[domain] = max(imported, model.opset_imports.get(domain, 0))
        # From here on versions are the nodes' own; the inliner would refuse functions that differ from the
        # model.
        function.opset_imports.clear()
        part_outputs(function)
    domains = {domain for domain, _ in opaque}
    called = _called(model)

    def inlined(function: onnx_ir.Function) -> bool:
        spare = function.domain in domains and function.identifier() not in called
        return not spare and (function.domain, function.name) not in opaque

    calls = inline_calls(model, inlined)
    for function in model.functions.values():
        function.opset_imports.update(imports[id(function)])
    return [f"inlined {calls} calls of model-local functions"] if calls else []


def drop_uncalled(model: onnx_ir.Model) -> None:
    """Remove the functions that no node is a call of, in place."""
    called = _called(model)
    for identifier in [identifier for identifier in model.functions if identifier not in called]:
        del model.functions[identifier]


def _called(model: onnx_ir.Model) -> set[onnx_ir.OperatorIdentifier]:
    bodies = [model.graph, *(function.graph for function in model.functions.values())]
    return {node.op_identifier() for body in bodies for node in body.all_nodes()}


def inline_calls(model: onnx_ir.Model, wanted: Callable[[onnx_ir.Function], bool]) -> int:
    """Put the bodies of the wanted functions in the place of their calls, and drop these functions.

    Returns:
        How many calls there were in the main graph.

    Raises:
        InvalidModelError: A function calls itself, or a call does not fit its function.
    """
    try:
        result = common.InlinePass(wanted)(model)
    except (InvariantError, RuntimeError, ValueError) as error:
        raise InvalidModelError(f"the model's functions cannot be inlined: {reason_of(error)}") from error
    for identifier, function in list(model.functions.items()):
        if wanted(function):  # what is left of these is never called
            del model.functions[identifier]
    return sum(getattr(result, "id_count", {}).values())


def part_outputs(function: onnx_ir.Function) -> None:
    """Make every output of a function the output of a node of its own, so that a call's names can be kept."""
    seen: set[onnx_ir.Value] = set()
    for index, output in enumerate(function.outputs):
        if output.producer() is None or output in seen:
            copy = onnx_ir.Node("", "Identity", [output])
            copy.outputs[0].type, copy.outputs[0].shape = output.type, output.shape
            function.append(copy)
            function.outputs[index] = copy.outputs[0]
        seen.add(output)
