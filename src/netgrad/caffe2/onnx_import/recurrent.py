"""RNN, GRU and LSTM: a ``RecurrentNetwork`` for each direction.

ONNX has the weights of all directions and gates in one tensor; Caffe2 has the gates in another order, and the
biases of a step apart from those of its row. So rows are gathered, and parameters keep their names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from netgrad.caffe2.arguments import make_argument
from netgrad.caffe2.caffe2_pb2 import NetDef, OperatorDef, TensorProto
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes
from netgrad.caffe2.recurrence import Link
from netgrad.caffe2.recurrence_backward import backward_arguments, link_arguments

_GATES = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 1, 3)}
"""Where Caffe2's gates stand in ONNX's order: r z h of z r h, and i f o c of i o f c."""

_STATES = {"RNN": ("hidden",), "GRU": ("hidden",), "LSTM": ("hidden", "cell")}
_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_OF_RNN = {"tanh": "Tanh", "relu": "Relu", "sigmoid": "Sigmoid", "softsign": "Softsign"}
_W, _R, _B, _LENGTHS, _INITIAL, _PEEPHOLES = 1, 2, 3, 4, 5, 7


@writes("RNN", "GRU", "LSTM")
def _recurrent(n: Node) -> None:
    """Past its end a sequence keeps its state; an empty one has its initial state to the end."""
    _check(n)
    way = n.attribute("direction", "forward")
    reverse = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(way)
    if reverse is None:
        raise n.refused(f"its direction '{way}' is unknown")
    functions = _activations(n, len(reverse))
    batch_first = bool(n.attribute("layout", 0))
    rows = n.step("Transpose", n.inputs[:1], axes=[1, 0, 2]) if batch_first else n.inputs[0]
    lengths = n.inputs[_LENGTHS] if n.has(_LENGTHS) else ""
    turning = lengths or (_all_lengths(n, rows) if True in reverse else "")
    valid = _valid(n, rows, lengths) if lengths else ""
    found: list[list[str]] = []
    for direction, backwards in enumerate(reverse):
        cell = _Cell(n, direction, len(reverse), functions[direction], lengths)
        given = n.step("ReversePackedSegs", [rows, turning]) if backwards else rows
        everything, *last = cell.write(given)
        if backwards:
            everything = n.step("ReversePackedSegs", [everything, turning])
        if valid:
            everything = n.step("Mul", [everything, valid])
        found.append([n.step("ExpandDims", [everything], dims=[1]), *last])
    for at, (output, axis) in enumerate(zip(n.outputs, (1, 0, 0), strict=False)):
        parts = [direction[at] for direction in found]
        whole = n.fresh("directions") if batch_first else output
        if len(parts) == 1:
            n.write("Copy", parts, [whole])
        else:
            n.write("Concat", parts, [whole, n.fresh("sizes")], axis=axis)
        if batch_first:
            n.write("Transpose", [whole], [output], axes=[1, 0, 2] if at else [2, 0, 1, 3])


def _check(n: Node) -> None:
    """Refuse what Caffe2's units don't have."""
    if n.has(_PEEPHOLES):
        raise n.refused("Caffe2's LSTMUnit has no peepholes")
    if n.attribute("clip", None) is not None:
        raise n.refused("Caffe2's units don't clip what they compute")
    if n.attribute("input_forget", 0):
        raise n.refused("Caffe2's LSTMUnit has a gate of its own for forgetting")


def _activations(n: Node, directions: int) -> list[list[str]]:
    """The activation functions of each direction."""
    default = _FUNCTIONS[n.op.type]
    names: list[str] = n.attribute("activations", default * directions)
    count = len(default)
    each = [names[at * count : (at + 1) * count] for at in range(directions)]
    for functions in each:
        lowered = [name.lower() for name in functions]
        if n.op.type == "RNN" and len(lowered) == 1 and lowered[0] in _OF_RNN:
            continue
        if lowered != [name.lower() for name in default]:
            raise n.refused(f"Caffe2's unit has the activations {', '.join(default)}")
    return each


def _all_lengths(n: Node, rows: str) -> str:
    """The number of steps for each sequence of the batch."""
    shape = n.step("Shape", [rows])
    steps, batch = (n.step("Slice", [shape], starts=[at], ends=[at + 1]) for at in (0, 1))
    return n.step("Cast", [n.step("Tile", [steps, batch], axis=0)], to=TensorProto.INT32)


def _valid(n: Node, rows: str, lengths: str) -> str:
    """1 for the steps within each sequence and 0 for those behind it, (steps, batch, 1)."""
    steps = n.step("Slice", [n.step("Shape", [rows])], starts=[0], ends=[1])
    numbers = n.step("Cast", [n.step("Range", [steps])], to=TensorProto.INT32)
    within = n.step("GT", [lengths, n.step("ExpandDims", [numbers], dims=[1])])
    mask = n.step("StopGradient", [n.step("Cast", [within], to=_number(n))])
    return n.step("ExpandDims", [mask], dims=[2])


def _number(n: Node) -> int:
    """Caffe2's number of the type of the weights."""
    return n.number_of(n.info(_R).dtype or ir.DataType.FLOAT)


