"""Cells made of other cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU
from netgrad.caffe2.python import brew, core
from netgrad.caffe2.python.modeling.parameter_sharing import ParameterSharing
from netgrad.caffe2.python.rnn_cell.cell import RNNCell, reference


class DropoutCell(RNNCell):
    """A cell whose output, but not what goes from step to step, passes a ``Dropout``."""

    def __init__(
        self,
        internal_cell: RNNCell,
        dropout_ratio: float | None = None,
        use_cudnn: bool = False,
        **kwargs: Any,
    ) -> None:
        """Start a cell; ``is_test``, whether the model is only run, must be among ``kwargs``."""
        assert "is_test" in kwargs, "a DropoutCell needs is_test: whether the model is only run"
        self.is_test = kwargs.pop("is_test")
        super().__init__(**kwargs)
        self.internal_cell = internal_cell
        self.dropout_ratio = dropout_ratio
        self.use_cudnn = use_cudnn
        self.mask = 0  # how many masks there are

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """That of the inner cell."""
        return self.internal_cell.prepare_input(model, input_blob)

    def get_output_state_index(self) -> int:
        """That of the inner cell."""
        return self.internal_cell.get_output_state_index()

    def get_state_names(self) -> Sequence[str]:
        """Those of the inner cell."""
        return self.internal_cell.get_state_names()

    def get_output_dim(self) -> int:
        """That of the inner cell."""
        return self.internal_cell.get_output_dim()

    def _apply(
        self,
        model: Any,
        input_t: Any,
        seq_lengths: Any,
        states: Sequence[Any],
        timestep: Any,
        extra_inputs: Any = None,
    ) -> Any:
        return self.internal_cell._apply(model, input_t, seq_lengths, states, timestep, extra_inputs)

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        return self._with_dropout(model, self.internal_cell._prepare_output(model, states))

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        return self._with_dropout(model, self.internal_cell._prepare_output_sequence(model, state_outputs))

    def _with_dropout(self, model: Any, output: Any) -> Any:
        if not self.dropout_ratio or self.forward_only:
            return output
        with core.NameScope(self.name or ""):
            name = f"{output}_with_dropout_mask{self.mask}"
            self.mask += 1
            return brew.dropout(
                model,
                output,
                name,
                ratio=float(self.dropout_ratio),
                is_test=self.is_test,
                use_cudnn=self.use_cudnn,
            )


class MultiRNNCellInitializer:
    """Initial states of layers, each by its own initializer."""

    def __init__(self, cells: Sequence[RNNCell]) -> None:
        self.cells = cells

    def create_states(self, model: Any) -> list[Any]:
        """The states of all layers, in scopes ``layer_0``, ``layer_1``, ...

        Raises:
            Exception: A layer has no initializer.
        """
        states = []
        for layer, cell in enumerate(self.cells):
            if cell.initializer is None:
                raise Exception(f"layer {layer} needs either initial states or an initializer")
            with core.NameScope(f"layer_{layer}"), core.NameScope(cell.name):
                states += cell.initializer.create_states(model)
        return states


class MultiRNNCell(RNNCell):
    """Layers of cells: the output of one is the input of the next."""

    def __init__(
        self, cells: Sequence[RNNCell], residual_output_layers: Sequence[int] | None = None, **kwargs: Any
    ) -> None:
        """Start a cell.

        Args:
            cells: From input to output.
            residual_output_layers: Layers to whose output their input is added, and which must be of one
                size; not the first, whose input is prepared before.
            **kwargs: See `RNNCell`.
        """
        super().__init__(**kwargs)
        self.cells = list(cells)
        self.residual_output_layers = list(residual_output_layers or ())
        self.output_connected_layers: list[int] = []  # whose outputs are summed
        for layer in range(len(self.cells) - 1):
            if layer + 1 in self.residual_output_layers:
                self.output_connected_layers.append(layer)
            else:
                self.output_connected_layers = []
        self.output_connected_layers.append(len(self.cells) - 1)
        first = [0]  # of each layer's states among those of all layers
        for cell in self.cells:
            first.append(first[-1] + len(cell.get_state_names()))
        self.output_indices = [
            first[layer] + self.cells[layer].get_output_state_index()
            for layer in self.output_connected_layers
        ]
        self.state_names = [
            self.layer_scoper(layer)(name)
            for layer, cell in enumerate(self.cells)
            for name in cell.get_state_names()
        ]
        self.initializer = MultiRNNCellInitializer(self.cells)

    def layer_scoper(self, layer_id: int) -> Callable[[str], str]:
        """A function that puts names in the scope of a layer."""
        return lambda name: f"{self.name}/layer_{layer_id}/{name}"

    def prepare_input(self, model: Any, input_blob: Any) -> Any:
        """That of the first layer."""
        input_blob = reference(input_blob)
        with core.NameScope(self.name or ""):
            return self.cells[0].prepare_input(model, input_blob)

    def _by_layer(self, states: Sequence[Any], places: int = 1) -> list[Sequence[Any]]:
        """The states of each layer, which have so many places each."""
        found = []
        for cell in self.cells:
            count = places * len(cell.get_state_names())
            found.append(states[:count])
            states = states[count:]
        assert not states, f"{len(states)} more states than the layers have"
        return found

    def _apply(
        self,
        model: Any,
        input_t: Any,
        seq_lengths: Any,
        states: Sequence[Any],
        timestep: Any,
        extra_inputs: Any = None,
    ) -> Any:
        layer_input, seq_lengths, timestep = map(reference, (input_t, seq_lengths, timestep))
        extra = [(reference(blob), size) for blob, size in extra_inputs] if extra_inputs else None
        found: list[Any] = []
        last = len(self.cells) - 1
        for layer, before in enumerate(self._by_layer([reference(state) for state in states])):
            cell = self.cells[layer]
            with core.NameScope(self.name), core.NameScope(f"layer_{layer}"):
                prepared = cell.prepare_input(model, layer_input) if layer else layer_input
                after = cell._apply(
                    model, prepared, seq_lengths, before, timestep, extra_inputs=None if layer else extra
                )
                found += after
                if layer == last:
                    break
                output = cell._prepare_output(model, after)
                if layer and layer in self.residual_output_layers:
                    name = self.scope(f"residual_output_{layer}")
                    output = brew.sum(model, [output, layer_input], name)
                layer_input = output
        return found

    def get_state_names(self) -> Sequence[str]:
        """The states of all layers."""
        return self.state_names

    def get_output_state_index(self) -> int:
        """Of the last layer's output among the states of all layers."""
        before = sum(len(cell.get_state_names()) for cell in self.cells[:-1])
        return before + self.cells[-1].get_output_state_index()

    def get_output_dim(self) -> int:
        """That of the last layer."""
        return self.cells[-1].get_output_dim()

    def _prepare_output(self, model: Any, states: Sequence[Any]) -> Any:
        layers = self._by_layer(states)
        outputs = [
            self.cells[layer]._prepare_output(model, layers[layer]) for layer in self.output_connected_layers
        ]
        return self._summed(model, outputs, "residual_output")

    def _prepare_output_sequence(self, model: Any, state_outputs: Sequence[Any]) -> Any:
        layers = self._by_layer(state_outputs, places=2)
        outputs = [
            self.cells[layer]._prepare_output_sequence(model, layers[layer])
            for layer in self.output_connected_layers
        ]
        return self._summed(model, outputs, "residual_output_sequence")

    def _summed(self, model: Any, outputs: list[Any], name: str) -> Any:
        return outputs[0] if len(outputs) == 1 else brew.sum(model, outputs, self.scope(name))


