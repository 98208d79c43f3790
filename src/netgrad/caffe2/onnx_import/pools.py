"""Pools over windows, and sums over neighbouring channels."""

from __future__ import annotations

from typing import Any

from netgrad.caffe2.onnx_import.layers import window
from netgrad.caffe2.onnx_import.node import Node
from netgrad.caffe2.onnx_import.registry import writes

_CAFFE = 3  # legacy_pad: a last window that lies partly outside counts


@writes("MaxPool", "AveragePool", "LpPool")
def _pool(n: Node) -> None:
    if n.op.type == "MaxPool" and n.reads_output(1):
        raise n.refused("Caffe2 counts the places of maxima within each plane")
    kernel = n.attribute("kernel_shape", [])
    arguments: dict[str, Any] = window(n, kernel)
    if arguments["dilations"] and n.op.type != "MaxPool":
        raise n.refused("Caffe2's pools of this type have no dilations")
    if n.attribute("ceil_mode", 0) and not _fits(n, arguments):
        pads, dims = arguments["pads"], len(kernel)
        if dims != 2 or pads[:dims] != pads[dims:] or arguments["dilations"] or n.op.type == "LpPool":
            raise n.refused("Caffe2 rounds up only for flat images with the same padding on both sides")
        if n.attribute("count_include_pad", 0):
            raise n.refused("Caffe2 rounds up only where means leave padding out")
        arguments["legacy_pad"] = _CAFFE
    if n.op.type == "AveragePool" and n.attribute("count_include_pad", 0):
        arguments["count_include_pad"] = 1
    if n.op.type == "LpPool":
        arguments["p"] = float(n.attribute("p", 2))
    n.write(n.op.type, **arguments)


def _fits(n: Node, arguments: dict[str, Any]) -> bool:
    """Whether windows end where the padded image ends, so that rounding makes no difference."""
    kernel, strides, pads = arguments["kernels"], arguments["strides"], arguments["pads"]
    dilations = arguments["dilations"] or [1] * len(kernel)
    shape = n.info(0).shape or ()
    for k, size in enumerate(kernel):
        dim = shape[k + 2] if len(shape) > k + 2 else None
        if not isinstance(dim, int):
            return False
        reach = (size - 1) * dilations[k] + 1
        if (dim + pads[k] + pads[k + len(kernel)] - reach) % strides[k]:
            return False
    return True


@writes("GlobalMaxPool", "GlobalAveragePool")
def _global_pool(n: Node) -> None:
    _write_global(n, n.op.type.removeprefix("Global"))


@writes("GlobalLpPool")
def _global_lp_pool(n: Node) -> None:
    _write_global(n, "LpPool", p=float(n.attribute("p", 2)))


def _write_global(n: Node, type_: str, **arguments: Any) -> None:
    n.write(type_, global_pooling=1, **arguments)
    n.target.net.op[-1].name = ""  # the original asks for a kernel if it finds "Pool" in the name


@writes("LRN")
def _lrn(n: Node) -> None:
    n.write(
        "LRN",
        size=n.attribute("size", 0),
        alpha=n.attribute("alpha", 0.0001),
        beta=n.attribute("beta", 0.75),
        bias=n.attribute("bias", 1.0),
    )
