# ruff: noqa: PT009, PT027  the assertions are those of unittest
"""Helpers of test programs that draw their inputs with hypothesis, which has to be installed."""

from __future__ import annotations

import contextlib
import copy
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

try:
    import hypothesis
    import hypothesis.extra.numpy
    import hypothesis.strategies as st
except ImportError as error:
    raise ImportError("hypothesis_test_util needs hypothesis: pip install hypothesis") from error

from netgrad.caffe2.caffe2_pb2 import CPU, CUDA, HIP, DeviceOption, NetDef, OperatorDef
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.python.device_checker import DeviceChecker
from netgrad.caffe2.python.gradient_checker import GradientChecker, _check_inferred, gradients_of
from netgrad.caffe2.python.test_util import TestCase

# As in the original, importing this module settles how many inputs are drawn, and that they are the same each
# time; and there is no deadline, as the first run of an operator compiles it.
for _profile, _examples in (("dev", 10), ("debug", 50), ("sandcastle", 50)):
    hypothesis.settings.register_profile(
        _profile,
        derandomize=True,
        database=None,
        deadline=None,
        max_examples=_examples,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
hypothesis.settings.load_profile(os.getenv("CAFFE2_HYPOTHESIS_PROFILE", "dev"))

Devices = Mapping[str, DeviceOption]

# ---- devices ---------------------------------------------------------------------------------------------

cpu_do = DeviceOption(device_type=CPU)
cuda_do = DeviceOption(device_type=CUDA)
hip_do = DeviceOption(device_type=HIP)
gpu_do = cuda_do
device_options = [cpu_do]
expanded_device_options = [cpu_do]


def device_checker_device_options() -> Any:
    """The devices that results are compared on."""
    return st.just(device_options)


def gradient_checker_device_option() -> Any:
    """A device that gradients are checked on."""
    return st.sampled_from(device_options)


gcs = {"gc": gradient_checker_device_option(), "dc": device_checker_device_options()}
gcs_cpu_only = {"gc": st.just(cpu_do), "dc": st.just([cpu_do])}
gcs_gpu_only = {"gc": st.just(gpu_do), "dc": st.just([gpu_do])}
gcs_cuda_only = gcs_gpu_only
gcs_no_hip = gcs


def is_sandcastle() -> bool:
    """Whether the tests run on the machines of the original's authors: never."""
    return False


def is_travis() -> bool:
    """Whether they run on a certain service: never."""
    return False


# ---- strategies ------------------------------------------------------------------------------------------


def to_float32(x: float) -> float:
    """The float32 nearest to a number."""
    found: float = struct.unpack("f", struct.pack("f", float(x)))[0]
    return found


def floats(*args: Any, **kwargs: Any) -> Any:
    """Numbers of float32 unless ``width`` says otherwise; their bounds are rounded to it."""
    if "width" in kwargs:
        return st.floats(*args, **kwargs)
    bounds = dict(zip(("min_value", "max_value"), args, strict=False))
    bounds.update({name: kwargs.pop(name) for name in ("min_value", "max_value") if name in kwargs})
    rounded: dict[str, Any] = {name: None if one is None else to_float32(one) for name, one in bounds.items()}
    return st.floats(**rounded, width=32, **kwargs)


def elements_of_type(dtype: Any = np.float32, filter_: Callable[[Any], bool] | None = None) -> Any:
    """Elements of an array of a type: numbers from -1 to 1, small integers, or truth values."""
    kind = np.dtype(dtype)
    elements: Any
    if kind == np.float16 or kind == np.float32:
        elements = st.floats(-1.0, 1.0, width=kind.itemsize * 8)
    elif kind == np.float64:
        elements = st.floats(-1.0, 1.0)
    elif kind == np.int32:
        elements = st.integers(min_value=0, max_value=2**31 - 1)
    elif kind == np.int64:
        elements = st.integers(min_value=0, max_value=2**63 - 1)
    elif kind == np.bool_:
        elements = st.booleans()
    else:
        raise ValueError(f"no elements for the type {dtype}")
    return elements if filter_ is None else elements.filter(filter_)


def arrays(dims: Any, dtype: Any = np.float32, elements: Any = None, unique: bool = False) -> Any:
    """Arrays of a shape; elements are rounded to the type, which hypothesis itself would refuse."""
    if elements is None:
        elements = elements_of_type(dtype)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        elements = elements.map(kind.type)
    return hypothesis.extra.numpy.arrays(dtype, dims, elements=elements, unique=unique)


def dims(min_value: int = 1, max_value: int = 5) -> Any:
    """Sizes of dimensions."""
    return st.integers(min_value=min_value, max_value=max_value)


def _shapes(min_dim: int, max_dim: int, **kwargs: Any) -> Any:
    return st.lists(dims(**kwargs), min_size=min_dim, max_size=max_dim)


def tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: Any = np.float32,
    elements: Any = None,
    unique: bool = False,
    **kwargs: Any,
) -> Any:
    """Arrays of ``min_dim`` to ``max_dim`` dimensions; further arguments are those of `dims`."""
    return _shapes(min_dim, max_dim, **kwargs).flatmap(
        lambda shape: arrays(shape, dtype, elements, unique=unique)
    )