class UnrolledCell(RNNCell):
    """A cell over a sequence of known length, as operators for each step."""

    def __init__(self, cell: RNNCell, T: int) -> None:
        """Wrap a cell for ``T`` steps."""
        super().__init__(name=cell.name, forward_only=cell.forward_only, initializer=cell.initializer)
        self.T = T
        self.cell = cell

    def apply_over_sequence(
        self,
        model: Any,
        inputs: Any,
        seq_lengths: Any = None,
        initial_states: Sequence[Any] | None = None,
        outputs_with_grads: Sequence[int] | None = None,
    ) -> tuple[Any, Any]:
        """See `RNNCell`; outputs that are not among those with gradients get a gradient of zero."""
        if initial_states is None:
            raise Exception("an unrolled cell needs initial states")
        prepared = self.cell.prepare_input(model, inputs)
        rows = core.output_to_list(
            model.net.Split(prepared, [f"{prepared}_timestep_{step}" for step in range(self.T)], axis=0)
        )
        states = list(initial_states)
        steps = []
        for step, row in enumerate(rows):
            scope = f"timestep_{step}"
            with ParameterSharing({scope: ""}), core.NameScope(scope):
                number = model.param_init_net.ConstantFill(
                    [],
                    "timestep",
                    value=step,
                    shape=[1],
                    dtype=core.DataType.INT32,
                    device_option=core.DeviceOption(CPU),
                )
                states = self.cell._apply(
                    model=model, input_t=row, seq_lengths=seq_lengths, states=states, timestep=number
                )
            steps.append(states)
        outputs: list[Any] = []
        for state in zip(*steps, strict=True):
            name = str(state[0]).replace("timestep_0/", "", 1)
            joined = model.net.Concat(list(state), [f"{name}_concat", f"{name}_concat_info"], axis=0)
            outputs += [joined[0], state[-1]]
        wanted = (
            [2 * self.cell.get_output_state_index()] if outputs_with_grads is None else outputs_with_grads
        )
        for at, output in enumerate(outputs):
            if at not in wanted:
                model.net.ZeroGradient(output, [])
        return self.cell._prepare_output_sequence(model, outputs), tuple(outputs)

    def __getattr__(self, name: str) -> Any:
        """What is asked of the cell besides, such as the names of its parameters."""
        if name.startswith("__") or name == "cell":
            raise AttributeError(name)
        return getattr(self.cell, name)
