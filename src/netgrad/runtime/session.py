"""Running a model on ONNX Runtime: sessions, and the one-call `run`.

The session is made from a copy of the model in which every node has a name of its own (ONNX Runtime refuses
duplicates, and its messages know nodes by name only) and in which large weights are not part of the
serialised graph: ONNX Runtime gets their memory by reference, so 2 GB is no limit and they are not copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
import onnx_ir
import onnxruntime

from netgrad.core.errors import InvalidArgumentError, InvalidModelError, nearest
from netgrad.onnx.read import ModelSource, load
from netgrad.runtime.tensors import TensorSpec, fit_inputs, spec_of
from netgrad.runtime.trace_error import explained, led_back
from netgrad.runtime.values import NATIVE, copy_from_value, share_as_value

Providers: TypeAlias = Sequence[str | tuple[str, dict[str, Any]]]
"""Execution providers in order of preference, each a name or a name with its options."""

_SHARED_FROM = 1 << 20
"""Initializers of at least this many bytes are shared with ONNX Runtime instead of serialised."""

_FRUGAL_FROM = 1 << 31
"""Where shared initializers take this many bytes in all, ONNX Runtime makes no copies of them for speed."""

_MESSAGE_LIMIT = 2**31 - 1
"""The most bytes that a protobuf message can have."""

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

    Attributes:
        inputs: What the model takes, by name.
        outputs: What the model gives, by name.
    """

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
        spin_after_runs: bool = True,
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
            spin_after_runs: Whether threads wait for the next run for a while by computing in vain; better
                not where several sessions run in turn.

        Raises:
            InvalidModelError: The model cannot be read, or is too large where it cannot be taken apart.
            InvalidArgumentError: An unknown provider or a name in ``promote`` that is no initializer.
            RuntimeFailureError: ONNX Runtime cannot run the model.
        """
        self._model = load(model)
        graph = self._model.graph
        _promote(self._model, promote)
        _name_nodes(self._model)
        defaults = set(graph.initializers)
        # before IR version 4 every initializer had to be listed as an input too, and none can be overridden
        listed = [v for v in graph.inputs if self._model.ir_version >= 4 or v.name not in defaults]
        self.inputs: dict[str, TensorSpec] = {
            value.name or "": spec_of(value, optional=value.name in defaults) for value in listed
        }
        self.outputs: dict[str, TensorSpec] = {value.name or "": spec_of(value) for value in graph.outputs}

        options = onnxruntime.SessionOptions()
        options.log_severity_level = _FATAL_ONLY
        options.enable_mem_pattern = memory_pattern
        options.graph_optimization_level = _LEVELS[optimization]
        if threads is not None:
            options.intra_op_num_threads = threads
        if not spin_after_runs:
            options.add_session_config_entry("session.force_spinning_stop", "1")
        if priority_order and hasattr(options, "execution_order"):
            options.execution_order = onnxruntime.ExecutionOrder.PRIORITY_BASED
        serialised, arrays = _take_apart(self._model)
        # the engine reads these values' memory, so they have to live as long as it does
        self._shared = {
            name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()
        }
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
                serialised,
                options,
                providers=list(_known(providers or ("CPUExecutionProvider",))),
                disabled_optimizers=disabled,
            )

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
        """As `run_values`, with the least work around: the outputs of these names, in their order.

        Raises:
            RuntimeFailureError: ONNX Runtime failed; or an unknown output.
        """
        native = getattr(self._session, "_sess", None)
        try:
            if native is None:
                return list(self._session.run_with_ort_values(names, dict(inputs)))
            # The method of the class iterates over what it gets, which takes 40 microseconds to begin with,
            # and keeps all outputs in memory as long as one of them is there; indexing does neither.
            given = {name: value._get_c_value() for name, value in inputs.items()}
            found = native.run_with_ort_values(given, names, None)
            return [onnxruntime.OrtValue(found[at]) for at in range(len(names))]
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


def _promote(model: onnx_ir.Model, names: Iterable[str]) -> None:
    """Make inputs of the initializers ``names``, without a default."""
    graph = model.graph
    for name in dict.fromkeys(names):
        value = graph.initializers.pop(name, None)
        if value is None:
            raise InvalidArgumentError(f"no initializer '{name}'{nearest(name, graph.initializers)}")
        tensor = value.const_value
        if tensor is not None:
            value.dtype, value.shape = tensor.dtype, onnx_ir.Shape(tensor.shape.numpy())
            value.const_value = None
        if not value.is_graph_input():
            graph.inputs.append(value)


def _name_nodes(model: onnx_ir.Model) -> None:
    """Give a name of its own to each node that has none or shares one."""
    nodes = [node for graph in model.graphs() for node in graph]
    taken: set[str] = {node.name for node in nodes if node.name}
    seen: set[str] = set()
    for index, node in enumerate(nodes):
        if node.name and node.name not in seen:
            seen.add(node.name)
            continue
        stem = node.name or f"{node.op_type}_{index}"
        name, number = stem, 1
        while name in taken:
            name, number = f"{stem}_{number}", number + 1
        node.name = name
        taken.add(name)
        seen.add(name)


def _take_apart(model: onnx_ir.Model) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    """The serialised model without its large initializers, and those by name.

    The initializers are replaced in ``model`` for the time of the serialisation only.
    """
    shared: dict[str, np.ndarray[Any, Any]] = {}
    originals: dict[str, onnx_ir.TensorProtocol] = {}
    graph = model.graph
    for name, value in graph.initializers.items():
        tensor = value.const_value
        if tensor is None or tensor.dtype not in NATIVE or tensor.nbytes < _SHARED_FROM:
            continue
        shared[name] = np.ascontiguousarray(tensor.numpy())
        originals[name] = tensor
        value.const_value = onnx_ir.ExternalTensor(
            "shared-memory",
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=onnx_ir.Shape(tensor.shape.numpy()),
            name=name,
        )
    try:
        proto = onnx_ir.to_proto(model)
        size = proto.ByteSize()
        if size > _MESSAGE_LIMIT:
            raise InvalidModelError(
                f"the model is too large for ONNX Runtime: {size / 1e9:.1f} GB without its initializers"
                "; keep large constants as initializers, not in Constant nodes or inner graphs"
            )
        return proto.SerializeToString(), shared
    finally:
        for name, tensor in originals.items():
            graph.initializers[name].const_value = tensor
