"""Gradients of operators and nets against central differences."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx_ir import DataType

from netgrad.caffe2.caffe2_pb2 import DeviceOption, NetDef, OperatorDef, TensorProto
from netgrad.caffe2.python import core, workspace
from netgrad.caffe2.running.shapes import NUMBERS

_CHECKED = 3  # so many elements at either end, as each of them takes two runs

Array: TypeAlias = "np.ndarray[Any, Any]"


def getGradientForOp(op: OperatorDef) -> tuple[Any, Any]:
    """The gradient operators of ``op``, whose outputs all have gradients; and the gradients of its inputs."""
    return core.GradientRegistry.GetGradientForOp(op, [f"{name}_grad" for name in op.output])


def gradients_of(op: OperatorDef, given: Mapping[str, str]) -> tuple[Any, list[Any]]:
    """The gradient operators, and the gradient of each input.

    Args:
        op: The operator; it may write an output over an input.
        given: The gradients of outputs that there are.
    """
    if set(op.input).isdisjoint(op.output):
        operators, gradients = core.GradientRegistry.GetBackwardPass([op], dict(given))
        return operators, [gradients.get(name) for name in op.input]
    # The map of a backward pass has one gradient for a blob, and here the output has it.
    operators, by_input = core.GradientRegistry.GetGradientForOp(op, [given.get(name) for name in op.output])
    return operators, list(by_input)


def _gradients_of(op: OperatorDef, outputs_with_grads: Sequence[int]) -> tuple[Any, Any]:
    """The same with gradients only for the outputs that count, if that can be done."""
    try:
        return gradients_of(op, {op.output[at]: f"{op.output[at]}_grad" for at in outputs_with_grads})
    except Exception:  # a maker in Python may want all
        return getGradientForOp(op)


class GradientChecker:
    """Compares the gradient of one operator with central differences.

    The loss is half the sum of squares of chosen outputs.
    """

    def __init__(
        self,
        stepsize: float,
        threshold: float,
        device_option: DeviceOption | None = None,
        workspace_name: str = "gradient_check",
        input_device_options: Mapping[str, DeviceOption] | None = None,
    ) -> None:
        """Choose how to check.

        Args:
            stepsize: How far an element is moved, up and down.
            threshold: Absolute and relative tolerance.
            device_option: Where the operator runs.
            workspace_name: The workspace that is used, and emptied afterwards.
            input_device_options: Devices of inputs by name.
        """
        self._stepsize = stepsize
        self._threshold = threshold
        self._device_option = device_option or DeviceOption()
        self._workspace_name = workspace_name
        self._input_device_options = dict(input_device_options or {})

    def GetLossAndGrad(
        self,
        op: OperatorDef,
        grad_ops: Sequence[OperatorDef],
        inputs: Sequence[Any],
        input_names: Sequence[str],
        input_to_check: int,
        grad_name: Any,
        outputs_with_grads: Sequence[int],
    ) -> tuple[float, Any]:
        """The loss, and the gradient of one input as a tensor."""
        loss = self._loss(op, inputs, input_names, outputs_with_grads)
        workspace.RunOperatorsOnce(grad_ops)
        if not isinstance(grad_name, core.GradientSlice):
            return loss, workspace.FetchBlob(grad_name)
        gradient = np.zeros_like(inputs[input_to_check])
        rows = workspace.FetchBlob(grad_name.values)
        np.add.at(gradient, workspace.FetchBlob(grad_name.indices).reshape(-1), rows)
        return loss, gradient

    def _loss(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        input_names: Sequence[str],
        outputs_with_grads: Sequence[int],
    ) -> float:
        """Half the sum of squares of the outputs, which become their gradients.

        Inputs without an array are in the workspace.
        """
        for name, array in zip(input_names, inputs, strict=False):
            workspace.FeedBlob(name, array, self._input_device_options.get(name))
        workspace.RunOperatorOnce(op)
        loss = 0.0
        for at in outputs_with_grads:
            output = workspace.FetchBlob(op.output[at])
            loss += float((output.astype(np.float64) ** 2).sum()) / 2
            workspace.FeedBlob(f"{op.output[at]}_grad", output)
        return loss

    def CheckSimple(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        input_to_check: int,
        outputs_with_grads: Sequence[int],
        grad_ops: Sequence[OperatorDef] | None = None,
        input_device_options: Mapping[str, DeviceOption] | None = None,
        ensure_outputs_are_inferred: bool = False,
    ) -> tuple[bool, Array, Array]:
        """Check the gradient of one input: its first and last three elements.

        All elements are checked if ``CAFFE2_FULL_GRAD_CHECK`` in the environment is 1.

        Args:
            op: The operator; its device option is set.
            inputs: Arrays. That of the input is changed and restored.
            input_to_check: Position of the input.
            outputs_with_grads: Positions of the outputs that the loss is made of.
            grad_ops: The gradient operators, which write ``<input>_grad``; None: what the registry gives.
            input_device_options: Devices of inputs by name.
            ensure_outputs_are_inferred: Whether the shapes and types of the outputs have to be inferable.

        Returns:
            Whether they agree, the gradient, and its estimate.

        Raises:
            ValueError: The input has no gradient, or one of another shape.
        """
        op.device_option.CopyFrom(self._device_option)
        self._input_device_options.update(input_device_options or {})
        with workspace.WorkspaceGuard(self._workspace_name):
            try:
                if grad_ops is None:
                    grad_ops, gradients = _gradients_of(op, outputs_with_grads)
                    name = gradients[input_to_check]
                else:
                    name = f"{op.input[input_to_check]}_grad"
                if name is None:
                    raise ValueError(f"input {input_to_check} of {op.type} has no gradient")
                _, gradient = self.GetLossAndGrad(
                    op, grad_ops, inputs, op.input, input_to_check, name, outputs_with_grads
                )
                if ensure_outputs_are_inferred:
                    _check_inferred(op, inputs)
                shape = inputs[input_to_check].shape
                if gradient.shape != shape:
                    raise ValueError(
                        f"Mismatched gradient shapes: estimated ({shape}), grad ({gradient.shape})"
                    )
                estimate = self._estimate(op, inputs, input_to_check, outputs_with_grads, gradient)
            finally:
                workspace.ResetWorkspace()
        wrong = ~np.isclose(gradient, estimate, atol=self._threshold, rtol=self._threshold)
        if wrong.any():
            at = np.flatnonzero(wrong)
            print("Elements that differ: place, gradient, estimate")
            print(np.vstack([at, gradient.flat[at], estimate.flat[at]]).T)
        return not wrong.any(), gradient, estimate

    def _estimate(
        self,
        op: OperatorDef,
        inputs: Sequence[Any],
        input_to_check: int,
        outputs: Sequence[int],
        gradient: Array,
    ) -> Array:
        """The slopes of the loss; the gradient itself where an element is not checked."""
        array = inputs[input_to_check]
        estimate: Array = gradient.astype(array.dtype)
        whole = os.getenv("CAFFE2_FULL_GRAD_CHECK") == "1" or array.size <= 2 * _CHECKED
        for at in range(array.size) if whole else [*range(_CHECKED), *range(-_CHECKED, 0)]:
            before = array.flat[at]
            losses = []
            for step in (self._stepsize, -self._stepsize):
                array.flat[at] = before + step
                losses.append(self._loss(op, inputs, op.input, outputs))
            array.flat[at] = before
            estimate.flat[at] = (losses[0] - losses[1]) / (2 * self._stepsize)
        return estimate


def _check_inferred(op: OperatorDef, inputs: Sequence[Any]) -> None:
    """Shapes and types of an operator's outputs, inferred from those of its inputs, are those that it has."""
    arrays = {name: np.asarray(array) for name, array in zip(op.input, inputs, strict=False)}
    shapes, types = workspace.InferShapesAndTypes(
        [NetDef(op=[op])],
        {name: array.shape for name, array in arrays.items()},
        blob_types={name: _number(array) for name, array in arrays.items()},
    )
    for name in op.output:
        assert name in shapes, f"the shape of output {name} of {op.type} can't be inferred"
        found = workspace.FetchBlob(name)
        assert tuple(shapes[name]) == found.shape, f"{name} has the shape {found.shape}, not {shapes[name]}"
        assert types[name] == _number(found), f"{name} has the type {found.dtype}, not {types[name]}"