def tensor1d(min_len: int = 1, max_len: int = 64, dtype: Any = np.float32, elements: Any = None) -> Any:
    """Arrays of one dimension."""
    return tensor(1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def tensors(
    n: int, min_dim: int = 1, max_dim: int = 4, dtype: Any = np.float32, elements: Any = None, **kwargs: Any
) -> Any:
    """Lists of ``n`` arrays of one shape."""
    return _shapes(min_dim, max_dim, **kwargs).flatmap(
        lambda shape: st.lists(arrays(shape, dtype, elements), min_size=n, max_size=n)
    )


def tensors1d(
    n: int, min_len: int = 1, max_len: int = 64, dtype: Any = np.float32, elements: Any = None
) -> Any:
    """Lists of ``n`` arrays of one dimension and length."""
    return tensors(n, 1, 1, dtype, elements, min_value=min_len, max_value=max_len)


def segment_ids(size: int, is_sorted: bool) -> Any:
    """Arrays of ``size`` segment numbers; sorted ones grow by 0 or 1 from element to element."""
    if size == 0:
        return st.just(np.empty(shape=[0], dtype=np.int32))
    if is_sorted:
        return arrays([size], np.int32, st.booleans().map(int)).map(
            lambda steps: (np.cumsum(steps, dtype=np.int32) - steps[0]).astype(np.int32)
        )
    return arrays([size], np.int32, st.integers(min_value=0, max_value=2 * size))


def lengths(
    size: int, min_segments: int | None = None, max_segments: int | None = None, **kwargs: Any
) -> Any:
    """Arrays of lengths whose sum is ``size``."""
    fewest = 0 if size == 0 else 1
    fewest = fewest if min_segments is None else min_segments
    most = size if max_segments is None else max_segments
    if size == 0:
        return st.lists(st.just(0), min_size=fewest, max_size=max(most, fewest)).map(_int32)
    return st.lists(
        st.integers(min_value=0, max_value=size), min_size=max(fewest - 1, 0), max_size=max(most - 1, 0)
    ).map(lambda cuts: _int32(np.diff([0, *sorted(cuts), size])))


def _int32(values: Any) -> Any:
    return np.array(values, dtype=np.int32)


def segmented_tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: Any = np.float32,
    is_sorted: bool = True,
    elements: Any = None,
    segment_generator: Callable[..., Any] = segment_ids,
    allow_empty: bool = False,
    **kwargs: Any,
) -> Any:
    """Pairs of an array and the segments of its rows."""
    inner = st.lists(dims(**kwargs), min_size=max(min_dim - 1, 0), max_size=max_dim - 1)
    rows = dims(min_value=0 if allow_empty else 1, **{k: v for k, v in kwargs.items() if k != "min_value"})
    return st.tuples(rows, inner).flatmap(
        lambda shape: st.tuples(
            arrays([shape[0], *shape[1]], dtype, elements), segment_generator(shape[0], is_sorted=is_sorted)
        )
    )