class _Cell:
    """One direction that is being written."""

    def __init__(self, n: Node, direction: int, directions: int, functions: list[str], lengths: str) -> None:
        self.n = n
        self._direction = direction
        self._directions = directions
        self._functions = functions
        self._lengths = lengths
        self._gates = _GATES[n.op.type]
        self._size = int(n.attribute("hidden_size", 0)) or n.dim(_R, 2)
        self._name = n.fresh("cell")
        self._step = NetDef(name=self._name, type="simple")
        self._read: list[str] = []

    def write(self, rows: str) -> list[str]:
        """Write the operators; give the hidden states of all steps, and the states after the last one."""
        n, name = self.n, self._name
        before = {state: f"{name}/{state}_before" for state in _STATES[n.op.type]}
        after = {state: f"{name}/{state}" for state in before}
        weights = self._rows_of(n.inputs[_W], self._gates, [-1, n.dim(_W, 2)], "w")
        sequence = n.step("FC", [rows, weights, self._bias(0, self._gates)], axis=2)
        row, number = f"{name}/row", f"{name}/timestep"
        initial = [self._initial(at) for at in range(len(before))]
        {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[n.op.type](before, after, row, number)
        self._step.external_input.extend([row, number, *before.values(), *self._read])
        self._step.external_output.extend(after.values())
        states = {state: f"{name}/{state}_states" for state in before}
        outputs = {state: [f"{name}/{state}_all", f"{name}/{state}_last"] for state in before}
        shown = [
            (states[state], blob, offset)
            for state in states
            for blob, offset in zip(outputs[state], (1, -1), strict=True)
        ]
        links = [
            link
            for state in states
            for link in (Link(before[state], states[state], 0), Link(after[state], states[state], 1))
        ]
        backward = backward_arguments(
            self._step,
            (row, sequence),
            {before[state]: (states[state], after[state]) for state in states},
            self._read,
            name=f"{name}/backward",
            # the sequence, and the last rows of the states
            outputs_with_grads=[place for at, place in enumerate((0, 1, 3)) if n.reads_output(at)] or [0],
        )
        n.write(
            "RecurrentNetwork",
            [sequence, *initial, *self._read],
            [*(blob for _, blob, _ in shown), f"{name}/step_workspaces"],
            alias_src=[state for state, _, _ in shown],
            alias_dst=[blob for _, blob, _ in shown],
            alias_offset=[offset for _, _, offset in shown],
            recurrent_states=list(states.values()),
            initial_recurrent_state_ids=list(range(1, 1 + len(initial))),
            **link_arguments("link", [*links, Link(row, sequence, 0)]),
            step_net=self._step,
            timestep=number,
            **backward,
        )
        return [outputs["hidden"][0], *(outputs[state][1] for state in outputs)]

    # ---- parameters ----------------------------------------------------------------------------------

    def _rows_of(
        self,
        tensor: str,
        gates: tuple[int, ...],
        shape: list[int],
        wish: str,
        block: int = 0,
        blocks: int = 1,
    ) -> str:
        """The rows of some gates of this direction, each of which has several blocks of them in a tensor."""
        n, size, count = self.n, self._size, len(self._gates)
        first = (self._direction * blocks + block) * count
        places = np.concatenate([np.arange(size) + (first + gate) * size for gate in gates])
        flat = n.write("Reshape", [tensor], [n.fresh(f"{wish}_rows"), n.fresh("old_shape")], shape=shape)
        chosen = n.parameter(places.astype(np.int64), f"{wish}_places")
        return n.step("Gather", [flat, chosen], dense_gradient=1)

    def _bias(self, block: int, gates: tuple[int, ...]) -> str:
        """The bias of a row (block 0) or of a step (1)."""
        n = self.n
        if n.has(_B):
            return self._rows_of(n.inputs[_B], gates, [-1], "b", block, 2)
        dtype = n.info(_R).dtype
        zeros = np.zeros(len(gates) * self._size, np.float32 if dtype is None else dtype.numpy())
        return n.parameter(zeros, "b")

    def _initial(self, at: int) -> str:
        """What a state starts with: (1, batch, size), or zeros for any batch."""
        n = self.n
        if not n.has(_INITIAL + at):
            dtype = n.info(_R).dtype
            return n.parameter(
                np.zeros(self._size, np.float32 if dtype is None else dtype.numpy()), "initial"
            )
        given = n.inputs[_INITIAL + at]
        if n.attribute("layout", 0):
            given = n.step("Transpose", [given], axes=[1, 0, 2])
        if self._directions == 1:
            return given
        direction = self._direction
        return n.step("Slice", [given], starts=[direction, 0, 0], ends=[direction + 1, -1, -1])

    # ---- steps ---------------------------------------------------------------------------------------

    def _add(self, type_: str, inputs: list[str], output: str, *others: str, **arguments: Any) -> str:
        """Write an operator of a step."""
        definition = OperatorDef(type=type_, name="", input=inputs, output=[output, *others])
        for key, value in arguments.items():
            definition.arg.append(make_argument(key, value))
        self._step.op.append(definition)
        return output

    def _outer(self, blob: str) -> str:
        """A blob from outside that a step reads."""
        if blob not in self._read:
            self._read.append(blob)
        return blob

    def _product(self, state: str, gates: tuple[int, ...], output: str) -> str:
        """The product of a state with the recurrent weights of some gates, and their bias."""
        weights = self._rows_of(self.n.inputs[_R], gates, [-1, self._size], "r")
        parameters = [self._outer(weights), self._outer(self._bias(1, gates))]
        return self._add("FC", [state, *parameters], f"{self._name}/{output}", axis=2)

    def _unit(self, type_: str, before: list[str], gates: str, number: str, after: list[str]) -> None:
        end = [self._outer(self._lengths), number] if self._lengths else [number]
        self._add(type_, [*before, gates, *end], *after, sequence_lengths=int(bool(self._lengths)))

    def _lstm(self, before: dict[str, str], after: dict[str, str], row: str, number: str) -> None:
        product = self._product(before["hidden"], self._gates, "product")
        gates = self._add("Sum", [product, row], f"{self._name}/gates")
        self._unit("LSTMUnit", list(before.values()), gates, number, list(after.values()))

    def _gru(self, before: dict[str, str], after: dict[str, str], row: str, number: str) -> None:
        name, state = self._name, before["hidden"]
        reset, update, candidate = self._gates
        parts = [f"{name}/row_{gate}" for gate in ("reset", "update", "candidate")]
        self._add("Split", [row], *parts, axis=2)
        opened = self._add(
            "Sum", [self._product(state, (reset,), "reset_product"), parts[0]], f"{name}/reset"
        )
        share = self._add("Sigmoid", [opened], f"{name}/share")
        kept = self._add(
            "Sum", [self._product(state, (update,), "update_product"), parts[1]], f"{name}/update"
        )
        if self.n.attribute("linear_before_reset", 0):
            product = self._product(state, (candidate,), "candidate_product")
            old = self._add("Mul", [share, product], f"{name}/old")
        else:
            old = self._product(self._add("Mul", [share, state], f"{name}/old"), (candidate,), "old_product")
        new = self._add("Sum", [old, parts[2]], f"{name}/candidate")
        gates = self._add("Concat", [opened, kept, new], f"{name}/gates", f"{name}/gate_sizes", axis=2)
        self._unit("GRUUnit", [state], gates, number, [after["hidden"]])

    def _rnn(self, before: dict[str, str], after: dict[str, str], row: str, number: str) -> None:
        name, state = self._name, before["hidden"]
        summed = self._add("Sum", [self._product(state, self._gates, "product"), row], f"{name}/sum")
        function = _OF_RNN[self._functions[0].lower()]
        if not self._lengths:
            self._add(function, [summed], after["hidden"])
            return
        new = self._add(function, [summed], f"{name}/new")
        # as numbers: Caffe2 has no gradient of choices
        valid = self._add("GT", [self._outer(self._lengths), number], f"{name}/valid", broadcast=1)
        ended = self._add("Not", [valid], f"{name}/ended")
        parts = [
            self._add("Mul", [blob, self._mask(mask)], f"{blob}_part")
            for blob, mask in ((new, valid), (state, ended))
        ]
        self._add("Sum", parts, after["hidden"])

    def _mask(self, choice: str) -> str:
        """1 where a choice holds, and 0, for each sequence of the batch, (batch, 1)."""
        numbers = self._add("Cast", [choice], f"{choice}_numbers", to=_number(self.n))
        constant = self._add("StopGradient", [numbers], f"{choice}_constant")
        return self._add("ExpandDims", [constant], f"{choice}_column", dims=[1])
