"""State that stays with ONNX Runtime from one run to the next, without a copy through Python.

A training step takes parameters and gives new ones. A `Workspace` keeps such pairs in two buffers each: a run
reads one and writes the other, and the next run has them the other way round. Nothing is allocated or copied
for the state, and a run that fails leaves the state as it was before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import onnxruntime

from netgrad.core.errors import InvalidArgumentError, nearest
from netgrad.runtime.session import Session
from netgrad.runtime.tensors import fit_inputs
from netgrad.runtime.values import copy_from_value, copy_to_value, empty_like, share_as_value, write_value


class Workspace:
    """A session with some of its inputs kept between runs.

    Example:
        >>> workspace = Workspace(session, {"W": weights}, feedback={"W_new": "W"})  # doctest: +SKIP
        >>> workspace.run({"x": batch}, ["loss"])["loss"]  # doctest: +SKIP
        >>> workspace.get("W")  # doctest: +SKIP
    """

    def __init__(
        self,
        session: Session,
        state: Mapping[str, Any],
        feedback: Mapping[str, str],
        in_place: Collection[str] = (),
    ) -> None:
        """Copy ``state`` into the workspace.

        Args:
            session: The session to run; several workspaces may share one.
            state: First values of the inputs that are kept, by input name.
            feedback: For outputs that are the next value of a kept input: output name to input name. Kept
                inputs that no output feeds stay as they are until `set` changes them.
            in_place: Kept inputs for which one buffer is read and written in the same run. Only right where
                the graph guarantees that the writing operator runs after every other reader of the input;
                this is not checked, and a wrong promise gives wrong numbers.

        Raises:
            InvalidArgumentError: Names that the session or the state does not have, or arrays of wrong form.
        """
        session.output_names(feedback)
        kept = dict(state)
        problems = [
            f"output '{output}' feeds '{name}', which is not part of the state{nearest(name, kept)}"
            for output, name in feedback.items()
            if name not in kept
        ]
        twice = {name for name in feedback.values() if list(feedback.values()).count(name) > 1}
        problems += [f"more than one output feeds '{name}'" for name in sorted(twice)]
        problems += [
            f"'{name}' is no output's next value" for name in in_place if name not in feedback.values()
        ]
        if problems:
            raise InvalidArgumentError("\n".join(problems))
        self._session = session
        self._feedback = dict(feedback)
        self._specs = {name: spec for name, spec in session.inputs.items() if name not in kept}
        arrays = fit_inputs(kept, {name: spec for name, spec in session.inputs.items() if name in kept})
        self._current = {name: copy_to_value(array) for name, array in arrays.items()}
        self._next = {
            name: self._current[name] if name in in_place else empty_like(self._current[name])
            for name in feedback.values()
        }
        self._bindings: dict[tuple[int, tuple[str, ...]], onnxruntime.IOBinding] = {}
        self._side = 0

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] = ()) -> dict[str, np.ndarray[Any, Any]]:
        """Run once and move the state on.

        Args:
            inputs: The inputs that are not kept.
            outputs: Names of the outputs to return; those that feed the state may be among them.

        Returns:
            Copies of the wanted outputs by name.

        Raises:
            InvalidArgumentError: Inputs that do not fit, or unknown outputs.
            RuntimeFailureError: ONNX Runtime failed; the state is unchanged (except what is kept in place).
        """
        wanted = self._session.output_names(outputs)
        feeds = fit_inputs(inputs, self._specs)
        fetched = tuple(name for name in wanted if name not in self._feedback)
        binding = self._binding(fetched)
        values = {name: share_as_value(array) for name, array in feeds.items()}
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        self._session.run_binding(binding)
        results = dict(zip((*self._feedback, *fetched), binding.get_outputs(), strict=True))
        returned = {name: copy_from_value(results[name]) for name in wanted}
        for name, value in self._next.items():
            self._next[name], self._current[name] = self._current[name], value
        self._side = 1 - self._side
        return returned

    def get(self, name: str) -> np.ndarray[Any, Any]:
        """A copy of the kept input ``name``.

        Raises:
            InvalidArgumentError: No input of that name is kept.
        """
        return copy_from_value(self._value(name))

    def state(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of all kept inputs."""
        return {name: copy_from_value(value) for name, value in self._current.items()}

    def set(self, name: str, value: Any) -> None:
        """Replace the kept input ``name``; its shape and dtype stay.

        Raises:
            InvalidArgumentError: No input of that name is kept, or the array does not fit.
        """
        current = self._value(name)
        array = fit_inputs({name: value}, {name: self._session.inputs[name]})[name]
        if tuple(array.shape) != tuple(current.shape()):
            raise InvalidArgumentError(
                f"'{name}' has shape {list(current.shape())} in this workspace, got {list(array.shape)}"
            )
        write_value(current, array)

    def _binding(self, fetched: tuple[str, ...]) -> onnxruntime.IOBinding:
        """The binding for the buffers as they lie now, with ``fetched`` to be allocated by the run."""
        key = (self._side, fetched)
        if key not in self._bindings:
            binding = self._session.engine.io_binding()
            for name, value in self._current.items():
                binding.bind_ortvalue_input(name, value)
            for output, name in self._feedback.items():
                binding.bind_ortvalue_output(output, self._next[name])
            self._bindings[key] = binding
        binding = self._bindings[key]
        for (
            name
        ) in fetched:  # anew each time: a bound output keeps the buffer, and so the shape, of its last run
            binding.bind_output(name, "cpu")
        return binding

    def _value(self, name: str) -> onnxruntime.OrtValue:
        if name not in self._current:
            known = ", ".join(f"'{kept}'" for kept in self._current)
            raise InvalidArgumentError(f"no state '{name}'{nearest(name, self._current)} (state: {known})")
        return self._current[name]