def lengths_tensor(
    min_segments: int | None = None, max_segments: int | None = None, *args: Any, **kwargs: Any
) -> Any:
    """Pairs of an array and the lengths of its segments."""

    def generate(size: int, is_sorted: bool = True) -> Any:
        return lengths(size, min_segments=min_segments, max_segments=max_segments)

    return segmented_tensor(*args, **{**kwargs, "segment_generator": generate})


def sparse_segmented_tensor(
    min_dim: int = 1,
    max_dim: int = 4,
    dtype: Any = np.float32,
    is_sorted: bool = True,
    elements: Any = None,
    allow_empty: bool = False,
    segment_generator: Callable[..., Any] = segment_ids,
    itype: Any = np.int64,
    **kwargs: Any,
) -> Any:
    """Triples of an array, numbers of some of its rows, and the segments of these."""

    def with_indices(data: Any) -> Any:
        many = dims(min_value=0 if allow_empty else 1, max_value=10)
        return many.flatmap(
            lambda count: st.tuples(
                st.just(data),
                arrays([count], itype, st.integers(min_value=0, max_value=data.shape[0] - 1)),
                segment_generator(count, is_sorted=is_sorted),
            )
        )

    return tensor(min_dim, max_dim, dtype, elements, **kwargs).flatmap(with_indices)


def sparse_lengths_tensor(**kwargs: Any) -> Any:
    """Triples of an array, numbers of some of its rows, and the lengths of segments of these."""

    def generate(size: int, is_sorted: bool = True) -> Any:
        return lengths(size)

    return sparse_segmented_tensor(segment_generator=generate, **kwargs)


# ---- running ---------------------------------------------------------------------------------------------


@contextlib.contextmanager
def temp_workspace(name: Any = b"temp_ws") -> Iterator[None]:
    """Another workspace inside the block, which is emptied afterwards."""
    with workspace.WorkspaceGuard(name.decode() if isinstance(name, bytes) else name):
        try:
            yield
        finally:
            workspace.ResetWorkspace()


def runOpBenchmark(
    device_option: DeviceOption,
    op: OperatorDef,
    inputs: Sequence[Any],
    input_device_options: Devices | None = None,
    iterations: int = 10,
) -> list[float]:
    """Times of an operator, in milliseconds: see ``workspace.BenchmarkNet``."""
    op = _on_device(op, device_option)
    net = NetDef(name=op.name or "test", op=[op])
    with temp_workspace():
        _feed(op, inputs, device_option, input_device_options)
        workspace.CreateNet(net)
        return workspace.BenchmarkNet(net.name, 1, iterations, True)


def _on_device(op: OperatorDef, device: DeviceOption) -> OperatorDef:
    """A copy of an operator that runs on a device."""
    op = copy.deepcopy(op)
    op.device_option.CopyFrom(device)
    return op


def runOpOnInput(
    device_option: DeviceOption,
    op: OperatorDef,
    inputs: Sequence[Any],
    input_device_options: Devices | None = None,
) -> list[Any]:
    """The outputs of an operator.

    Raises:
        ValueError: There are fewer arrays than inputs.
    """
    op = _on_device(op, device_option)
    with temp_workspace():
        _feed(op, inputs, device_option, input_device_options)
        workspace.RunOperatorOnce(op)
        return [workspace.FetchBlob(name) for name in op.output]


def _feed(op: OperatorDef, inputs: Sequence[Any], device: DeviceOption, devices: Devices | None) -> None:
    """Feed what an operator reads; further arrays are for the reference alone."""
    if len(op.input) > len(inputs):
        raise ValueError(f"the operator reads {list(op.input)}, and {len(inputs)} arrays are given")
    for name, array in zip(op.input, inputs, strict=False):
        workspace.FeedBlob(name, array, (devices or {}).get(name, device))


