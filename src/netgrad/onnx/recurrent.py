"""RNN, GRU and LSTM in terms of standard operators: a Scan over the sequence for each direction.

The formulas are those of the standard's operator documentation. Gates are ordered as there: GRU z, r, h; LSTM
i, o, f, c with peepholes P = i, o, f. What does not depend on the state is computed for the whole sequence in
one product before the Scan.

Where ``sequence_lens`` is given, the state stands still from a sequence's end on (in the reverse direction:
up to it), and Y is zero there. All that an empty sequence gives is zero, as ONNX Runtime has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import onnx
import onnx.parser
import onnx_ir

from netgrad.core.errors import UnsupportedOperatorError
from netgrad.onnx.edit import as_operator

_Activation: TypeAlias = "tuple[str, list[float]]"

RECURRENT = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Operators with a definition here, and how many gates each has."""

_FUNCTIONS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}

_PARAMETERS: dict[str, tuple[tuple[str, float | None], ...]] = {
    "affine": (("alpha", None), ("beta", None)),
    "elu": (("alpha", 1.0),),
    "hardsigmoid": (("alpha", 0.2), ("beta", 0.5)),
    "leakyrelu": (("alpha", 0.01),),
    "relu": (),
    "scaledtanh": (("alpha", None), ("beta", None)),
    "sigmoid": (),
    "softplus": (),
    "softsign": (),
    "tanh": (),
    "thresholdedrelu": (("alpha", None),),
}
"""Activation functions and their parameters with their defaults.

None where the standard and ONNX Runtime differ, or where neither says: the node must give it.
"""

_OPERATORS = {
    "elu": "Elu",
    "hardsigmoid": "HardSigmoid",
    "leakyrelu": "LeakyRelu",
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "softplus": "Softplus",
    "softsign": "Softsign",
    "tanh": "Tanh",
    "thresholdedrelu": "ThresholdedRelu",
}

_TYPES = {
    onnx_ir.DataType.FLOAT: "float",
    onnx_ir.DataType.DOUBLE: "double",
    onnx_ir.DataType.FLOAT16: "float16",
    onnx_ir.DataType.BFLOAT16: "bfloat16",
}


def recurrent_definition(node: onnx_ir.Node) -> onnx.FunctionProto:
    """The definition of one RNN, GRU or LSTM node, whose attributes are written into it.

    Raises:
        UnsupportedOperatorError: The node has an attribute or an activation that is not understood.
    """
    return _Writer(node).function()


