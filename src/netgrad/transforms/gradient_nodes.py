"""Nodes of the standard's operator Gradient, replaced by the backward pass that they ask for."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from netgrad.core.backward import backward_pass
from netgrad.core.errors import InvalidModelError, UnsupportedOperatorError, nearest
from netgrad.onnx.edit import Editor, all_graphs, as_operator, inner_graphs
from netgrad.onnx.lowering.gradients import GradientForm, gradient_form, is_gradient
from netgrad.onnx.lowering.lower import drop_unused_imports
from netgrad.onnx.names import NameAuthority
from netgrad.onnx.rules.results import infer_results
from netgrad.onnx.rules.source import OnnxRules
from netgrad.onnx.rules.vocabulary import OnnxVocabulary
from netgrad.onnx.shapes import infer_shapes
from netgrad.onnx.view import TensorInfo, all_names, operator_of, value_types, values_of
from netgrad.transforms.composites import expand_composites, on_paths
from netgrad.transforms.drawn import drop_unread_draws, save_draws
from netgrad.transforms.emit import Emitter, emit_all, provenance_of_backward
from netgrad.transforms.outputs import add_needed_outputs, drop_unread
from netgrad.transforms.saved import drop_unread_states, save_states


def lower_gradients(model: ir.Model) -> list[str]:
    """Replace every Gradient node by standard operators, in place.

    The function that a Gradient differentiates is cut out of its graph: it leads from the values in xs and
    zs, which are independent whatever computes them, to y. Where the node's inputs are those values
    themselves, the forward pass is shared; else the function is written again, on the node's inputs. If y has
    several elements, their sum is differentiated. A Gradient may differentiate what another one gives. In a
    branch or in the body of a loop it differentiates within that graph.

    Args:
        model: A prepared model.

    Returns:
        What was done, one readable line each.

    Raises:
        InvalidModelError: A node names a value that its graph does not have.
        UnsupportedOperatorError: An operator in the way has no rule.
    """
    waiting = [node for node in model.graph.all_nodes() if is_gradient(node)]
    count = len(waiting)
    while waiting:
        # The order of nodes says nothing: that y is another one's output, the inputs don't show.
        ready = next((node for node in waiting if not any(map(is_gradient, _function(node)))), None)
        if ready is None:
            raise InvalidModelError(f"{as_operator(waiting[0])} is not valid: it differentiates itself")
        waiting.remove(ready)
        _lower(model, ready)
        infer_shapes(model)
    if not count:
        return []
    drop_unused_imports(model)
    return [f"wrote the backward pass of {count} Gradient nodes"]


def _graph_of(node: ir.Node) -> ir.Graph:
    assert isinstance(node.graph, ir.Graph), "functions have been inlined"
    return node.graph


def _function(node: ir.Node) -> list[ir.Node]:
    """The nodes that lead from xs and zs to y, in the graph's order."""
    graph, form = _graph_of(node), gradient_form(node)
    values = {value.name: value for value in values_of(graph) if value.name}
    for name in (*form.arguments, form.y):
        if name not in values:
            raise InvalidModelError(
                f"{as_operator(node)} names '{name}', which its graph does not have{nearest(name, values)}"
            )
    return _between(graph, [values[name] for name in form.arguments], values[form.y])


def _scope(model: ir.Model, graph: ir.Graph) -> list[ir.Graph]:
    """The graphs whose values the nodes of ``graph`` may read, the outermost first and itself last."""
    around = {inner: outer for outer in all_graphs(model) for node in outer for inner in inner_graphs(node)}
    scope = [graph]
    while scope[0] in around:
        scope.insert(0, around[scope[0]])
    return scope


def _types(scope: Sequence[ir.Graph], variables: Sequence[str]) -> dict[str, TensorInfo]:
    """What is known of the values in a scope; ``variables`` are differentiated by."""
    known: dict[str, TensorInfo] = {}
    for graph in scope:
        known.update(value_types(graph, variables))
    return known


def _between(graph: ir.Graph, arguments: Sequence[ir.Value], result: ir.Value) -> list[ir.Node]:
    independent, found, pending = set(arguments), set[ir.Node](), [result]
    while pending:
        value = pending.pop()
        producer = value.producer()
        if value in independent or producer is None or producer in found or producer.graph is not graph:
            continue
        found.add(producer)
        pending += [read for read in producer.inputs if read is not None]
        for inner in inner_graphs(producer):
            pending += [read for one in inner.all_nodes() for read in one.inputs if read is not None]
            pending.extend(inner.outputs)
    return [node for node in graph if node in found]