def _number(array: Array) -> int:
    """The original's number of an array's element type."""
    return NUMBERS[DataType.from_numpy(array.dtype)] if array.dtype.kind in "biuf" else TensorProto.STRING


class NetGradientChecker:
    """Compares the gradients of nets with central differences, or with those of other nets."""

    @staticmethod
    def Check(
        net: core.Net,
        outputs_with_grad: Sequence[Any],
        input_values: Mapping[Any, Any],
        input_to_check: Any,
        step_size: float = 0.0001,
        threshold: float = 0.05,
        print_net: bool = True,
    ) -> bool:
        """Check the gradient of the sum of a net's outputs by one of its blobs, in the current workspace.

        Args:
            net: The net, which stays as it is.
            outputs_with_grad: The outputs that are summed.
            input_values: Arrays of blobs that the net reads; others are in the workspace.
            input_to_check: The blob.
            step_size: How far an element is moved, up and down.
            threshold: Absolute and relative tolerance.
            print_net: Whether the net with its gradient is printed.

        Raises:
            AssertionError: They don't agree.
        """
        outputs = list(dict.fromkeys(str(blob) for blob in outputs_with_grad))
        checked = net.Clone(f"{net.Name()}_copy")
        gradients = checked.AddGradientOperators(outputs)
        if print_net:
            print(checked.Proto())
        values = {str(name): np.array(array) for name, array in input_values.items()}
        name = str(input_to_check)
        assert name in gradients, f"{name} has no gradient"
        _run_net(checked, values)
        gradient = _dense(gradients[name], values[name])
        estimate = np.zeros_like(values[name])
        for at in range(estimate.size):
            sums = []
            for step in (step_size, -step_size):
                moved = values[name].copy()
                moved.flat[at] += step
                _run_net(net, {**values, name: moved})
                sums.append(sum(workspace.FetchBlob(o).astype(np.float64).sum() for o in outputs))
            estimate.flat[at] = (sums[0] - sums[1]) / (2 * step_size)
        np.testing.assert_allclose(gradient, estimate, rtol=threshold, atol=threshold)
        return True

    @staticmethod
    def CompareNets(
        nets: Sequence[core.Net],
        outputs: Sequence[Sequence[Any]],
        outputs_with_grad_ids: Sequence[int],
        inputs_with_grads: Sequence[Any],
        input_values: Mapping[Any, Any] | None = None,
        threshold: float = 0.0000001,
        print_net_images: bool = False,
    ) -> None:
        """Compare outputs and gradients of several nets.

        Args:
            nets: The nets, which stay as they are.
            outputs: For each net its outputs, in one order.
            outputs_with_grad_ids: Positions of the outputs that are differentiated.
            inputs_with_grads: The blobs whose gradients are compared.
            input_values: Arrays of blobs that the nets read; None: they are in the workspace.
            threshold: Absolute and relative tolerance.
            print_net_images: Whether the nets with their gradients are drawn into files.

        Raises:
            AssertionError: They don't agree.
        """
        assert len(nets) == len(outputs), "each net has a list of outputs"
        values = {str(name): np.asarray(array) for name, array in (input_values or {}).items()}
        found = []
        for index, (net, names) in enumerate(zip(nets, outputs, strict=True)):
            checked = net.Clone(f"{net.Name()}_copy")
            gradients = checked.AddGradientOperators([str(names[at]) for at in outputs_with_grad_ids])
            if print_net_images:
                from netgrad.caffe2.python import net_drawer

                with open(f"{index}.dot", "w") as file:
                    file.write(net_drawer.GetPydotGraph(checked).to_string())
            _run_net(checked, values)
            results = [workspace.FetchBlob(name) for name in names]
            for blob in inputs_with_grads:
                name = str(blob)
                assert name in gradients, f"{name} has no gradient in net {net.Name()}"
                results.append(_dense(gradients[name], workspace.FetchBlob(name)))
            found.append(results)
        for others in found[1:]:
            for first, other in zip(found[0], others, strict=True):
                np.testing.assert_allclose(first, other, rtol=threshold, atol=threshold)


def _run_net(net: core.Net, values: Mapping[str, Array]) -> None:
    for name, array in values.items():
        workspace.blobs[name] = array
    workspace.RunNetOnce(net)


def _dense(gradient: Any, primal: Array) -> Any:
    if not isinstance(gradient, core.GradientSlice):
        return workspace.FetchBlob(gradient)
    total = np.zeros_like(primal)
    np.add.at(total, workspace.FetchBlob(gradient.indices).reshape(-1), workspace.FetchBlob(gradient.values))
    return total