class _Writer:
    """Writes the definition as text."""

    def __init__(self, node: onnx_ir.Node) -> None:
        self._node = node
        self._lines: list[str] = []
        self._count = 0
        self._gates = RECURRENT[node.op_type]
        self._given = [
            name if value is not None else ""
            for name, value in zip(("X", "W", "R", "B", "lens", "h0", "c0", "P"), node.inputs, strict=False)
        ]
        source = node.inputs[0]
        dtype = None if source is None else source.dtype
        if dtype not in _TYPES:
            raise self._refuse(f"its elements are {'unknown' if dtype is None else dtype.name}")
        self._type = _TYPES[dtype]
        self._element = int(dtype)
        hidden = self._attribute("hidden_size", "?")
        self._state = f"{self._type}[?, {hidden}]"  # ONNX Runtime's Scan needs the rank
        self._batch_first = self._attribute("layout", 0) == 1
        direction = self._attribute("direction", "forward")
        if direction not in ("forward", "reverse", "bidirectional"):
            raise self._refuse(f"direction '{direction}' is unknown")
        self._directions = [0, 1] if direction == "bidirectional" else [int(direction == "reverse")]
        self._activations = self._activation_list()
        clip = self._attribute("clip", None)
        self._clip = None if clip is None else float(clip)

    # ---- attributes -------------------------------------------------------------------------------------

    def _attribute(self, name: str, default: Any) -> Any:
        attribute = self._node.attributes.get(name)
        return default if attribute is None else attribute.value

    def _refuse(self, why: str) -> UnsupportedOperatorError:
        return UnsupportedOperatorError(f"no gradient for this form of {as_operator(self._node)}: {why}")

    def _activation_list(self) -> list[_Activation]:
        """The activation functions, those of each direction in turn, with their parameters."""
        names = self._attribute("activations", _FUNCTIONS[self._node.op_type] * len(self._directions))
        if len(names) != len(_FUNCTIONS[self._node.op_type]) * len(self._directions):
            raise self._refuse(f"it has {len(names)} activations")
        # Each list holds numbers for those functions only that have such a parameter, in their order.
        numbers = {"alpha": list(self._attribute("activation_alpha", ()))}
        numbers["beta"] = list(self._attribute("activation_beta", ()))
        result = []
        for name in names:
            if name.lower() not in _PARAMETERS:
                raise self._refuse(f"activation '{name}' is unknown")
            parameters = []
            for parameter, default in _PARAMETERS[name.lower()]:
                value = numbers[parameter].pop(0) if numbers[parameter] else default
                if value is None:
                    raise self._refuse(f"activation '{name}' has no {parameter}")
                parameters.append(float(value))
            result.append((name.lower(), parameters))
        return result

    # ---- text -------------------------------------------------------------------------------------------

    def _line(self, expression: str, *names: str) -> str:
        """One node; gives the name of its (first) output."""
        if not names:
            self._count += 1
            names = (f"t{self._count}",)
        self._lines.append(f"{', '.join(names)} = {expression}")
        return names[0]

    def _number(self, value: float) -> str:
        """A 0-d constant of the element type."""
        constant = self._line(f"Constant<value_float = {value!r}>()")
        return constant if self._type == "float" else self._line(f"Cast<to = {self._element}>({constant})")

    def _ints(self, *values: int) -> str:
        return self._line(f"Constant<value_ints = [{', '.join(map(str, values))}]>()")

    def _int(self, value: int) -> str:
        return self._line(f"Constant<value_int = {value}>()")

    def _new(self, count: int) -> list[str]:
        self._count += count
        return [f"t{self._count - k}" for k in reversed(range(count))]

    def _split(self, value: str, parts: int, axis: int) -> list[str]:
        if parts == 1:
            return [value]
        names = self._new(parts)
        self._line(f"Split<axis = {axis}, num_outputs = {parts}>({value})", *names)
        return names

    def _per_direction(self, value: str) -> list[str]:
        """A tensor (directions, ..) as one tensor for each direction."""
        axis = self._ints(0)
        return [
            self._line(f"Squeeze({part}, {axis})") for part in self._split(value, len(self._directions), 0)
        ]

    def _has(self, name: str) -> bool:
        return name in self._given

    # ---- the definition ---------------------------------------------------------------------------------

    def function(self) -> onnx.FunctionProto:
        lstm = self._node.op_type == "LSTM"
        swap = "Transpose<perm = [1, 0, 2]>"
        sequence = self._line(f"{swap}(X)") if self._batch_first else "X"
        valid = self._valid(sequence)
        starts = {name: self._starts(name, sequence, swap) for name in (("h0", "c0") if lstm else ("h0",))}
        parts = {name: self._per_direction(name) for name in ("W", "R", "B", "P") if self._has(name)}
        final: dict[str, list[str]] = {"Y": [], "Y_h": [], "Y_c": []}
        for d, direction in enumerate(self._directions):
            own = {name: values[d] for name, values in {**parts, **starts}.items()}
            results = self._direction(d, direction, sequence, valid, own)
            for name, result in zip(("Y_h", "Y_c", "Y") if lstm else ("Y_h", "Y"), results, strict=True):
                final[name].append(result)
        outputs = ("Y", "Y_h", "Y_c") if lstm else ("Y", "Y_h")
        for name in outputs:
            axis = self._ints(1 if name == "Y" else 0)
            rows = [self._line(f"Unsqueeze({value}, {axis})") for value in final[name]]
            joined = self._line(f"Concat<axis = {1 if name == 'Y' else 0}>({', '.join(rows)})")
            back = "Transpose<perm = [2, 0, 1, 3]>" if name == "Y" else swap
            self._line(f"{back if self._batch_first else 'Identity'}({joined})", name)
        inputs = [name or f"absent_{k}" for k, name in enumerate(self._given)]
        lines = "\n".join(self._lines)
        return onnx.parser.parse_function(
            f'<domain: "netgrad", opset_import: ["": 18]> {self._node.op_type} '
            f"({', '.join(inputs)}) => ({', '.join(outputs)}) {{\n{lines}\n}}"
        )

    def _valid(self, sequence: str) -> str:
        """Which steps belong to each sequence: booleans (steps, batch, 1); empty without lengths."""
        if not self._has("lens"):
            return ""
        steps = self._line(f"Squeeze({self._line(f'Shape<start = 0, end = 1>({sequence})')})")
        numbers = self._line(f"Range({self._int(0)}, {steps}, {self._int(1)})")
        rows = self._line(f"Unsqueeze({numbers}, {self._ints(1)})")
        lengths = self._line(f"Unsqueeze({self._line('Cast<to = 7>(lens)')}, {self._ints(0)})")
        return self._line(f"Unsqueeze({self._line(f'Less({rows}, {lengths})')}, {self._ints(2)})")

    def _starts(self, name: str, sequence: str, swap: str) -> list[str]:
        """The initial state of each direction, (batch, hidden)."""
        if self._has(name):
            return self._per_direction(self._line(f"{swap}({name})") if self._batch_first else name)
        batch = self._line(f"Shape<start = 1, end = 2>({sequence})")
        hidden = self._line("Shape<start = 2, end = 3>(R)")
        shape = self._line(f"Concat<axis = 0>({batch}, {hidden})")
        return [self._line(f"Expand({self._number(0.0)}, {shape})")] * len(self._directions)

    def _direction(
        self, d: int, direction: int, sequence: str, valid: str, own: dict[str, str]
    ) -> Sequence[str]:
        """Final states and stacked outputs of one direction."""
        kind = self._node.op_type
        weights = self._line(f"Transpose<perm = [1, 0]>({own['W']})")
        recurrent = self._line(f"Transpose<perm = [1, 0]>({own['R']})")
        driven = self._line(f"MatMul({sequence}, {weights})")
        late = ""  # the recurrent bias where it is multiplied by the reset gate
        if "B" in own:
            bias, recurrent_bias = self._split(own["B"], 2, 0)
            if kind == "GRU" and self._attribute("linear_before_reset", 0):
                late = recurrent_bias
            else:
                bias = self._line(f"Add({bias}, {recurrent_bias})")
            driven = self._line(f"Add({driven}, {bias})")
        outside = len(self._lines)
        states = [f"h{d}", f"c{d}"] if kind == "LSTM" else [f"h{d}"]
        functions = len(_FUNCTIONS[kind])
        step = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}[kind]
        chosen = self._activations[d * functions : (d + 1) * functions]
        following = step(f"x{d}", states, recurrent, late, own.get("P", ""), chosen)
        shown = following[0]
        if valid:
            nothing = self._number(0.0)
            shown = self._line(f"Where(v{d}, {shown}, {nothing})")
            following = [
                self._line(f"Where(v{d}, {new}, {old})") for new, old in zip(following, states, strict=True)
            ]
        # Each output of a graph is a value of its own.
        outputs = [self._line(f"Identity({value})") for value in (*following, shown)]
        inside = "\n".join(self._lines[outside:])
        del self._lines[outside:]
        declared = [f"{self._state} {name}" for name in states]
        declared += [f"{self._type}[?, ?] x{d}"] + [f"bool[?, ?] v{d}"] * bool(valid)
        given = [f"{self._state} {name}" for name in outputs]
        scanned = [driven, valid] if valid else [driven]
        names = self._new(len(outputs))
        self._line(
            f"Scan<num_scan_inputs = {len(scanned)}, scan_input_directions = {[direction] * len(scanned)}, "
            f"scan_output_directions = [{direction}], "
            f"body = step{d} ({', '.join(declared)}) => ({', '.join(given)}) {{\n{inside}\n}}>"
            f"({', '.join([*(own[f'{name[0]}0'] for name in states), *scanned])})",
            *names,
        )
        if valid:
            lengths = self._line(f"Unsqueeze({self._line('Cast<to = 7>(lens)')}, {self._ints(1)})")
            filled = self._line(f"Greater({lengths}, {self._int(0)})")
            nothing = self._number(0.0)
            names[:-1] = [self._line(f"Where({filled}, {name}, {nothing})") for name in names[:-1]]
        return names

    # ---- one step ---------------------------------------------------------------------------------------

    def _activated(self, value: str, activation: _Activation, *, clipped: bool = True) -> str:
        name, parameters = activation
        if self._clip is not None and clipped:
            low, high = self._number(-self._clip), self._number(self._clip)
            value = self._line(f"Clip({value}, {low}, {high})")
        if name == "affine":
            product = self._line(f"Mul({value}, {self._number(parameters[0])})")
            return self._line(f"Add({product}, {self._number(parameters[1])})")
        if name == "scaledtanh":
            inner = self._line(f"Mul({value}, {self._number(parameters[1])})")
            return self._line(f"Mul({self._line(f'Tanh({inner})')}, {self._number(parameters[0])})")
        written = [
            f"{parameter} = {number!r}"
            for (parameter, _), number in zip(_PARAMETERS[name], parameters, strict=True)
        ]
        attributes = f"<{', '.join(written)}>" if written else ""
        return self._line(f"{_OPERATORS[name]}{attributes}({value})")

    def _rnn(
        self, x: str, states: Sequence[str], recurrent: str, late: str, peep: str, f: Sequence[_Activation]
    ) -> list[str]:
        """H' = f(X W + H R + b)."""
        product = self._line(f"MatMul({states[0]}, {recurrent})")
        return [self._activated(self._line(f"Add({x}, {product})"), f[0])]

    def _gru(
        self, x: str, states: Sequence[str], recurrent: str, late: str, peep: str, f: Sequence[_Activation]
    ) -> list[str]:
        """z, r = f(..); n = g(X W + (r H) R + b), or g(X W + r (H R + b)); H' = (1 - z) n + z H."""
        (h,) = states
        driven = self._split(x, 3, -1)
        if self._attribute("linear_before_reset", 0):
            products = self._line(f"MatMul({h}, {recurrent})")
            if late:
                products = self._line(f"Add({products}, {late})")
            parts = self._split(products, 3, -1)
            reset = self._activated(self._line(f"Add({driven[1]}, {parts[1]})"), f[0])
            candidate = self._line(f"Mul({reset}, {parts[2]})")
        else:
            matrices = self._split(recurrent, 3, -1)
            parts = [self._line(f"MatMul({h}, {matrix})") for matrix in matrices[:2]]
            reset = self._activated(self._line(f"Add({driven[1]}, {parts[1]})"), f[0])
            candidate = self._line(f"MatMul({self._line(f'Mul({reset}, {h})')}, {matrices[2]})")
        update = self._activated(self._line(f"Add({driven[0]}, {parts[0]})"), f[0])
        new = self._activated(self._line(f"Add({driven[2]}, {candidate})"), f[1])
        moved = self._line(f"Mul({update}, {self._line(f'Sub({h}, {new})')})")
        return [self._line(f"Add({new}, {moved})")]

    def _lstm(
        self, x: str, states: Sequence[str], recurrent: str, late: str, peep: str, f: Sequence[_Activation]
    ) -> list[str]:
        """i, f = f(.. + P C), n = g(..); C' = f C + i n; o = f(.. + P C'); H' = o h(C')."""
        h, c = states
        peeps = self._split(peep, 3, 0) if peep else []

        def gate(value: str, k: int, cell: str) -> str:
            if peeps:
                value = self._line(f"Add({value}, {self._line(f'Mul({peeps[k]}, {cell})')})")
            return self._activated(value, f[0])

        product = self._line(f"MatMul({h}, {recurrent})")
        sums = self._split(self._line(f"Add({x}, {product})"), 4, -1)
        taken = gate(sums[0], 0, c)
        if self._attribute("input_forget", 0):
            kept = self._line(f"Sub({self._number(1.0)}, {taken})")
        else:
            kept = gate(sums[2], 2, c)
        new = self._activated(sums[3], f[1])
        cell = self._line(f"Add({self._line(f'Mul({kept}, {c})')}, {self._line(f'Mul({taken}, {new})')})")
        shown = self._activated(cell, f[2], clipped=False)
        return [self._line(f"Mul({gate(sums[1], 1, cell)}, {shown})"), cell]
