"""What the makers of random graphs write with: values of known shape and bound, and a growing graph.

Every value carries a bound that no element exceeds, which is computed from the bounds of its operands alone.
A value whose bound has grown too large is squashed and one with too many elements is reduced, so that sums of
many terms, products and exponentials stay in a range where central differences in float64 mean something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LARGEST = 4.0
MOST_ELEMENTS = 240
DOMAIN = "tests.local"


@dataclass(frozen=True)
class Drawn:
    """A floating-point value of the graph; no element is larger than ``bound`` in absolute value."""

    name: str
    shape: tuple[int, ...]
    bound: float

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape))


@dataclass
class Shared:
    """What the graph and all graphs in it have in common."""

    opset: int
    kernels: str
    dtype: str
    symbolic: bool = False
    names: int = 0
    functions: list[onnx.FunctionProto] = field(default_factory=list)
    nodes: int = 0


@dataclass
class Writer:
    """A graph that grows: the main one, or the body of a control operator."""

    shared: Shared
    rng: np.random.Generator
    outer: Writer | None = None
    function: bool = False
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: dict[str, np.ndarray] = field(default_factory=dict)
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    pool: list[Drawn] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    # ---- facts ---------------------------------------------------------------------------------------

    @property
    def opset(self) -> int:
        return self.shared.opset

    @property
    def depth(self) -> int:
        return 0 if self.outer is None else self.outer.depth + 1

    @property
    def element_type(self) -> int:
        return int(helper.np_dtype_to_tensor_dtype(np.dtype(self.shared.dtype)))

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def choose(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def number(self, low: int, high: int) -> int:
        """A whole number from low to high, both included."""
        return int(self.rng.integers(low, high + 1))

    def axis(self, value: Drawn) -> int:
        return self.number(0, value.rank - 1)

    def signed(self, axis: int, rank: int) -> int:
        """The same axis, counted from the end half of the time."""
        return axis - rank if self.chance(0.5) else axis

    # ---- writing -------------------------------------------------------------------------------------

    def name(self, stem: str) -> str:
        self.shared.names += 1
        return f"{stem}{self.shared.names}"

    def emit(self, op_type: str, *operands: str | Drawn, outputs: int = 1, **attributes: Any) -> str:
        """Write a node; returns the name of its first output (the others follow it: see `emit_all`)."""
        return self.emit_all(op_type, *operands, outputs=outputs, **attributes)[0]

    def emit_all(
        self, op_type: str, *operands: str | Drawn, outputs: int = 1, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Write a node; returns the names of its outputs."""
        given = [operand.name if isinstance(operand, Drawn) else operand for operand in operands]
        written = [self.name("v") for _ in range(outputs)]
        node = helper.make_node(op_type, given, written, name=self.name("n"), domain=domain, **attributes)
        self.nodes.append(node)
        self.shared.nodes += 1
        self.use(*given)
        return written

    def use(self, *names: str) -> None:
        """Note that values are read, here or in the graphs around."""
        writer: Writer | None = self
        while writer is not None:
            writer.used.update(names)
            writer = writer.outer

    def constant(self, array: Any) -> str:
        """A constant of its own type: an initializer, or the output of a Constant node."""
        array = np.asarray(array)
        if self.function or self.chance(0.2):
            return self.emit("Constant", value=numpy_helper.from_array(array))
        name = self.name("c")
        self.initializers[name] = array
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def real(self, value: Any) -> str:
        """A constant of the graph's own type that is not differentiated."""
        return self.emit("Constant", value=numpy_helper.from_array(self.array(value)))

    def array(self, values: Any) -> np.ndarray:
        """The values in the graph's own type; they are float32 numbers whatever it is."""
        return np.asarray(np.asarray(values, np.float32), self.shared.dtype)

    def keep(self, name: str, shape: Sequence[int], bound: float) -> Drawn:
        """Put a value into the pool, made small first."""
        value = self.small(Drawn(name, tuple(shape), float(bound)))
        self.pool.append(value)
        return value

    def small(self, value: Drawn) -> Drawn:
        """The value, reduced if it has too many elements and squashed if they may be too large."""
        while value.size > MOST_ELEMENTS:
            axis = int(np.argmax(value.shape))
            size = min(2, value.shape[axis] - 1)
            cut = self.emit("Slice", value, self.ints(0), self.ints(size), self.ints(axis))
            shape = (*value.shape[:axis], size, *value.shape[axis + 1 :])
            value = Drawn(cut, shape, value.bound)
        if value.bound <= LARGEST:
            return value
        way = self.choose("Tanh", "Sin", "scale", "root") if value.bound < 40 else self.choose("Sin", "root")
        if way == "scale":
            bound = 2.0
            name = self.emit("Mul", value, self.real(round(bound / value.bound, 4)))
            return Drawn(name, value.shape, bound * 1.01)
        if way == "root":  # x / sqrt(1 + x^2)
            square = self.emit("Mul", value, value)
            root = self.emit("Sqrt", self.emit("Add", square, self.real(1.0)))
            return Drawn(self.emit("Div", value, root), value.shape, 1.0)
        return Drawn(self.emit(way, value), value.shape, 1.0)

    # ---- operands ------------------------------------------------------------------------------------

    def pick(self, wanted: Callable[[Drawn], bool] = lambda value: True) -> Drawn | None:
        """A value from the pool, mostly a late or an unused one; None if none is as wanted."""
        found = [value for value in self.visible() if wanted(value)]
        if not found:
            return None
        fresh = [value for value in found if value.name not in self.used]
        if fresh and self.chance(0.5):
            return fresh[int(self.rng.integers(len(fresh)))]
        late = found[-8:] if self.chance(0.6) else found
        return late[int(self.rng.integers(len(late)))]

    def visible(self) -> list[Drawn]:
        """The pool, and in a body those of the graphs around."""
        return [*(self.outer.visible() if self.outer is not None else ()), *self.pool]

    def any(self) -> Drawn:
        value = self.pick()
        assert value is not None, "a graph begins with inputs"
        return value

    def ranked(self, *ranks: int) -> Drawn:
        """A value of one of these ranks; another one is reshaped if there is none."""
        value = self.pick(lambda each: each.rank in ranks)
        if value is not None and self.chance(0.9):
            return value
        value = self.any()
        shape = self.factors(value.size, int(self.choose(*ranks)))
        return Drawn(self.emit("Reshape", value, self.ints(*shape)), shape, value.bound)

    def factors(self, size: int, rank: int) -> tuple[int, ...]:
        """A random shape of a rank with ``size`` elements; rank 0 takes one element only."""
        if rank == 0:
            assert size == 1, "a scalar has one element"
            return ()
        shape = []
        for _ in range(rank - 1):
            divisors = [d for d in range(1, size + 1) if size % d == 0 and d <= 6]
            shape.append(int(self.choose(*divisors)))
            size //= shape[-1]
        return (*shape, size)

    def weight(self, *shape: int, scale: float = 1.0, low: float | None = None) -> Drawn:
        """An initializer: an older one of the same shape, or a new one.

        Args:
            shape: Its shape.
            scale: Its largest element.
            low: Its smallest element, if it has to be positive.
        """
        if self.function:
            # a scalar, since the operands of a call have any shape
            return Drawn(
                self.real(round(self.rng.uniform(-scale if low is None else low, scale), 3)), (), 1.0
            )
        main = self
        while main.outer is not None:
            main = main.outer
        if low is None and self.chance(0.4):
            for name, array in main.initializers.items():
                bound = float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else np.inf
                if array.shape == shape and bound <= scale:
                    return Drawn(name, shape, bound)
        array = self.rng.uniform(-scale if low is None else low, scale, size=shape)
        if self.chance(0.5):
            array = np.round(array, 3)
        home = self if self.chance(0.3) else main
        name = self.name("w")
        home.initializers[name] = self.array(array)
        return Drawn(name, shape, max(abs(scale), abs(low or 0.0)))

    def partner(self, value: Drawn) -> Drawn:
        """An operand that broadcasts with ``value``: from the pool, or an initializer."""
        found = self.pick(lambda other: compatible(value.shape, other.shape))
        if found is not None and self.chance(0.75):
            return found
        shape = list(value.shape)
        shape = shape[self.number(0, len(shape)) :] if self.chance(0.5) else shape
        shape = [1 if self.chance(0.3) else dim for dim in shape]
        if value.rank < 4 and value.size < 60 and self.chance(0.2):
            shape = [self.number(1, 3)] + [1] * (value.rank - len(shape)) + shape
        return self.weight(*shape)

    def positive(self, value: Drawn) -> Drawn:
        """A smooth function of ``value`` between 0.3 and a bound."""
        way = self.choose("square", "exp", "sigmoid")
        if way == "square":
            name = self.emit("Add", self.emit("Mul", value, value), self.real(0.5))
            return Drawn(name, value.shape, value.bound**2 + 0.5)
        if way == "exp" and value.bound <= 3:
            name = self.emit("Add", self.emit("Exp", value), self.real(0.3))
            return Drawn(name, value.shape, float(np.exp(value.bound)) + 0.3)
        name = self.emit("Add", self.emit("Sigmoid", value), self.real(0.4))
        return Drawn(name, value.shape, 1.4)

    def child(self) -> Writer:
        """A writer of a body in this graph."""
        return Writer(self.shared, self.rng, outer=self)


def compatible(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes broadcast to one that is not too large."""
    pairs = list(zip(reversed(a), reversed(b), strict=False))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return False
    return int(np.prod(np.broadcast_shapes(tuple(a), tuple(b)))) <= MOST_ELEMENTS
