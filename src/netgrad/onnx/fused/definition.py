"""How the definition of a fused operator is declared, and what writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import onnx
import onnx.parser
import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.edit import as_operator

_VERSION: Final = 18  # of the operators in the definitions


class NotYetKnownError(UnsupportedOperatorError):
    """A definition needs a rank or a type that is not known (yet): another expansion may make it known."""


class Writer:
    """Writes a definition, operator by operator, for one node."""

    def __init__(self, node: onnx_ir.Node) -> None:
        self.node = node
        self.lines: list[str] = []

    # ---- the node -----------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        """Whether the node has input ``index``."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def used(self, index: int) -> bool:
        """Whether anybody reads output ``index`` of the node."""
        if index >= len(self.node.outputs):
            return False
        output = self.node.outputs[index]
        return bool(output.uses()) or output.is_graph_output()

    def attribute(self, name: str, default: Any = None) -> Any:
        """The attribute ``name`` of the node."""
        given = self.node.attributes.get(name)
        return default if given is None else given.value

    def rank(self, index: int) -> int:
        """The rank of input ``index``, which the node has."""
        value = self.node.inputs[index]
        if value is None or value.shape is None:
            raise NotYetKnownError(self._message(f"the rank of its input {index} is unknown"))
        return value.shape.rank()

    def dim(self, index: int, axis: int) -> int | None:
        """One dim of input ``index``, or None where it is not known before the model runs."""
        value = self.node.inputs[index]
        if value is None or value.shape is None or not -value.shape.rank() <= axis < value.shape.rank():
            return None
        dim = value.shape[axis]
        return dim if isinstance(dim, int) else None

    def dtype(self, index: int) -> onnx_ir.DataType | None:
        """The element type of input ``index``, or None where it is not known."""
        value = self.node.inputs[index]
        return None if value is None else value.dtype

    def known_dtype(self, index: int) -> onnx_ir.DataType:
        """The element type of input ``index``, which the node has."""
        dtype = self.dtype(index)
        if dtype is None:
            raise NotYetKnownError(self._message(f"the type of its input {index} is unknown"))
        return dtype

    def refused(self, why: str) -> UnsupportedOperatorError:
        """The error of a form that the definition does not cover."""
        return UnsupportedOperatorError(self._message(why))

    def refuse_outputs(self, **outputs: int) -> None:
        """Refuse the node if anybody reads one of these outputs, which no definition covers."""
        for name, index in outputs.items():
            if self.used(index):
                raise self.refused(f"its output {index}, '{name}', is used, which the definition leaves out")

    def refuse_inputs(self, **inputs: int) -> None:
        """Refuse the node if it has one of these inputs, which no definition covers."""
        for name, index in inputs.items():
            if self.has(index):
                raise self.refused(f"its input {index}, '{name}', is not understood")

    def refuse_attributes(self, **defaults: Any) -> None:
        """Refuse the node if one of these attributes is not at its default."""
        for name, default in defaults.items():
            if self.attribute(name, default) != default:
                raise self.refused(f"{name} = {self.attribute(name)!r} is not understood, only {default!r}")

    def _message(self, why: str) -> str:
        return f"no gradient for this form of {as_operator(self.node)}: {why}"

    # ---- the definition -----------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Write one operator in the standard's text form."""
        self.lines.append(text)

    def op(self, op_type: str, *operands: str, to: str | None = None, **attributes: Any) -> str:
        """Write one operator with one output, called ``to`` or anything free; gives its name."""
        (name,) = self.ops(op_type, *operands, to=(to or self._free(op_type),), **attributes)
        return name

    def cast(self, value: str, dtype: onnx_ir.DataType) -> str:
        """Write ``value`` as another element type; gives its name."""
        name = self._free("cast")
        self.line(f"{name} = Cast <to = {int(dtype)}> ({value})")
        return name

    def ops(self, op_type: str, *operands: str, to: Sequence[str], **attributes: Any) -> Sequence[str]:
        """Write one operator with the outputs ``to``; an attribute that is None is left out."""
        given = [f"{name} = {_text(value)}" for name, value in attributes.items() if value is not None]
        options = f"<{', '.join(given)}>" if given else ""
        self.line(f"{', '.join(to)} = {op_type} {options} ({', '.join(operands)})")
        return to

    def ints(self, *values: int) -> str:
        """Write a constant of one axis of int64; gives its name."""
        return self.op("Constant", value_ints=list(values))

    def number(self, value: float, like: str, name: str | None = None) -> str:
        """Write a constant scalar of the element type of ``like``; gives its name."""
        wide = self._free("number")
        self.line(f"{wide} = Constant <value = double {{{float(value)!r}}}> ()")
        return self.op("CastLike", wide, like, to=name)

    def size(self, value: str, axis: int) -> str:
        """Write the dim of ``value`` along ``axis``, as one int64 in one axis; gives its name."""
        return self.op("Shape", value, start=axis, end=axis + 1 if axis != -1 else None)

    def attributes(self, *names: str, **renamed: str) -> str:
        """Those attributes that the node sets, as they are written behind an operator."""
        written = []
        for name, source in [*((name, name) for name in names), *renamed.items()]:
            value = self.attribute(source)
            if value is not None:
                written.append(f"{name} = {_text(value)}")
        return f"<{', '.join(written)}>" if written else ""

    def _free(self, stem: str) -> str:
        return f"{stem.lower()}_{len(self.lines)}"