class HypothesisTestCase(TestCase):
    """A test case with assertions over operators."""

    __test__ = False

    def assertDeviceChecks(
        self,
        device_options: Sequence[DeviceOption],
        op: OperatorDef,
        inputs: Sequence[Any],
        outputs_to_check: Sequence[int],
        input_device_options: Devices | None = None,
        threshold: float = 0.01,
    ) -> None:
        """An operator gives the same outputs on all devices."""
        checker = DeviceChecker(threshold, device_options)
        self.assertTrue(checker.CheckSimple(op, inputs, outputs_to_check, input_device_options))

    def assertGradientChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        outputs_to_check: int,
        outputs_with_grads: Sequence[int],
        grad_ops: Sequence[OperatorDef] | None = None,
        threshold: float = 0.005,
        stepsize: float = 0.05,
        input_device_options: Devices | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> None:
        """The gradient of one input agrees with central differences.

        Args:
            device_option: Where the operator runs.
            op: The operator.
            inputs: Arrays.
            outputs_to_check: Position of the input (the name is the original's).
            outputs_with_grads: Positions of the outputs that the loss is made of.
            grad_ops: The gradient operators; None: what the registry gives.
            threshold: Absolute and relative tolerance.
            stepsize: How far an element is moved, up and down.
            input_device_options: Devices of inputs by name.
            ensure_outputs_are_inferred: Whether the shapes of the outputs have to be inferable.
        """
        checker = GradientChecker(
            stepsize=stepsize,
            threshold=threshold,
            device_option=device_option,
            workspace_name=str(device_option),
            input_device_options=input_device_options,
        )
        agrees, gradient, estimate = checker.CheckSimple(
            op,
            inputs,
            outputs_to_check,
            outputs_with_grads,
            grad_ops,
            input_device_options,
            ensure_outputs_are_inferred,
        )
        self.assertEqual(gradient.shape, estimate.shape)
        self.assertTrue(agrees, f"Gradient check failed for input {op.input[outputs_to_check]}")

    def assertReferenceChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        reference: Callable[..., Any],
        input_device_options: Devices | None = None,
        threshold: float = 1e-4,
        output_to_grad: str | None = None,
        grad_reference: Callable[..., Any] | None = None,
        atol: float | None = None,
        outputs_to_check: Sequence[int] | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> list[Any]:
        """An operator's outputs, and perhaps its gradients, agree with those of a Python function.

        Args:
            device_option: Where the operator runs.
            op: The operator.
            inputs: Arrays.
            reference: From the inputs to a sequence of the outputs.
            input_device_options: Devices of inputs by name.
            threshold: Relative tolerance.
            output_to_grad: The output that is differentiated; its gradient is the output itself.
            grad_reference: From that gradient, the outputs and the inputs, as the reference has them, to a
                sequence with the gradient of each input: an array, None, or a pair of values and indices.
            atol: Absolute tolerance; None: as the relative one.
            outputs_to_check: Positions of the outputs that are compared; None: all.
            ensure_outputs_are_inferred: Whether the shapes of the outputs have to be inferable.

        Returns:
            The outputs that were compared.

        Raises:
            RuntimeError: The reference gives no tuple or list.
            ValueError: There are fewer arrays than inputs.
        """
        op = _on_device(op, device_option)
        atol = threshold if atol is None else atol
        with temp_workspace():
            _feed(op, inputs, device_option, input_device_options)
            workspace.RunNetOnce(NetDef(name="opnet", op=[op]))
            expected = reference(*inputs)
            if not isinstance(expected, tuple | list):
                raise RuntimeError(
                    f"the reference returns {type(expected).__name__}, not a tuple or list of arrays"
                )
            if not outputs_to_check:
                self.assertEqual(len(expected), len(op.output))
                outputs_to_check = range(len(op.output))
            outputs = []
            for at, wanted in zip(outputs_to_check, expected, strict=False):
                found = workspace.FetchBlob(op.output[at])
                message = f"Output {op.output[at]}: ACTUAL is the operator's, DESIRED the reference's"
                if np.asarray(found).dtype.kind in "OS":
                    np.testing.assert_array_equal(found, wanted, err_msg=message)
                else:
                    np.testing.assert_allclose(found, wanted, atol=atol, rtol=threshold, err_msg=message)
                outputs.append(found)
            if ensure_outputs_are_inferred:
                _check_inferred(op, inputs)
            if grad_reference is not None:
                assert output_to_grad is not None, "a grad_reference needs output_to_grad, which says of what"
                with core.DeviceScope(device_option):
                    self._assertGradReferenceChecks(
                        op, inputs, expected, output_to_grad, grad_reference, threshold
                    )
        return outputs

    def _assertGradReferenceChecks(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        ref_outputs: Sequence[Any],
        output_to_grad: str,
        grad_reference: Callable[..., Any],
        threshold: float = 1e-4,
    ) -> None:
        """The gradients of the operator that has just run agree with those of a Python function."""
        name = f"{output_to_grad}_grad"
        operators, gradients = gradients_of(op, {output_to_grad: name})
        output = workspace.FetchBlob(output_to_grad)
        expected = grad_reference(output, ref_outputs, inputs)
        workspace.FeedBlob(name, output)
        workspace.RunOperatorsOnce(operators)
        self.assertEqual(len(expected), len(inputs))
        for blob, wanted, gradient in zip(op.input, expected, gradients, strict=False):
            if gradient is None:
                self.assertIsNone(wanted, f"{blob} has no gradient")
                continue
            if isinstance(gradient, core.GradientSlice):
                values, indices = wanted
                found = workspace.FetchBlob(gradient.indices)
                np.testing.assert_allclose(found, indices, atol=1e-4, rtol=1e-4)
                wanted, gradient = values, gradient.values
            np.testing.assert_allclose(
                workspace.FetchBlob(gradient),
                wanted,
                atol=threshold,
                rtol=threshold,
                err_msg=f"Gradient {gradient}: ACTUAL is the operator's, DESIRED the reference's",
            )

    def assertValidationChecks(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        validator: Callable[..., Any],
        input_device_options: Devices | None = None,
        as_kwargs: bool = True,
        init_net: Any = None,
    ) -> None:
        """Run an operator, and hand its inputs and outputs to a function that asserts something.

        Args:
            device_option: Where the operator runs.
            op: The operator.
            inputs: Arrays.
            validator: With ``as_kwargs`` it gets every blob by name, else lists ``inputs`` and ``outputs``.
            input_device_options: Devices of inputs by name.
            as_kwargs: See ``validator``.
            init_net: A net that runs before.
        """
        op = _on_device(op, device_option)
        if as_kwargs:
            assert len({*op.input, *op.output}) == len(op.input) + len(op.output), "no operators in place"
        with temp_workspace():
            _feed(op, inputs, device_option, input_device_options)
            if init_net is not None:
                workspace.RunNetOnce(init_net)
            workspace.RunOperatorOnce(op)
            outputs = [workspace.FetchBlob(name) for name in op.output]
            if as_kwargs:
                given = dict(zip(op.input, inputs, strict=False))
                validator(**given, **dict(zip(op.output, outputs, strict=True)))
            else:
                validator(inputs=inputs, outputs=outputs)

    def assertRunOpRaises(
        self,
        device_option: DeviceOption,
        op: OperatorDef,
        inputs: Sequence[Any],
        input_device_options: Devices | None = None,
        exception: Any = (Exception,),
        regexp: str | None = None,
    ) -> None:
        """Running an operator raises."""
        op = _on_device(op, device_option)
        with temp_workspace():
            _feed(op, inputs, device_option, input_device_options)
            if regexp is None:
                self.assertRaises(exception, workspace.RunOperatorOnce, op)
            else:
                self.assertRaisesRegex(exception, regexp, workspace.RunOperatorOnce, op)
