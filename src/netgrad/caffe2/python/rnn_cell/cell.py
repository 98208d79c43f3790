"""What all cells have in common."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from netgrad.caffe2.python import core, recurrent, utils
from netgrad.caffe2.python.model_helper import ModelHelper
from netgrad.caffe2.python.modeling.initializers import Initializer


def reference(blob: Any) -> Any:
    """A text as a reference in the current name scope, so that a scope entered later doesn't change it.

    Raises:
        Exception: It is neither a text, nor a reference, nor None.
    """
    if blob is None or isinstance(blob, core.BlobReference):
        return blob
    if isinstance(blob, str):
        return core.ScopedBlobReference(blob)
    raise Exception(f"a blob is a text or a reference, not {blob!r}")


class RNNCell:
    """A step of a recurrent net, to be derived from.

    A cell of one's own has at least ``apply_override`` and ``get_state_names_override``.

    Attributes:
        name: The scope of its blobs; None: none of its own.
        recompute_blobs: Blobs of the step that the backward pass computes again.
        forward_only: Whether there will be no backward pass.
        initializer: Has ``create_states``, for initial states that nobody gives.
    """

    def __init__(self, name: str | None = None, forward_only: bool = False, initializer: Any = None) -> None:
        self.name = name
        self.recompute_blobs: list[Any] = []
        self.forward_only = forward_only
        self.initializer = initializer

    def scope(self, name: str) -> str:
        """A name in the cell's own scope."""
        return name if self.name is None else f"{self.name}/{name}"

    def apply_over_sequence(
        self,
        model: Any,
        inputs: Any,
        seq_lengths: Any = None,
        initial_states: Sequence[Any] | None = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Any, Any]:
        """Add the cell to a model as one ``RecurrentNetwork``.

        Args:
            model: The model.
            inputs: The sequence, (steps, batch, size).
            seq_lengths: The length of each sequence of the batch, int32 of shape (batch,); None: all steps.
            initial_states: A blob for each state; None: those of the initializer.
            outputs_with_grads: Which of the second result have a gradient; None: the cell's output.

        Returns:
            The output of each step, and for each state two blobs: after each step, and after the last one.
        """
        if initial_states is None:
            if self.initializer is None:
                raise Exception("a cell over a sequence needs either initial states or an initializer")
            with core.NameScope(self.name):
                initial_states = self.initializer.create_states(model)
        assert initial_states is not None
        sequence = self.prepare_input(model, inputs)
        step = ModelHelper(name=self.name, param_model=model)
        input_t, timestep = step.net.AddScopedExternalInputs("input_t", "timestep")
        names = list(self.get_state_names())
        utils.raiseIfNotEqual(
            len(initial_states), len(names), "the numbers of initial states and states differ"
        )
        previous = core.output_to_list(step.net.AddScopedExternalInputs(*(f"{name}_prev" for name in names)))
        states = self._apply(
            model=step, input_t=input_t, seq_lengths=seq_lengths, states=previous, timestep=timestep
        )
        declared = set(step.net.Proto().external_output)
        for state in states:
            if str(state) not in declared:
                step.net.AddExternalOutput(state)
        if outputs_with_grads is None:
            outputs_with_grads = [2 * self.get_output_state_index()]
        everything = recurrent.recurrent_net(
            net=model.net,
            cell_net=step.net,
            inputs=[(input_t, sequence)],
            initial_cell_inputs=list(zip(previous, initial_states, strict=True)),
            links=dict(zip(previous, states, strict=True)),
            timestep=timestep,
            scope=self.name,
            forward_only=self.forward_only,
            outputs_with_grads=outputs_with_grads,
            recompute_blobs_on_backward=self.recompute_blobs,
        )
        return self._prepare_output_sequence(model, everything), everything

    def apply(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Sequence[Any], timestep: Any
    ) -> tuple[Any, Any]:
        """Add one step to a model; returns its output and the new states."""
        input_t = self.prepare_input(model, input_t)
        states = self._apply(model, input_t, seq_lengths, states, timestep)
        return self._prepare_output(model, states), states

    def _apply(
        self,
        model: Any,
        input_t: Any,
        seq_lengths: Any,
        states: Sequence[Any],
        timestep: Any,
        extra_inputs: Any = None,
    ) -> Any:
        """Call ``apply_override`` in the cell's scope. What it is given keeps its names."""
        arguments = self._rectify_apply_inputs(input_t, seq_lengths, states, timestep, extra_inputs)
        with core.NameScope(self.name):
            return self.apply_override(model, *arguments)

    def _rectify_apply_inputs(
        self, input_t: Any, seq_lengths: Any, states: Sequence[Any], timestep: Any, extra_inputs: Any
    ) -> list[Any]:
        """The arguments of ``apply_override`` as references; extra inputs only if it takes them."""
        given: list[Any] = [
            reference(input_t),
            reference(seq_lengths),
            [reference(state) for state in states],
            reference(timestep),
        ]
        if "extra_inputs" in inspect.signature(self.apply_override).parameters:
            given.append([(reference(blob), size) for blob, size in extra_inputs] if extra_inputs else None)
        return given

    def apply_override(
        self, model: Any, input_t: Any, seq_lengths: Any, states: Any, timestep: Any, extra_inputs: Any = None
    ) -> Any:
        """One step, to be written by each cell.

        Args:
            model: Where its operators go.
            input_t: The prepared input, (1, batch, size).
            seq_lengths: The length of each sequence, or None.
            states: The states before the step.
            timestep: The number of the step.
            extra_inputs: Pairs of a blob and its size, which come to the input unprepared.

        Returns:
            The states after the step.
        """
        raise NotImplementedError(f"{type(self).__name__} has no apply_override")

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """What can be computed of a whole sequence, or of one row, without the states."""
        return input_blob

    def get_output_state_index(self) -> int:
        """Which state is the output."""
        return 0

    def get_state_names(self) -> Sequence[str]:
        """The names of the states, in the cell's scope."""
        return [self.scope(name) for name in self.get_state_names_override()]

    def get_state_names_override(self) -> Sequence[str]:
        """The names of the states, to be written by each cell."""
        raise NotImplementedError(f"{type(self).__name__} has no get_state_names_override")

    def get_output_dim(self) -> int:
        """The size of the output."""
        raise NotImplementedError(f"{type(self).__name__} has no get_output_dim")

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        """The output of a step, of its states."""
        return states[self.get_output_state_index()]

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        """The output of all steps. Each state has two places: after each step, and after the last one."""
        return state_outputs[2 * self.get_output_state_index()]


class LSTMInitializer:
    """Initial states of an LSTM as parameters, zero at first and the same for the whole batch."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size

    def create_states(self, model: Any) -> list[Any]:
        """The hidden state and the cell state, of shape (size,)."""
        zeros = Initializer(operator_name="ConstantFill", value=0.0)
        return [
            model.create_param(param_name=name, initializer=zeros, shape=[self.hidden_size])
            for name in ("initial_hidden_state", "initial_cell_state")
        ]
