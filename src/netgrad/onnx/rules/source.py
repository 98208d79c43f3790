"""The registry of ONNX rules as the backward pass asks for it; the one place that enforces declarations."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from netgrad.core.errors import NetgradError, RuleError
from netgrad.core.operator import Gradient, Operator
from netgrad.onnx.broadcast import unbroadcast
from netgrad.onnx.builder import Builder, Value, same_shape
from netgrad.onnx.infer import attribute_default, schema_of
from netgrad.onnx.rules.choices import NONE_CHOSEN, Choices
from netgrad.onnx.rules.context import RuleContext, unsupported_form
from netgrad.onnx.rules.declaration import Contributions, Declaration, Kind, Origin, declarations
from netgrad.onnx.rules.singular import (
    NOWHERE,
    Singularities,
    may_be_singular,
    singularities,
    without_spurious_nan,
)
from netgrad.onnx.rules.straight_through import of_stand_ins, stand_ins, takes_stand_in
from netgrad.onnx.rules.user import user_declarations
from netgrad.onnx.sequences import cast
from netgrad.onnx.versions import too_new
from netgrad.onnx.view import FLOATING, TensorInfo


class OnnxRules:
    """Gradient rules of ONNX operators over one graph's values (a `netgrad.core.registry.RuleSource`).

    Args:
        types: What is known of every forward value, by name.
        opset: Version of the default domain that the graph uses.
        choices: What the caller chose for single operators.
        singular: Where a cotangent may be infinite, or zero by selection.
        imports: Version of every domain that the model imports.
        stand_ins: Values that are no floating-point numbers but stand for some (see
            `netgrad.onnx.rules.straight_through`), with the type of their cotangents.
    """

    def __init__(
        self,
        types: Mapping[str, TensorInfo],
        opset: int,
        choices: Choices = NONE_CHOSEN,
        singular: Singularities = NOWHERE,
        imports: Mapping[str, int] | None = None,
        stand_ins: Mapping[str, TensorInfo] | None = None,
    ) -> None:
        self.types = types
        self.opset = opset
        self.singular = singular
        self._choices = choices
        self._chosen = bool(choices)  # asked for every operator
        self._imports = {**(imports or {}), "": opset}
        self._stand_ins = dict(stand_ins or {})
        self._declarations = {**declarations(), **user_declarations(), **choices.declarations}

    @property
    def cotangent_types(self) -> Mapping[str, TensorInfo]:
        """Element type and shape of the cotangent of every forward value."""
        return {**self.types, **self._stand_ins} if self._stand_ins else self.types

    def declaration(self, op: Operator) -> Declaration | None:
        """What is declared of the operator, or None."""
        standing = self._declarations.get((op.domain, op.type))
        if not self._chosen:
            return standing
        return self._choices.declared(op, of_stand_ins(op, self._stand_ins) or standing)

    def over(self, operators: Sequence[Operator], types: Mapping[str, TensorInfo]) -> OnnxRules:
        """The same rules for these operators in their order, which is what they need to know for a sweep."""
        found = self._stand_ins
        if self._chosen:
            found = stand_ins(operators, types, self._passes, self._stand_ins)
        singular = singularities(operators, types)
        return OnnxRules(types, self.opset, self._choices, singular, self._imports, found)

    def inside(self, operators: Sequence[Operator], types: Mapping[str, TensorInfo]) -> OnnxRules:
        """The same rules for operators inside an operator, which read values of their own besides."""
        return self.over(operators, {**self.types, **types})

    def _passes(self, op: Operator) -> bool:
        return self._choices.of(op) == "straight-through"

    # ---- RuleSource ---------------------------------------------------------------------------------

    def missing(self, op: Operator) -> str | None:
        """Why ``op`` has no gradient rule, or None if it has one (or is declared to need none)."""
        declared = self.declaration(op)
        if declared is None:
            return "no gradient rule"
        if declared.kind is Kind.NOT_IMPLEMENTED:
            return f"not implemented ({declared.reason}): no gradient rule"
        newer = self._newer(op, declared)
        return None if newer is None else f"{newer}: no gradient rule"

    def blocked_inputs(self, op: Operator) -> Collection[int]:
        """Input positions through which no gradient flows, whatever arrives at the outputs."""
        everything = range(len(op.inputs))
        declared = self.declaration(op)
        if declared is not None and declared.kind in (Kind.NOT_DIFFERENTIABLE, Kind.PIECEWISE_CONSTANT):
            return () if self._newer(op, declared) else everything
        if declared is not None and declared.constant_when is not None and declared.constant_when(op):
            return everything
        if not any(self._may_float(name) or name in self._stand_ins for name in op.outputs if name):
            return everything
        fixed = () if declared is None else declared.not_differentiable
        return [k for k, name in enumerate(op.inputs) if k in fixed or not self._open(op, k)]

    def needs_all_output_gradients(self, op: Operator) -> bool:
        """Whether the rule wants zeros in place of absent output cotangents."""
        declared = self.declaration(op)
        return declared is not None and declared.all_output_gradients

    def needed_outputs(self, op: Operator) -> int:
        """How many outputs of ``op`` its rule reads; optional ones among them may still have to be added."""
        declared = self.declaration(op)
        needed = 0 if declared is None else declared.needs_outputs
        if isinstance(needed, int):
            return needed
        builder = Builder(self.opset, f"{op.outputs[0]}_grad")
        return needed(self._context(builder, op, [True] * len(op.inputs)))

    def gradient(
        self, op: Operator, grads: Sequence[Gradient | None], wanted: Sequence[bool]
    ) -> tuple[Sequence[Operator], Sequence[Gradient | None]]:
        """Run the operator's rule.

        Raises:
            UnsupportedOperatorError: The operator has an attribute or a form that its rule does not know.
            RuleError: The rule broke its contract.
        """
        declared = self.declaration(op)
        assert declared is not None, "missing rules are reported before the sweep"
        if declared.function is None:
            return [], [None] * len(op.inputs)
        self._check_attributes(op, declared)
        builder = Builder(self.opset, f"{op.outputs[0]}_grad")
        context = self._context(builder, op, wanted)
        cotangents: list[Value | None] = []
        for name, grad in zip(op.outputs, grads, strict=True):
            assert grad is None or isinstance(grad, str), "ONNX gradients are dense"
            cotangents.append(None if grad is None else self._cotangent(builder, grad, name))
        try:
            returned = declared.function(context, *cotangents)
        except NetgradError:
            raise
        except Exception as error:
            raise RuleError(f"failed with {type(error).__name__}: {error}", op, declared.source) from error
        contributions = self._checked(context, declared, returned, cotangents)
        return _named(builder, op, contributions)

    # ---- the contract -------------------------------------------------------------------------------

    def _may_float(self, name: str) -> bool:
        """Whether the blob can carry a gradient: floating point, or of unknown type."""
        info = self.types.get(name)
        return bool(name) and (info is None or info.dtype is None or info.dtype in FLOATING)

    def _newer(self, op: Operator, declared: Declaration) -> str | None:
        """Why what is declared is not for the operator's version; None if it is."""
        if declared.origin is not Origin.BUILT_IN and declared.newest is None:
            return None  # whoever chose it knows the model
        return too_new(op.type, op.domain, self._imports, declared.newest)

    def _open(self, op: Operator, index: int) -> bool:
        """Whether a gradient may flow through input ``index``, by its type."""
        name = op.inputs[index]
        return takes_stand_in(op, index) if name in self._stand_ins else self._may_float(name)

    def _context(self, builder: Builder, op: Operator, wanted: Sequence[bool]) -> RuleContext:
        return RuleContext(
            op,
            [self._value(builder, name, takes_stand_in(op, k)) for k, name in enumerate(op.inputs)],
            [self._value(builder, name, True) for name in op.outputs],
            wanted,
            builder,
            self,
            exposed=op.outputs[0] in self.singular.exposed,
            vanishing=op.outputs[0] in self.singular.vanishing,
        )

    def _value(self, builder: Builder, name: str, standing_in: bool) -> Value | None:
        if not name:
            return None
        info = self._stand_ins.get(name) if standing_in else None
        return builder.value(name, info or self.types.get(name, TensorInfo()))

    def _cotangent(self, builder: Builder, grad: str, name: str) -> Value:
        primal = self._stand_ins.get(name) or self.types.get(name, TensorInfo())
        cotangent = builder.value(grad, primal.plain)
        cotangent.shape_owner = name
        return cotangent

    def _check_attributes(self, op: Operator, declared: Declaration) -> None:
        """Refuse an attribute that the rule does not understand, unless it has its default."""
        if declared.attributes is None:
            return
        schema = schema_of(op.type, self._imports.get(op.domain, self.opset), op.domain)
        for name, value in op.attributes.items():
            if name in declared.attributes:
                continue
            default = None if schema is None else attribute_default(schema, name)
            given = list(value) if isinstance(value, tuple) else value
            if default is None or given != default:
                raise unsupported_form(op, f"the rule does not know attribute '{name}' = {value!r}")

    def _checked(
        self,
        context: RuleContext,
        declared: Declaration,
        returned: Contributions,
        cotangents: Sequence[Value | None],
    ) -> list[Value | None]:
        op = context.operator
        contributions = self._aligned(op, declared, returned)
        dy = cotangents[0]
        guarded = op.outputs[0] in self.singular.shadowed and may_be_singular(context)
        for k, contribution in enumerate(contributions):
            if contribution is None:
                continue
            if k in declared.not_differentiable or context.inputs[k] is None:
                raise RuleError(
                    f"returns a gradient for input {k}, which is declared not differentiable or is left out",
                    op,
                    declared.source,
                )
            if guarded and dy is not None and context.wants(k) and contribution.name != dy.name:
                contribution = without_spurious_nan(context.builder, dy, contribution)
            contributions[k] = self._projected(context, declared, contribution, context.required(k))
        for k, name in enumerate(op.inputs):
            fixed = declared.partial or k in declared.not_differentiable
            expected = bool(name) and not fixed and context.wants(k) and self._open(op, k)
            if expected and contributions[k] is None and any(context.outputs):
                raise RuleError(f"returns no gradient for input {k}", op, declared.source)
        return contributions

    def _aligned(self, op: Operator, declared: Declaration, returned: Contributions) -> list[Value | None]:
        """The rule's answer as a list with one entry per input."""
        if returned is None and declared.partial:
            return [None] * len(op.inputs)
        if isinstance(returned, Value) or returned is None:
            fixed = declared.not_differentiable
            differentiable = [k for k in range(len(op.inputs)) if k not in fixed and self._open(op, k)]
            if len(differentiable) != 1:
                raise RuleError(
                    f"returns one value where there are {len(differentiable)} differentiable inputs",
                    op,
                    declared.source,
                )
            contributions: list[Value | None] = [None] * len(op.inputs)
            contributions[differentiable[0]] = returned
            return contributions
        contributions = list(returned)
        if len(contributions) != len(op.inputs):
            raise RuleError(
                f"returns {len(contributions)} gradients where there are {len(op.inputs)} inputs",
                op,
                declared.source,
            )
        return contributions

    def _projected(
        self, context: RuleContext, declared: Declaration, contribution: Value, primal: Value
    ) -> Value:
        """Bring a contribution into the space of its primal: shape, then element type."""
        builder = context.builder
        if contribution.structure is not primal.structure and None not in (contribution.dtype, primal.dtype):
            raise RuleError(
                f"returns a {contribution.structure.value} as the gradient of '{primal.name}', which is a "
                f"{primal.structure.value}",
                context.operator,
                declared.source,
            )
        if declared.broadcasts:
            contribution = unbroadcast(builder, contribution, primal)
        have, want = contribution.static_shape, primal.static_shape
        if have is not None and want is not None and have != want:
            raise RuleError(
                f"returns a gradient of shape {have} for '{primal.name}', which has shape {want}",
                context.operator,
                declared.source,
            )
        if contribution.dtype is not None and primal.dtype is not None:
            contribution = cast(builder, contribution, primal.dtype)
        if not same_shape(contribution, primal):
            builder.assume_shape(contribution, primal.shape)
        return contribution


def _named(
    builder: Builder, op: Operator, contributions: Sequence[Value | None]
) -> tuple[list[Operator], list[Gradient | None]]:
    """Call each contribution that this rule computed ``<input>_grad``; leave passed ones as they are."""
    written = {name for written_by in builder.operators for name in written_by.outputs}
    renamed: dict[str, str] = {}
    taken: set[str] = set()
    for name, contribution in zip(op.inputs, contributions, strict=True):
        if contribution is None or contribution.name not in written or contribution.name in renamed:
            continue
        final = f"{name}_grad"
        if final not in taken:
            taken.add(final)
            renamed[contribution.name] = final
    operators = [
        Operator(
            writer.type,
            tuple(renamed.get(name, name) for name in writer.inputs),
            tuple(renamed.get(name, name) for name in writer.outputs),
            writer.attributes,
            writer.domain,
        )
        for writer in builder.operators
    ]
    return operators, [None if c is None else renamed.get(c.name, c.name) for c in contributions]