def _lower(model: ir.Model, node: ir.Node) -> None:
    graph, form = _graph_of(node), gradient_form(node)
    scope = _scope(model, graph)
    values = {value.name: value for value in values_of(graph) if value.name}
    given = [value for value in node.inputs if value is not None]
    if [value.name for value in given] != list(form.arguments):
        form = _instantiated(model, node, form, values)
    imports = model.opset_imports
    opset = imports[""]
    rules = OnnxRules(_types(scope, form.xs), opset, imports=imports)
    infer_results(model, rules.declaration)
    expand_composites(model, form.xs, [form.y], rules, graph)
    infer_shapes(model)
    values = {value.name: value for value in values_of(graph) if value.name}
    arguments, result = [values[name] for name in form.arguments], values[form.y]

    rules = OnnxRules(_types(scope, form.xs), opset, imports=imports)
    operators = [operator_of(one) for one in _between(graph, arguments, result)]
    active = on_paths(operators, form.xs, [form.y])
    added = add_needed_outputs(graph, rules, active)
    saved, drawn = save_states(graph, active), save_draws(graph, active)
    function = _between(graph, arguments, result)
    operators = [operator_of(one) for one in function]
    types = _types(scope, form.xs)
    rules = rules.over(operators, types)
    vocabulary = OnnxVocabulary(types, opset)
    free = NameAuthority(all_names(model.graph))
    backward = backward_pass(
        operators,
        [form.y],
        rules,
        wrt=form.xs,
        accumulation="auto",
        vocabulary=vocabulary,
        single_assignment=True,
        reserved=free.taken,
    )
    standing = set(graph.initializers)
    emitter = Emitter(graph, {value.name or "": value for one in scope for value in values_of(one)})
    wanted = [str(backward.gradients[name]) for name in form.xs if name in backward.gradients]

    emit_all(emitter, backward.operators, wanted, provenance_of_backward(operators, backward, rules))
    blobs: list[str] = []
    free = NameAuthority([*all_names(model.graph), *emitter.values])
    for name in form.xs:
        blobs.append(str(backward.gradients.get(name) or free.unique(f"{name}_grad/zeros")))
        if name not in backward.gradients:
            for op in vocabulary.zeros(name, blobs[-1]):
                emitter.emit(op, None)
    _hand_out(model, node, form, [emitter.values[blob] for blob in blobs])
    graph.remove(node, safe=True)
    drop_unread(added)
    drop_unread_states(saved)
    drop_unread_draws(drawn)
    if graph is not model.graph:  # a prepared model has its constants in the main graph
        for name in [name for name in graph.initializers if name not in standing]:
            model.graph.register_initializer(graph.initializers.pop(name))
    graph.sort()


def _hand_out(model: ir.Model, node: ir.Node, form: GradientForm, gradients: Sequence[ir.Value]) -> None:
    """Give the gradients the names and the readers of the node's outputs."""
    editor = Editor(model)
    graph = _graph_of(node)
    types = {value.name: value for value in values_of(graph)}
    for name, output, gradient in zip(form.xs, node.outputs, gradients, strict=False):
        if not output.name:
            continue
        copy = ir.Node("", "Identity", [gradient], name=editor.fresh_node(f"{node.name}_{name}"))
        copy.outputs[0].name = editor.fresh(f"{node.name}_{name}")
        graph.append(copy)
        copy.outputs[0].type = types[name].type
        copy.outputs[0].shape = None if types[name].shape is None else ir.Shape(list(types[name].shape or ()))
        editor.take_over(output, copy.outputs[0])


def _instantiated(
    model: ir.Model, node: ir.Node, form: GradientForm, values: dict[str, ir.Value]
) -> GradientForm:
    """Write the function a second time, on the node's own inputs; give the names that stand for the first."""
    editor = Editor(model)
    graph, function = _graph_of(node), _function(node)
    inside = [one for one in function if inner_graphs(one)]
    if inside:
        raise UnsupportedOperatorError(
            f"{as_operator(node)} is to differentiate at other values than it names, and on the way is "
            f"{as_operator(inside[0])}, which holds graphs: netgrad does not write these a second time",
            hint="feed it the values that xs and zs name",
        )
    known: dict[ir.Value, ir.Value] = {}
    names: list[str] = []

    def append(one: ir.Node, wishes: Sequence[str]) -> None:
        for output, wish in zip(one.outputs, wishes, strict=True):
            output.name = editor.fresh(f"{node.name}_{wish}") if wish else ""
        graph.append(one)

    for name, value in zip(form.arguments, node.inputs, strict=True):
        # A copy each: one value may be fed for two arguments, and they are differentiated by apart.
        copy = ir.Node("", "Identity", [value], name=editor.fresh_node(f"{node.name}_Identity"))
        append(copy, [name])
        if value is not None:
            copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
        known[values[name]] = copy.outputs[0]
        names.append(copy.outputs[0].name or "")
    for one in function:
        again = ir.Node(
            one.domain,
            one.op_type,
            [None if value is None else known.get(value, value) for value in one.inputs],
            list(one.attributes.values()),
            num_outputs=len(one.outputs),
            name=editor.fresh_node(f"{node.name}_{one.op_type}"),
        )
        append(again, [output.name or "" for output in one.outputs])
        known.update((old, new) for old, new in zip(one.outputs, again.outputs, strict=True))
    infer_shapes(model)
    result = known.get(values[form.y], values[form.y])
    return GradientForm(tuple(names[: len(form.xs)]), tuple(names[len(form.xs) :]), result.name or "")
