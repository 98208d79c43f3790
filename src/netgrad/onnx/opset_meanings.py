"""Opset adapters for changes of meaning: the same operator came to compute something else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir

from netgrad.onnx.edit import CannotRewriteError, Editor, constant_of
from netgrad.onnx.opset_forms import Adapter, both, default, drop, ints_to_input, set_input


def _rank(value: onnx_ir.Value | None) -> int:
    if value is None or value.shape is None:
        raise CannotRewriteError(f"the rank of its input '{value.name if value else ''}' is unknown")
    return value.shape.rank()


def _flag(node: onnx_ir.Node, name: str, otherwise: int = 0) -> int:
    attribute = node.attributes.pop(name, None)
    return otherwise if attribute is None else attribute.as_int()


def _axes(first: int, count: int, editor: Editor) -> onnx_ir.Value:
    return editor.constant(np.arange(first, first + count, dtype=np.int64), "axes")


def _broadcast(node: onnx_ir.Node, editor: Editor) -> None:
    """Binary operators 6 -> 7: ``axis`` said at which axis of A the shape of B begins.

    From 7 on shapes are aligned at their last axes, so B gets axes of size 1 behind its own.
    """
    if not _flag(node, "broadcast"):
        drop("axis")(node, editor)
        return
    if "axis" not in node.attributes:
        return  # aligned at the last axes already
    a, b = node.inputs[:2]
    axis, rank_a, rank_b = _flag(node, "axis"), _rank(a), _rank(b)
    behind = rank_a - (axis + rank_a if axis < 0 else axis) - rank_b
    if behind > 0 and rank_b > 0 and b is not None:
        inputs = (b, _axes(rank_b, behind, editor))
        node.replace_input_with(1, editor.before(node, "Unsqueeze", inputs, f"{b.name}_aligned"))


def _prelu(node: onnx_ir.Node, editor: Editor) -> None:
    """PRelu 6 -> 7: a slope of shape (C,) belonged to axis 1 of X; from 7 on to the last axis."""
    x, slope = node.inputs[:2]
    if slope is not None and slope.shape is not None and slope.shape.rank() == 1 and slope.shape[0] == 1:
        return
    behind = _rank(x) - 1 - _rank(slope)
    if behind > 0 and slope is not None:
        inputs = (slope, _axes(_rank(slope), behind, editor))
        node.replace_input_with(1, editor.before(node, "Unsqueeze", inputs, f"{slope.name}_aligned"))


def _spatial(node: onnx_ir.Node, editor: Editor) -> None:
    """BatchNormalization 7 -> 9, spatial = 0: each activation had its own statistics (C, D1, ..., Dn).

    The axes behind the batch are made one axis of channels round the operator, whose computation stays as it
    is.
    """
    if _flag(node, "spatial", 1):
        return
    if len([output for output in node.outputs if output.name]) > 1:
        raise CannotRewriteError("spatial = 0 in training mode has no equivalent")
    x = node.inputs[0]
    assert x is not None, "BatchNormalization has an X"
    flat = editor.constant(np.array([-1], np.int64), "flat_shape")
    shape = editor.before(node, "Shape", (x,), f"{x.name}_shape")
    node.replace_input_with(0, editor.before(node, "Flatten", (x,), f"{x.name}_flat", axis=1))
    for index in range(1, 5):
        value = node.inputs[index]
        if value is not None:
            reshaped = editor.before(node, "Reshape", (value, flat), f"{value.name}_flat")
            node.replace_input_with(index, reshaped)
    y = node.outputs[0]
    editor.behind(y, "Reshape", shape)
    y.shape = None


def _training(node: onnx_ir.Node, editor: Editor) -> None:
    """BatchNormalization 9 -> 14: training mode is asked for by an attribute, no longer by further outputs.

    Outputs mean and var (the new running statistics) stay, saved_mean and saved_var are gone.
    """
    if any(output.uses() or output.is_graph_output() for output in node.outputs[3:]):
        raise CannotRewriteError("its outputs saved_mean and saved_var have no equivalent")
    if any(output.name for output in node.outputs[1:]):
        node.resize_outputs(min(3, len(node.outputs)))
        node.attributes["training_mode"] = onnx_ir.AttrInt64("training_mode", 1)


def _softmax(node: onnx_ir.Node, editor: Editor) -> None:
    """Softmax, LogSoftmax and Hardmax 11 -> 13: the input was flattened to two axes, split before ``axis``.

    That is the same operator where ``axis`` is the last axis, or where at most one of the axes from ``axis``
    on has a size other than 1. Otherwise the flattening is written out.
    """
    axis = _flag(node, "axis", 1)
    x = node.inputs[0]
    assert x is not None, "Softmax has an input"
    dims = None if x.shape is None else list(x.shape)
    if dims is not None:
        axis += len(dims) if axis < 0 else 0
        # A 0-d input has no axis to speak of; an axis out of range is left for the runtime to refuse.
        open_axes = [i for i in range(axis, len(dims)) if dims[i] != 1]
        if len(open_axes) <= 1 or axis == len(dims) - 1:
            single = open_axes[0] if len(open_axes) == 1 else len(dims) - 1
            node.attributes["axis"] = onnx_ir.AttrInt64("axis", single)
            return
    if dims is not None and all(isinstance(dim, int) for dim in dims):
        shape = editor.constant(np.array(dims, np.int64), "shape")
    else:
        shape = editor.before(node, "Shape", (x,), f"{x.name}_shape")
    node.replace_input_with(0, editor.before(node, "Flatten", (x,), f"{x.name}_flat", axis=axis))
    node.attributes["axis"] = onnx_ir.AttrInt64("axis", 1)
    editor.behind(node.outputs[0], "Reshape", shape)
    node.outputs[0].shape = None


def _upsample_sides(node: onnx_ir.Node, editor: Editor) -> None:
    """Upsample 1 -> 7: the scales of height and width become the list of all scales."""
    height = node.attributes.pop("height_scale").as_float()
    width = node.attributes.pop("width_scale").as_float()
    node.attributes["scales"] = onnx_ir.AttrFloat32s("scales", (1.0, 1.0, height, width))
    mode = node.attributes.get("mode")
    if mode is not None and mode.as_string() == "bilinear":
        node.attributes["mode"] = onnx_ir.AttrString("mode", "linear")


def _upsample_scales(node: onnx_ir.Node, editor: Editor) -> None:
    """Upsample 7 -> 9: the scales become an input."""
    scales = np.array(node.attributes.pop("scales").as_floats(), np.float32)
    set_input(node, 1, editor.constant(scales, "upsample_scales"))


def _upsample(node: onnx_ir.Node, editor: Editor) -> None:
    """Upsample 9 -> Resize 10: the same, with scales of at least 1."""
    node.op_type = "Resize"
    node.meta["only upwards"] = True


def _resize(node: onnx_ir.Node, editor: Editor) -> None:
    """Resize 10 -> 11: coordinates were asymmetric; nearest was the element below, or above going down.

    From 11 on, that is said by attributes, the same for all axes.
    """
    x, scales = node.inputs[:2]
    mode = node.attributes.get("mode")
    rounding = "floor"
    if (mode is None or mode.as_string() == "nearest") and not node.meta.pop("only upwards", False):
        known = constant_of(scales)
        if known is None:
            raise CannotRewriteError("its scales are not constant, so the former rounding is unknown")
        if (known < 1).any():
            if (known > 1).any():
                raise CannotRewriteError("it resizes up along one axis and down along another")
            rounding = "ceil"
    node.resize_inputs(3)
    node.replace_input_with(0, x)
    node.replace_input_with(1, None)
    node.replace_input_with(2, scales)
    node.attributes["coordinate_transformation_mode"] = onnx_ir.AttrString(
        "coordinate_transformation_mode", "asymmetric"
    )
    node.attributes["nearest_mode"] = onnx_ir.AttrString("nearest_mode", rounding)


def _resize_absent(node: onnx_ir.Node, editor: Editor) -> None:
    """Resize 11 -> 13: roi and scales that say nothing were empty tensors and are now left out."""
    for index in (1, 2):
        known = constant_of(node.inputs[index]) if index < len(node.inputs) else None
        if known is not None and known.size == 0:
            node.replace_input_with(index, None)


def _grid_sample(node: onnx_ir.Node, editor: Editor) -> None:
    """GridSample 16 -> 20: the modes got the names that Resize uses."""
    default(mode="bilinear")(node, editor)
    mode = node.attributes["mode"].as_string()
    renamed = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    node.attributes["mode"] = onnx_ir.AttrString("mode", renamed)


def _group_normalization(node: onnx_ir.Node, editor: Editor) -> None:
    """GroupNormalization 18 -> 21: scale and bias were per group and are now per channel: repeat them."""
    x = node.inputs[0]
    channels = x.shape[1] if x is not None and x.shape is not None and x.shape.rank() > 1 else None
    if not isinstance(channels, int):
        raise CannotRewriteError("its number of channels is unknown")
    groups = node.attributes["num_groups"].as_int()
    column = editor.constant(np.array([groups, 1], np.int64), "group_column")
    repeated = editor.constant(np.array([groups, channels // groups], np.int64), "group_channels")
    flat = editor.constant(np.array([-1], np.int64), "flat_shape")
    for index in (1, 2):
        value = node.inputs[index]
        assert value is not None, "GroupNormalization has a scale and a bias"
        for operator, operand in (("Reshape", column), ("Expand", repeated), ("Reshape", flat)):
            value = editor.before(node, operator, (value, operand), f"{value.name}_channels")
        node.replace_input_with(index, value)


def _by(adapter: Adapter, version: int, operators: Sequence[str]) -> dict[tuple[str, int], Adapter]:
    return {(operator, version): adapter for operator in operators}


ADAPTERS: dict[tuple[str, int], Adapter] = {
    **_by(_broadcast, 7, ["Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"]),
    **_by(_softmax, 13, ["Hardmax", "LogSoftmax", "Softmax"]),
    ("BatchNormalization", 9): _spatial,
    ("BatchNormalization", 14): _training,
    ("DFT", 20): both(default(axis=1), ints_to_input("axis", 2, scalar=True)),
    ("Gemm", 7): drop("broadcast"),  # C was broadcast as it is now
    ("GridSample", 20): _grid_sample,
    ("GroupNormalization", 21): _group_normalization,
    ("PRelu", 7): _prelu,
    ("Resize", 11): _resize,
    ("Resize", 13): _resize_absent,
    ("RoiAlign", 16): default(coordinate_transformation_mode="output_half_pixel"),
    ("Upsample", 7): _upsample_sides,
    ("Upsample", 9): _upsample_scales,
    ("Upsample", 10): _upsample,
}
"""By (operator type, opset of the change)."""
