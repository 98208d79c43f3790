"""Products and convolutions."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes


@writes("Gemm")
def _gemm(n: Node) -> None:
    """FC where it is one, else a product and a sum; what is scaled are the operands."""
    alpha, beta = n.attribute("alpha", 1.0), n.attribute("beta", 1.0)
    left, right = n.attribute("transA", 0), n.attribute("transB", 0)
    x, weights = n.inputs[:2]
    added = n.inputs[2] if n.has(2) and beta else ""
    if alpha != 1.0:
        x = n.step("Scale", [x], scale=alpha)
    if added and beta != 1.0:
        added = n.step("Scale", [added], scale=beta)
    if added and not left and _is_bias(n, 0 if right else 1):
        n.write("FC" if right else "FCTransposed", [x, weights, added])
        return
    arguments = {"trans_a": left or None, "trans_b": right or None}
    if added:
        n.write("Add", [n.step("MatMul", [x, weights], **arguments), added])
    else:
        n.write("MatMul", [x, weights], **arguments)


def _is_bias(n: Node, axis: int) -> bool:
    """Whether what a product adds is a vector with an element per column, of which ``axis`` tells."""
    bias = n.info(2).shape
    if bias is None or len(bias) != 1:
        return False
    if isinstance(bias[0], int) and bias[0] != 1:
        return True  # it is broadcast in one direction only, so there are as many columns
    return bias[0] is not None and bias[0] == (n.info(1).shape or (None, None))[axis]


@writes("MatMul")
def _matmul(n: Node) -> None:
    if n.rank(0) == n.rank(1) == 2:
        n.write("MatMul", n.inputs)
    else:
        n.write("BatchMatMul", n.inputs, broadcast=1)


def window(n: Node, kernel: list[int]) -> dict[str, Any]:
    """The arguments of a sliding window; those that are the defaults are left out."""
    dims = len(kernel)
    strides = n.attribute("strides", [1] * dims)
    dilations = n.attribute("dilations", [1] * dims)
    return {
        "kernels": kernel,
        "strides": strides,
        "pads": _pads(n, kernel, strides, dilations),
        "dilations": dilations if any(dilation != 1 for dilation in dilations) else None,
    }


def _pads(n: Node, kernel: list[int], strides: list[int], dilations: list[int]) -> list[int]:
    """Padding in front along each dim, then behind.

    ``SAME_UPPER`` and ``SAME_LOWER`` pad so that there is an output per stride, with the odd one behind or
    in front.
    """
    way = n.attribute("auto_pad", "NOTSET")
    if way in ("NOTSET", ""):
        found: list[int] = n.attribute("pads", [0] * (2 * len(kernel)))
        return found
    if way == "VALID":
        return [0] * (2 * len(kernel))
    small, large = [], []
    for axis, (size, stride, dilation) in enumerate(zip(kernel, strides, dilations, strict=True), start=2):
        image = n.dim(0, axis)
        total = max(0, (-(-image // stride) - 1) * stride + (size - 1) * dilation + 1 - image)
        small.append(total // 2)
        large.append(total - total // 2)
    return large + small if way == "SAME_LOWER" else small + large


def kernel_shape(n: Node) -> list[int]:
    """The kernel that a convolution says, or that its weights have."""
    found: list[int] = n.attribute("kernel_shape", [])
    return found or list(n.dims(1)[2:])


@writes("Conv")
def _conv(n: Node) -> None:
    n.write("Conv", n.inputs, **window(n, kernel_shape(n)), group=_group(n))


@writes("DeformConv")
def _deformable(n: Node) -> None:
    if n.has(4) or len(kernel_shape(n)) != 2:
        raise n.refused("Caffe2's DeformConv is over images, and has no mask")
    groups = n.attribute("offset_group", 1)
    operands = [n.inputs[place] for place in (0, 2, 1)] + ([n.inputs[3]] if n.has(3) else [])
    arguments = {**window(n, kernel_shape(n)), "group": _group(n)}
    n.write("DeformConv", operands, **arguments, deformable_group=groups if groups != 1 else None)


@writes("ConvTranspose")
def _conv_transpose(n: Node) -> None:
    kernel = kernel_shape(n)
    strides = n.attribute("strides", [1] * len(kernel))
    adjusted = n.attribute("output_padding", [0] * len(kernel))
    if any(dilation != 1 for dilation in n.attribute("dilations", [])):
        raise n.refused("Caffe2's ConvTranspose has no dilations")
    n.write(
        "ConvTranspose",
        n.inputs,
        kernels=kernel,
        strides=strides,
        pads=_transposed_pads(n, kernel, strides, adjusted),
        adjs=adjusted if any(adjusted) else None,
        group=_group(n),
    )


def _transposed_pads(n: Node, kernel: list[int], strides: list[int], adjusted: list[int]) -> list[int]:
    """The pads that give the output shape that is asked for: the formula of the operator's definition."""
    way, shape = n.attribute("auto_pad", "NOTSET"), n.attribute("output_shape", [])
    if not shape and way in ("NOTSET", "", "VALID"):
        found: list[int] = n.attribute("pads", [0] * (2 * len(kernel)))
        return found
    small, large = [], []
    for k, (size, stride, extra) in enumerate(zip(kernel, strides, adjusted, strict=True)):
        image = n.dim(0, k + 2)
        wanted = shape[len(shape) - len(kernel) + k] if shape else image * stride
        total = stride * (image - 1) + extra + size - wanted
        if total < 0:
            raise n.refused("its output shape is larger than what the kernel reaches")
        small.append(total // 2)
        large.append(total - total // 2)
    return small + large if way == "SAME_UPPER" else large + small


def _group(n: Node) -> int | None:
    group: int = n.attribute("group", 1)
    return group if group != 1 else None
