"""Running a model on ONNX Runtime: sessions, and the one-call `run`.

The session is made from a copy of the model in which every node has a name of its own (ONNX Runtime refuses
duplicates, and its messages know nodes by name only) and in which large weights are not part of the
serialised graph: ONNX Runtime gets their memory by reference, so 2 GB is no limit and they are not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, TypeAlias

import onnx
import onnx_ir
import onnxruntime

from netgrad.core.errors import InvalidArgumentError, NetgradError, nearest
from netgrad.onnx.read import ModelSource, load
from netgrad.runtime.prepared import name_apart, name_nodes, promote_initializers, serialised, take_apart
from netgrad.runtime.results import Results
from netgrad.runtime.tensors import TensorSpec, fit_inputs, spec_of
from netgrad.runtime.trace_error import explained, led_back
from netgrad.runtime.values import NATIVE, copy_from_value, share_as_value

Providers: TypeAlias = Sequence[str | tuple[str, dict[str, Any]]]
"""Execution providers in order of preference, each a name or a name with its options."""

_FRUGAL_FROM = 1 << 31
"""Where shared initializers take this many bytes in all, ONNX Runtime makes no copies of them for speed."""

_LEVELS = {
    "off": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
    "basic": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    "extended": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    "all": onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL,
}

_FATAL_ONLY = 4  # what ONNX Runtime logs as an error it raises as well


class Session:
    """A model loaded into ONNX Runtime, ready to run any number of times.

    Weights of 1 MB or more are not copied: the session reads the memory of the model it was given, which must
    not be written to while the session is in use. (Kernels may still rearrange a weight of theirs once,
    unless all shared weights together take 2 GiB and more.)
    """

    _proto: onnx.ModelProto

    def __init__(
        self,
        model: ModelSource,
        *,
        providers: Providers | None = None,
        threads: int | None = None,
        memory_pattern: bool = True,
        priority_order: bool = True,
        optimization: Literal["off", "basic", "extended", "all"] = "all",
        promote: Iterable[str] = (),
    ) -> None:
        """Load ``model``.

        Args:
            model: The model; it is not changed.
            providers: Execution providers; the CPU by default.
            threads: Threads that one operator may use; by default as many as there are cores.
            memory_pattern: Whether memory is planned after the first run as one block. Faster allocation, up
                to twice the peak memory.
            priority_order: Run operators in the order that frees values early, where the installed ONNX
                Runtime can. Its default order may compute all summands of a sum before it adds any.
            optimization: How far ONNX Runtime may rewrite the graph.
            promote: Names of initializers that become inputs and have to be fed from then on.

        Raises:
            InvalidModelError: The model cannot be read, or is too large where it cannot be taken apart.
            InvalidArgumentError: An unknown provider or a name in ``promote`` that is no initializer.
            RuntimeFailureError: ONNX Runtime cannot run the model.
        """
        self._model = load(model)
        promote_initializers(self._model, promote)
        name_nodes(self._model)
        content, arrays = take_apart(self._model)
        # the engine reads these values' memory, so they have to live as long as it does
        self._shared = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()
        }
        options = _options(
            threads=threads,
            memory_pattern=memory_pattern,
            priority_order=priority_order,
            optimization=optimization,
        )
        if self._shared:
            # the first lets the graph be optimised with the values known, but would copy them for the
            # kernels; the second gives the kernels the memory itself
            options.add_external_initializers(list(self._shared), list(self._shared.values()))
            for name, value in self._shared.items():
                options.add_initializer(name, value)
        disabled = []
        if sum(array.nbytes for array in arrays.values()) >= _FRUGAL_FROM:
            # kernels would keep a rearranged copy of each weight, and a gradient's Transpose of one be folded
            options.add_session_config_entry("session.disable_prepacking", "1")
            disabled = ["ConstantFolding"]
        with led_back(self._model):
            self._session = onnxruntime.InferenceSession(
                content,
                options,
                providers=list(_known(providers or ("CPUExecutionProvider",))),
                disabled_optimizers=disabled,
            )

    @classmethod
    def of_written(cls, model: onnx.ModelProto, *, threads: int | None = None) -> Session:
        """A session of a model that netgrad has written, which is taken as it is, without large weights.

        It is read as a model only where arrays are given to `run`, or an error is to be explained, so that a
        session is made in half of the time. Its threads wait for the next run without computing in vain, as
        is better where several sessions run in turn.

        Args:
            model: The model; nodes that share a name get other ones.
            threads: As in `Session`.

        Raises:
            InvalidModelError: The model is too large for a message.
            RuntimeFailureError: ONNX Runtime cannot run the model.
        """
        session = cls.__new__(cls)
        session._proto = model
        name_apart(model)
        options = _options(threads=threads)
        options.add_session_config_entry("session.force_spinning_stop", "1")
        try:
            session._session = onnxruntime.InferenceSession(
                serialised(model), options, providers=["CPUExecutionProvider"]
            )
        except NetgradError:
            raise
        except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
            raise explained(session._model, str(error)) from error
        return session

    @cached_property
    def _model(self) -> onnx_ir.Model:
        return load(self._proto)

    @cached_property
    def inputs(self) -> dict[str, TensorSpec]:
        """What the model takes, by name."""
        graph = self._model.graph
        defaults = set(graph.initializers)
        # before IR version 4 every initializer had to be listed as an input too, and none can be overridden
        listed = [v for v in graph.inputs if self._model.ir_version >= 4 or v.name not in defaults]
        return {value.name or "": spec_of(value, optional=value.name in defaults) for value in listed}

    @cached_property
    def outputs(self) -> dict[str, TensorSpec]:
        """What the model gives, by name."""
        return {value.name or "": spec_of(value) for value in self._model.graph.outputs}

    @property
    def engine(self) -> onnxruntime.InferenceSession:
        """The session of ONNX Runtime underneath."""
        return self._session

    def run(self, inputs: Mapping[str, Any], outputs: Iterable[str] | None = None) -> dict[str, Any]:
        """Run the model once.

        Args:
            inputs: An array (or number, list) for each input; `fit_inputs` says what is converted.
            outputs: The names of the wanted outputs; all of them by default.

        Returns:
            The wanted outputs by name: arrays (lists of arrays for sequences).

        Raises:
            InvalidArgumentError: Inputs that do not fit, or unknown outputs: all at once, a line each.
            RuntimeFailureError: ONNX Runtime failed; says at which operator.
        """
        names = self.output_names(outputs)
        feeds = fit_inputs(inputs, self.inputs)
        involved = [spec.dtype for spec in self.inputs.values()] + [
            self.outputs[name].dtype for name in names
        ]
        if all(dtype is None or dtype in NATIVE or dtype == onnx_ir.DataType.STRING for dtype in involved):
            with led_back(self._model):
                return dict(zip(names, self._session.run(names, feeds), strict=True))
        # NumPy has no bfloat16 or float8 of its own, so those go through values
        values = self.run_values({name: share_as_value(array) for name, array in feeds.items()}, names)
        return {name: copy_from_value(value) for name, value in values.items()}

    def run_values(
        self, inputs: Mapping[str, onnxruntime.OrtValue], outputs: Iterable[str] | None = None
    ) -> dict[str, onnxruntime.OrtValue]:
        """Run the model once on values that ONNX Runtime owns, unchecked and without copies through NumPy.

        Raises:
            InvalidArgumentError: An unknown output.
            RuntimeFailureError: ONNX Runtime failed.
        """
        names = self.output_names(outputs)
        return dict(zip(names, self.run_list(inputs, names), strict=True))

    def run_list(
        self, inputs: Mapping[str, onnxruntime.OrtValue], names: list[str]
    ) -> list[onnxruntime.OrtValue]:
        """As `run_values`: the outputs of these names, in their order.

        Raises:
            RuntimeFailureError: ONNX Runtime failed; or an unknown output.
        """
        results = self.run_results(inputs, names)
        return [results[at] for at in range(len(names))]

    def run_results(self, inputs: Mapping[str, onnxruntime.OrtValue], names: list[str]) -> Results:
        """As `run_list`, with the least work around it.

        Raises:
            RuntimeFailureError: ONNX Runtime failed; or an unknown output.
        """
        native = getattr(self._session, "_sess", None)
        try:
            if native is None:
                return Results(self._session.run_with_ort_values(names, dict(inputs)), wrap=False)
            # The method of the class iterates over what it gets, which takes 40 microseconds to begin with,
            # and keeps all outputs in memory as long as one of them is there.
            given = {name: value._get_c_value() for name, value in inputs.items()}
            return Results(native.run_with_ort_values(given, names, None))
        except Exception as error:  # ONNX Runtime's exceptions have no base class of their own
            raise explained(self._model, str(error)) from error

    def run_binding(self, binding: onnxruntime.IOBinding) -> None:
        """Run the model once with inputs and outputs bound by the caller.

        Raises:
            RuntimeFailureError: ONNX Runtime failed.
        """
        with led_back(self._model):
            self._session.run_with_iobinding(binding)

    def output_names(self, outputs: Iterable[str] | None) -> list[str]:
        """The names asked for, or all.

        Raises:
            InvalidArgumentError: The model has no output of such a name.
        """
        if outputs is None:
            return list(self.outputs)
        names = [outputs] if isinstance(outputs, str) else list(outputs)
        known = ", ".join(f"'{name}'" for name in self.outputs)
        problems = [
            f"no output '{name}'{nearest(name, self.outputs)} (outputs: {known})"
            for name in names
            if name not in self.outputs
        ]
        if problems:
            raise InvalidArgumentError("\n".join(problems))
        return names


def run(
    model: ModelSource,
    inputs: Mapping[str, Any],
    outputs: Iterable[str] | None = None,
    providers: Providers | None = None,
) -> dict[str, Any]:
    """Run a model once on ONNX Runtime.

    An initializer may be fed like an input; the given array is then used in its place. To run a model several
    times, make a `Session`.

    Args:
        model: The model; it is not changed.
        inputs: An array (or number, list) for each input. float64, NumPy's default, is rounded where the
            model takes a narrower floating-point type; other conversions that could lose any are errors.
        outputs: The names of the wanted outputs; all of them by default.
        providers: Execution providers in order of preference; the CPU by default.

    Returns:
        The wanted outputs by name.

    Raises:
        InvalidModelError: The model cannot be read.
        InvalidArgumentError: Inputs that do not fit, unknown outputs or providers: all of a kind at once.
        RuntimeFailureError: ONNX Runtime failed; says at which operator, and for a gradient operator of which
            forward operator and by which rule.

    Example:
        >>> netgrad.run("model.onnx", {"x": np.zeros((1, 3), np.float32)})  # doctest: +SKIP
        {'y': array([[0.5, 0.5]], dtype=float32)}
    """
    loaded = load(model)
    fed_initializers = [name for name in inputs if name in loaded.graph.initializers]
    return Session(loaded, providers=providers, promote=fed_initializers).run(inputs, outputs)


def _options(
    *,
    threads: int | None,
    memory_pattern: bool = True,
    priority_order: bool = True,
    optimization: Literal["off", "basic", "extended", "all"] = "all",
) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    options.enable_mem_pattern = memory_pattern
    options.graph_optimization_level = _LEVELS[optimization]
    if threads is not None:
        options.intra_op_num_threads = threads
    if priority_order and hasattr(options, "execution_order"):
        options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
    return options


def _known(providers: Providers) -> Providers:
    """``providers``, if this installation of ONNX Runtime has them."""
    available = onnxruntime.get_available_providers()
    names = [provider if isinstance(provider, str) else provider[0] for provider in providers]
    unknown = [name for name in names if name not in available]
    if unknown:
        raise InvalidArgumentError(
            f"the installed ONNX Runtime has no execution provider {', '.join(unknown)}"
            f"{nearest(unknown[0], available)} (providers: {', '.join(available)})"
        )
    return providers