def _text(value: Any) -> str:
    """An attribute's value in the standard's text form."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, Sequence):
        return f"[{', '.join(map(repr, value))}]"
    return repr(value)


Write: TypeAlias = Callable[[Writer], None]


@dataclass(frozen=True)
class Definition:
    """One fused operator.

    Attributes:
        write: Writes the definition of one node.
        inputs: Names of the inputs in the definition.
        outputs: Names of the outputs in the definition.
        attributes: The attributes that it understands; a node with any other is refused.
    """

    write: Write
    inputs: Sequence[str]
    outputs: Sequence[str]
    attributes: Sequence[str]


_DEFINITIONS: dict[tuple[str, str], Definition] = {}


def fused(
    *op_types: str, inputs: str, outputs: str = "y", attributes: str = "", domain: str = "com.microsoft"
) -> Callable[[Write], Write]:
    """Declare what writes the definition of operators; names are given in one string, parted by spaces."""

    def declare(write: Write) -> Write:
        for op_type in op_types:
            _DEFINITIONS[domain, op_type] = Definition(
                write, inputs.split(), outputs.split(), attributes.split()
            )
        return write

    return declare


def is_fused(node: onnx_ir.Node) -> bool:
    """Whether the node's operator has a definition here."""
    return (node.domain, node.op_type) in _DEFINITIONS


def fused_operators() -> list[tuple[str, str]]:
    """Domain and type of every operator with a definition here."""
    return sorted(_DEFINITIONS)


def fused_formula(domain: str, op_type: str) -> str:
    """What an operator of `fused_operators` computes: the first paragraph about its definition."""
    first = (_DEFINITIONS[domain, op_type].write.__doc__ or "").split("\n\n", maxsplit=1)[0]
    return " ".join(first.split())


def fused_definition(node: onnx_ir.Node) -> onnx.FunctionProto:
    """The definition of one node for which `is_fused`, with its attributes written into it.

    Raises:
        NotYetKnownError: The definition depends on a rank or a type that is unknown.
        UnsupportedOperatorError: The node has a form that the definition does not cover.
    """
    definition = _DEFINITIONS[node.domain, node.op_type]
    writer = Writer(node)
    unknown = sorted(set(node.attributes) - set(definition.attributes))
    if unknown:
        raise writer.refused(f"its attribute '{unknown[0]}' is not understood")
    if len(node.inputs) > len(definition.inputs):
        raise writer.refused(f"it has {len(node.inputs)} inputs, {len(definition.inputs)} are understood")
    definition.write(writer)
    inputs = ", ".join(definition.inputs[: len(node.inputs)])
    outputs = ", ".join(definition.outputs[: len(node.outputs)])
    text = f'<opset_import: ["": {_VERSION}], domain: "netgrad"> definition ({inputs}) => ({outputs}) {{\n'
    return onnx.parser.parse_function(text + "\n".join(writer.lines) + "\n}")
