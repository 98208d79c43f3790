"""A net in parts: runs of operators that become one ONNX model each, and operators between them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.execute import Program, ShapeOfValuesError
from netgrad.caffe2.running.blob import is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.errors import RunError
from netgrad.caffe2.running.registry import Runner, runner_of, text_runner_of
from netgrad.core import NetgradError

if TYPE_CHECKING:
    from netgrad.caffe2.running.workspace import Workspace

_CACHED_PROGRAMS = 512


class LoweredPart:
    """Operators that are compiled to one ONNX model for the types and ranks of what they read."""

    def __init__(self, definitions: Sequence[OperatorDef]) -> None:
        self._program = _program(definitions)
        self.definitions = self._program.definitions
        self._reads = self._program.reads()
        self._one_by_one: list[Part] | None = None
        self._shapes_of_values = False  # whether some operator needs a shape that only running tells

    @property
    def compiled(self) -> int:
        """How many models it has been compiled to."""
        return self._program.compiled

    def run(self, workspace: Workspace) -> None:
        """Run the operators, and write what they write to the workspace's blobs.

        Raises:
            RunError: A blob is missing or holds nothing, or the operators can't run.
        """
        values = {blob: workspace.value(blob, self._reader(blob)) for blob in self._reads}
        if self._shapes_of_values or not all(is_tensor(value) for value in values.values()):
            self._run_one_by_one(workspace)
            return
        try:
            results = self._program.run_values(values)
        except ShapeOfValuesError as error:
            if len(self.definitions) == 1:
                raise RunError(str(error)) from error
            self._shapes_of_values = True
            self._run_one_by_one(workspace)
            return
        except NetgradError as error:
            raise RunError(str(error)) from error
        for blob, value in results.items():
            workspace.create_blob(blob).value = value

    def _reader(self, blob: str) -> OperatorDef:
        return next(definition for definition in self.definitions if blob in definition.input)

    def _run_one_by_one(self, workspace: Workspace) -> None:
        """Each operator for itself: some read texts, which ONNX Runtime isn't given, or need shapes."""
        if len(self.definitions) > 1:
            self._one_by_one = self._one_by_one or [LoweredPart([one]) for one in self.definitions]
            for part in self._one_by_one:
                part.run(workspace)
            return
        definition = self.definitions[0]
        odd = [blob for blob in definition.input if not is_tensor(workspace.value(blob, definition))]
        runner = text_runner_of(definition)
        if runner is None or not all(is_text(workspace.value(blob, definition)) for blob in odd):
            kinds = ", ".join(
                f"'{blob}' ({type(workspace.value(blob, definition)).__name__})" for blob in odd
            )
            raise RunError(
                f"{to_operator(definition)} can't run: it computes with numbers, and reads {kinds}"
            )
        runner(Call(definition, workspace, {}))


class PythonPart:
    """One operator that runs in Python."""

    def __init__(self, definition: OperatorDef, runner: Runner) -> None:
        self.definitions = [definition]
        self._runner = runner
        self._memory: dict[str, Any] = {}

    def run(self, workspace: Workspace) -> None:
        """Run the operator."""
        try:
            self._runner(Call(self.definitions[0], workspace, self._memory))
        except RunError:
            raise
        except NetgradError as error:
            raise RunError(f"{to_operator(self.definitions[0])} can't run: {error}") from error


Part: TypeAlias = "LoweredPart | PythonPart"


def partition(definitions: Iterable[OperatorDef]) -> list[Part]:
    """The operators of a net as the fewest parts that keep their order."""
    parts: list[Part] = []
    together: list[OperatorDef] = []
    for definition in definitions:
        runner = runner_of(definition)
        if runner is None:
            together.append(_without_mutex(definition))
            continue
        if together:
            parts.append(LoweredPart(together))
            together = []
        parts.append(PythonPart(definition, runner))
    if together:
        parts.append(LoweredPart(together))
    return parts


def _without_mutex(definition: OperatorDef) -> OperatorDef:
    """A counter that is locked, as one that isn't: operators run one after the other."""
    if definition.type != "AtomicIter":
        return definition
    plain = _copy(definition)
    plain.type = "Iter"
    del plain.input[0]
    return plain


_programs: OrderedDict[bytes, Program] = OrderedDict()
_programs_lock = Lock()


def _program(definitions: Sequence[OperatorDef]) -> Program:
    """The program of a list of operators; the same list, used again, has the same program.

    Programs with seeded operators are not shared, since a net that is created anew draws the same numbers
    again.
    """
    if any(definition.device_option.HasField("random_seed") for definition in definitions):
        return Program(definitions)
    key = b"".join(
        len(content).to_bytes(8, "little") + content
        for content in (definition.SerializeToString(deterministic=True) for definition in definitions)
    )
    with _programs_lock:
        found = _programs.get(key)
        if found is None:
            found = _programs[key] = Program([_copy(definition) for definition in definitions])
            if len(_programs) > _CACHED_PROGRAMS:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
    return found


def _copy(definition: OperatorDef) -> OperatorDef:
    copy = OperatorDef()
    copy.CopyFrom(definition)
    return copy
