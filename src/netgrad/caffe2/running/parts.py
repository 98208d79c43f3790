"""A net in parts: runs of operators that become one ONNX model each, and operators between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from onnxruntime import OrtValue

from netgrad.caffe2.caffe2_pb2 import OperatorDef
from netgrad.caffe2.definitions import to_operator
from netgrad.caffe2.execute import ShapeOfValuesError
from netgrad.caffe2.lowering.held import ControlFlowError
from netgrad.caffe2.lowering.scopes import CONTROL
from netgrad.caffe2.running.blob import Blob, fed, is_tensor, is_text
from netgrad.caffe2.running.call import Call
from netgrad.caffe2.running.compiled_control import compiles, scopes_of
from netgrad.caffe2.running.errors import RunError, in_original_words
from netgrad.caffe2.running.found import Found
from netgrad.caffe2.running.programs import copied, program_of
from netgrad.caffe2.running.registry import Runner, Update, runner_of, text_runner_of, update_of
from netgrad.caffe2.running.stack import WorkspaceStack
from netgrad.core import NetgradError, RuntimeFailureError

if TYPE_CHECKING:
    from netgrad.caffe2.running.workspace import Workspace


class LoweredPart:
    """Operators that are compiled to one ONNX model for the types and ranks of what they read."""

    def __init__(self, definitions: Sequence[OperatorDef]) -> None:
        self._program = program_of(definitions)
        self.places: Sequence[int] = ()
        self.definitions = self._program.definitions
        self._found: Found | None = None
        self._has_run = False
        self._scopes = [op.output[0] for op in self.definitions if op.type == "CreateScope"]
        self._control = any(op.type in CONTROL for op in self.definitions)
        self._one_by_one: list[Part] | None = None
        self._with_python: list[Part] | None = None  # where the nets that operators hold can't be compiled
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
        if self._with_python is not None:
            for part in self._with_python:
                part.run(workspace)
            return
        if self._found is None or not self._found.holds(workspace):
            self._found = Found(workspace, self._program.reads)
        found = self._found
        values: dict[str, OrtValue] = {}
        odd = self._shapes_of_values or (Blob.any_shared and self._writes_shared(workspace))
        for name, blob in found.read.items():
            value = None if blob is None else blob.engine_value()
            if value is None:
                workspace.value(name, self._reader(name))  # what isn't there is an error
                odd = True
            else:
                values[name] = value
        for name in self._program.reads_perhaps:
            blob = workspace.find(name)
            value = None if blob is None else blob.engine_value()
            if value is not None:
                values[name] = value
        if odd:
            self._run_apart(workspace)
            return
        try:
            done = self._program.run_values(values)
        except ControlFlowError:
            self._run_apart(workspace)
            return
        except ShapeOfValuesError as error:
            if len(self.definitions) == 1 and not self._control:
                raise RunError(str(error)) from error
            self._shapes_of_values = True
            self._run_apart(workspace)
            return
        except RuntimeFailureError as error:
            raise RunError(in_original_words(str(error))) from error
        except NetgradError as error:
            raise RunError(str(error)) from error
        if self._has_run and done.in_order is not None:
            # The results of a run are in memory until the next one, as long as one of them isn't read.
            names, results = done.in_order
            for at, blob in enumerate(found.all_to_write(names)):
                blob.write_later(results, at)
        else:
            for name, result in done.written().items():
                # a workspace holds texts as arrays of bytes
                found.to_write(name).value = result if isinstance(result, OrtValue) else fed(result)
        self._has_run = True
        for name in self._scopes:
            workspace.create_blob(name).value = WorkspaceStack()

    def _writes_shared(self, workspace: Workspace) -> bool:
        """Whether what one operator writes may be seen under the name of a blob that another one reads."""
        if len(self.definitions) == 1:
            return False
        for name in self._program.writes:
            blob = workspace.find(name)
            if blob is not None and blob.memory is not None:
                return True
        return False

    def _reader(self, blob: str) -> OperatorDef:
        return next(definition for definition in self.definitions if blob in definition.input)

    def _run_apart(self, workspace: Workspace) -> None:
        """Operators that hold nets in Python; without any, each operator for itself."""
        if self._control:
            self._with_python = partition(self.definitions, control=False)
            self.run(workspace)
        else:
            self._run_one_by_one(workspace)

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
        self.places: Sequence[int] = ()
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


class UpdatePart:
    """One operator that changes rows of tables: in place, and otherwise compiled."""

    def __init__(self, definition: OperatorDef, update: Update) -> None:
        self.definitions = [definition]
        self.places: Sequence[int] = ()
        self._update = update
        self._compiled: LoweredPart | None = None

    def run(self, workspace: Workspace) -> None:
        """Run the operator."""
        if self._update(Call(self.definitions[0], workspace, {})):
            return
        if self._compiled is None:
            self._compiled = LoweredPart(self.definitions)
        self._compiled.run(workspace)


Part: TypeAlias = "LoweredPart | PythonPart | UpdatePart"


def partition(definitions: Iterable[OperatorDef], *, control: bool = True) -> list[Part]:
    """The operators of a net as the fewest parts that keep their order.

    Args:
        definitions: The operators.
        control: Whether operators that hold nets are compiled as well, as far as they and all in their nets
            can be. Otherwise they run in Python, and their nets each for themselves.
    """
    operators = list(definitions)
    if not control:
        return _parts(operators, lambda _: False)
    parts = _parts(operators, compiles)
    return parts if _keep_scopes(parts) else _parts(operators, lambda op: compiles(op) and not scopes_of(op))


def _keep_scopes(parts: Sequence[Part]) -> bool:
    """Whether every stack of workspaces is written and used in one part: it is no blob outside of it."""
    created: set[str] = set()
    for part in parts:
        own = {op.output[0] for op in part.definitions if op.type == "CreateScope"}
        names = {name for op in part.definitions for name in scopes_of(op)}
        if not names <= own or not names.isdisjoint(created):
            return False
        created |= own
    return True


def _parts(definitions: Sequence[OperatorDef], compiled: Callable[[OperatorDef], bool]) -> list[Part]:
    found = _Parts()
    for at, definition in enumerate(definitions):
        runner = None if compiled(definition) else runner_of(definition)
        update = None if runner is not None else update_of(definition)
        if runner is not None:
            found.end()
            found.add(PythonPart(definition, runner), [at])
        elif update is not None:
            found.updates.append((at, definition, update))
        else:
            found.together(at, definition)
    found.end()
    return found.parts


class _Parts:
    """Parts that are being made.

    Updates of rows come after the operators that are compiled together, those behind them included that have
    nothing to do with them: then a net with many tables is still one model, and the updates.

    Attributes:
        parts: The parts that are ready.
        updates: The updates that are to come, with their places in the net.
    """

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.updates: list[tuple[int, OperatorDef, Update]] = []
        self._together: list[tuple[int, OperatorDef]] = []

    def together(self, at: int, definition: OperatorDef) -> None:
        """Compile an operator with those before it."""
        if any(_depend(update, definition) for _, update, _ in self.updates):
            self.end()
        self._together.append((at, _without_mutex(definition)))

    def end(self) -> None:
        """End the parts that are being made."""
        if self._together:
            self.add(LoweredPart([one for _, one in self._together]), [at for at, _ in self._together])
        for at, definition, update in self.updates:
            self.add(UpdatePart(definition, update), [at])
        self._together, self.updates = [], []

    def add(self, part: Part, places: Sequence[int]) -> None:
        """Add a part with the operators of these places."""
        part.places = places
        self.parts.append(part)


def _depend(first: OperatorDef, second: OperatorDef) -> bool:
    """Whether it matters which of two operators runs first, as it always may where one holds a net."""
    if any(argument.HasField("n") for argument in second.arg):
        return True
    return not {*first.input, *first.output}.isdisjoint(second.output) or not set(first.output).isdisjoint(
        second.input
    )


def _without_mutex(definition: OperatorDef) -> OperatorDef:
    """A counter that is locked, as one that isn't: operators run one after the other."""
    if definition.type != "AtomicIter":
        return definition
    plain = copied(definition)
    plain.type = "Iter"
    del plain.input[0]
    return plain
