"""What watches the runs of a net that was created."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.running.blob import is_tensor, shape_of
from netgrad.caffe2.running.errors import RunError
from netgrad.core.errors import nearest

if TYPE_CHECKING:
    from netgrad.caffe2.running.net import CreatedNet


class Observer:
    """Is told when a net starts, and when it has ended."""

    def __init__(self, net: CreatedNet) -> None:
        self._net = net

    def start(self) -> None:
        """The net starts."""
        raise NotImplementedError

    def stop(self) -> None:
        """The net has ended, without an error."""
        raise NotImplementedError

    def debug_info(self) -> str:
        """What was seen, in words."""
        raise NotImplementedError


class TimeObserver(Observer):
    """Measures how long a net runs."""

    def __init__(self, net: CreatedNet) -> None:
        super().__init__(net)
        self._runs = 0
        self._seconds = 0.0
        self._started = 0.0

    def start(self) -> None:
        """Note the time."""
        self._started = perf_counter()

    def stop(self) -> None:
        """Add the time that has passed."""
        self._seconds += perf_counter() - self._started
        self._runs += 1

    def average_time(self) -> float:
        """Mean time of a run in milliseconds; 0 before the first."""
        return self._seconds * 1000 / self._runs if self._runs else 0.0

    def average_time_children(self) -> float:
        """The share of an operator in that: operators run in compiled groups, and not one by one."""
        return self.average_time() / max(len(self._net.definition.op), 1)

    def debug_info(self) -> str:
        """How often it ran, and how long."""
        return f"{self._runs} runs of {self.average_time():.6f} ms"


class RunCountObserver(Observer):
    """Counts the operators that ran, with those of a recurrent net's steps."""

    def __init__(self, net: CreatedNet) -> None:
        super().__init__(net)
        self._count = 0

    def start(self) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Count the operators of the net."""
        self._count += sum(1 + self._of_steps(op) for op in self._net.definition.op)

    def _of_steps(self, op: OperatorDef) -> int:
        """How many operators ran within a recurrent operator: in each step those of its step net."""
        arguments = {argument.name: argument for argument in op.arg}
        backward = op.type.endswith("Gradient")
        step_net = arguments.get("backward_step_net" if backward else "step_net")
        if not op.type.startswith("RecurrentNetwork") or step_net is None:
            return 0
        states = arguments["recurrent_states"].strings
        sequences = (blob for blob in arguments["link_external"].strings if blob not in states)
        sequence = self._net.find(next(sequences, b"").decode())
        if sequence is None or not is_tensor(sequence.value):
            return 0
        return shape_of(sequence.value)[0] * len(step_net.n.op)

    def debug_info(self) -> str:
        """How many operators ran."""
        return f"This operator runs {self._count} times."


_KINDS: dict[str, type[Observer]] = {"TimeObserver": TimeObserver, "RunCountObserver": RunCountObserver}


def make_observer(kind: str, net: CreatedNet) -> Observer:
    """An observer of a net.

    Raises:
        RunError: There is none of that kind.
    """
    if kind not in _KINDS:
        raise RunError(f"there are no observers of kind '{kind}'{nearest(kind, _KINDS)}")
    return _KINDS[kind](net)
