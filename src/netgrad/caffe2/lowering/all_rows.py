"""Gradients of weights in a step net: one product of the rows of all steps, in place of a sum of products."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef
from netgrad.caffe2.lowering.context import Context
from netgrad.caffe2.lowering.registry import lower
from netgrad.onnx.builder import Value

_Hook = Callable[[Value], Mapping[str, Value]]


class AllRows:
    """The ``FCGradient`` operators of a backward net whose gradients of weights and bias are only summed.

    dW = sum over t of dY_t^T.X_t is the product of all rows of dY and X, which ONNX Runtime computes faster.

    Args:
        net: The net of a backward step.
        summed: The blobs whose sums over the steps are wanted, each with the parameter that it is for.

    Attributes:
        names: Those of them that are found here.
        rows: X and dY of each operator, as the step has them; known once the step is written.
    """

    def __init__(self, net: NetDef, summed: Collection[tuple[str, str]]) -> None:
        wanted = [blob for blob, _ in summed]
        reads = {blob for op in net.op for blob in op.input}
        writers = [blob for op in net.op for blob in op.output]
        self._operators = [
            op
            for op in net.op
            if op.type == "FCGradient"
            and (op.output[0], op.input[1]) in summed  # so the weights are the same in each step
            and all(
                wanted.count(blob) == 1 and writers.count(blob) == 1 and blob not in reads
                for blob in op.output[:2]
            )
        ]
        self.names = {blob for op in self._operators for blob in op.output[:2]}
        self.rows: list[Value] = []

    def hooks(self, values: Mapping[str, Value]) -> dict[str, _Hook]:
        """What notes the rows when the step is written; ``values`` are the step's blobs."""

        def noting(op: OperatorDef) -> _Hook:
            def note(_: Value) -> Mapping[str, Value]:
                self.rows += [values[op.input[0]], values[op.input[2]]]
                return {}

            return note

        return {op.output[0]: noting(op) for op in self._operators}

    def written(self, c: Context, rows: Sequence[Value], inputs: Mapping[str, Value]) -> dict[str, Value]:
        """The gradients.

        Args:
            c: The operator that holds the net.
            rows: Those noted, of all steps, with the steps as first axis.
            inputs: What is the same in each step, the weights among it.
        """
        found: dict[str, Value] = {}
        for at, op in enumerate(self._operators):
            x, dy = rows[2 * at : 2 * at + 2]
            weights = inputs[op.input[1]]
            whole = OperatorDef()
            whole.CopyFrom(op)
            del whole.output[2:]
            del whole.arg[:]
            whole.arg.extend(argument for argument in op.arg if argument.name != "axis")
            axis = Context(op, c.b).argument("axis", 1)
            whole.arg.add(name="axis", i=axis + 1 if axis >= 0 else axis)
            gradients = lower(Context(whole, c.b), [x, weights, dy])
            for blob, gradient in zip(op.output, gradients, strict=False):
                assert gradient is not None, "both are asked for"
                found[blob] = gradient
        return found
