"""Checking the nodes of a model against the definitions of their operators."""

from __future__ import annotations

import onnx.checker
import onnx.defs
import onnx_ir

from netgrad.core.errors import InvalidModelError
from netgrad.onnx.edit import all_graphs, as_operator, inner_graphs
from netgrad.onnx.opset import changes
from netgrad.onnx.read import reason_of

_SHOWN = 5  # problems that are told one by one


def check_nodes(model: onnx_ir.Model) -> None:
    """See that every default-domain node has the inputs, outputs and attributes that its operator asks for.

    It is the check that runtimes do when they open a model. Operators that the standard does not know at the
    node's version are left to ``opset.lift``.

    Raises:
        InvalidModelError: Some node does not fit its operator; several are told at once.
    """
    problems: list[str] = []
    context = type(onnx.checker.DEFAULT_CONTEXT)()
    context.ir_version = model.ir_version
    for graph in all_graphs(model):
        for node in graph:
            version = node.version or model.opset_imports.get("", 0)
            known = changes(node.op_type)
            # Nodes with graphs are left out: their graphs read names that the check of one node can't know.
            if node.domain != "" or not known or version < known[0] or inner_graphs(node):
                continue
            if onnx.defs.get_schema(node.op_type, version).deprecated:
                continue  # the checker refuses it, but runtimes do not
            context.opset_imports = {"": version}
            try:
                onnx.checker.check_node(onnx_ir.serde.serialize_node(node), context)
            except (onnx.checker.ValidationError, onnx_ir.serde.SerdeError) as error:
                problems.append(f"{as_operator(node)} of opset {version}: {reason_of(error)}")
    if problems:
        more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise InvalidModelError("the model is not valid\n  " + "\n  ".join(problems[:_SHOWN]) + more)
