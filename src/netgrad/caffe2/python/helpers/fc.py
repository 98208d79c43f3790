"""Fully connected layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.helpers.parameters import XAVIER, ZERO, parameter
from netgrad.caffe2.python.modeling.parameter_info import ParameterTags


def _fc_like(operator: str) -> Callable[..., Any]:
    def layer(
        model: Any,
        blob_in: Any,
        blob_out: Any,
        dim_in: int,
        dim_out: int,
        weight_init: Any = None,
        bias_init: Any = None,
        WeightInitializer: Any = None,
        BiasInitializer: Any = None,
        enable_tensor_core: bool = False,
        float16_compute: bool = False,
        **kwargs: Any,
    ) -> Any:
        out = _name(model, blob_out)
        weight = parameter(
            model,
            f"{out}_w",
            [dim_out, dim_in],
            weight_init,
            WeightInitializer,
            XAVIER,
            ParameterTags.WEIGHT,
        )
        bias_tags = [ParameterTags.BIAS]
        if "freeze_bias" in kwargs:
            bias_tags.append(ParameterTags.COMPUTED_PARAM)
        bias = parameter(model, f"{out}_b", [dim_out], bias_init, BiasInitializer, ZERO, bias_tags)
        if enable_tensor_core:
            kwargs["engine"] = "TENSORCORE"
        if float16_compute:
            kwargs["float16_compute"] = True
        return getattr(model.net, operator)([blob_in, weight, bias], out, **kwargs)

    layer.__name__ = operator.lower()
    layer.__doc__ = (
        f"A layer ``{operator}`` with weights ``<out>_w`` and bias ``<out>_b``; a given ``freeze_bias`` "
        "leaves the bias out of training."
    )
    return layer


fc = _fc_like("FC")
packed_fc = _fc_like("PackedFC")


def fc_decomp(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    rank_approx: int = 5,
    weight_init: Any = None,
    bias_init: Any = None,
    **kwargs: Any,
) -> Any:
    """``FC_Decomp``: an `fc` whose weights are the product of one matrix and another one transposed.

    They are ``<out>_u`` [dim_out, rank_approx] and ``<out>_v`` [dim_in, rank_approx]; the bias ``<out>_b``.
    """
    out = _name(model, blob_out)
    u = parameter(model, f"{out}_u", [dim_out, rank_approx], weight_init, None, XAVIER, None)
    v = parameter(model, f"{out}_v", [dim_in, rank_approx], weight_init, None, XAVIER, None)
    bias = parameter(model, f"{out}_b", [dim_out], bias_init, None, ZERO, None)
    return model.net.FC_Decomp([blob_in, u, v, bias], out, **kwargs)


def fc_prune(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    dim_out: int,
    weight_init: Any = None,
    bias_init: Any = None,
    mask_init: Any = None,
    threshold: float = 0.00001,
    need_compress_rate: bool = False,
    comp_lb: float = 0.05,
    **kwargs: Any,
) -> Any:
    """``FC_Prune``: an `fc` whose gradient operator sets weights to zero from time to time.

    Args:
        model: The model.
        blob_in: Its input.
        blob_out: Its output; the blobs of the layer are named after it.
        dim_in: Columns of the input.
        dim_out: Columns of the output.
        weight_init: Fill of the weights ``_w``.
        bias_init: Fill of the bias ``_b``.
        mask_init: Fill of the summed gradients ``_ag_dw`` and of the places ``_mask_seq``; the mask ``_m``
            itself starts with ones.
        threshold: ``_thres``: weights whose summed gradient is smaller go.
        need_compress_rate: Whether ``<out>_compress_rate``, the share of weights that are left, is written.
        comp_lb: ``_lb``: no more weights go when no larger share is left.
        kwargs: Further arguments of the operator.

    Returns:
        The output, and the share if it is wanted.
    """
    out = _name(model, blob_out)
    shape, mask_fill = [dim_out, dim_in], mask_init or ZERO
    lowest = _blob(model, f"{out}_lb", [1], ("ConstantFill", {"value": comp_lb}))
    weight = parameter(model, f"{out}_w", shape, weight_init, None, XAVIER, None)
    mask = _blob(model, f"{out}_m", shape, ("ConstantFill", {"value": 1.0}))
    summed = _blob(model, f"{out}_ag_dw", shape, mask_fill)
    bias = parameter(model, f"{out}_b", [dim_out], bias_init, None, ZERO, None)
    places = _blob(model, f"{out}_mask_seq", shape, mask_fill)
    least = _blob(model, f"{out}_thres", [1], ("ConstantFill", {"value": threshold}))
    inputs = [blob_in, weight, mask, bias, summed, places, least, lowest]
    return model.net.FC_Prune(inputs, [out, f"{out}_compress_rate"] if need_compress_rate else out, **kwargs)


def fc_sparse(
    model: Any, blob_in: Any, blob_out: Any, w_csr: Any, iw: Any, jw: Any, bias: Any, **kwargs: Any
) -> Any:
    """``FC_Sparse`` with a column per sample; the weights are blobs that exist.

    Args:
        model: The model.
        blob_in: Its input (dim_in, samples).
        blob_out: Its output (dim_out, samples).
        w_csr: The values of the weights, row by row.
        iw: Where each row starts in them, and their number.
        jw: The column of each of them.
        bias: The bias (dim_out,).
        kwargs: Further arguments of the operator.
    """
    for param in (w_csr, iw, jw, bias):
        model.AddParameter(param)
    return model.net.FC_Sparse([blob_in, w_csr, iw, jw, bias], blob_out, **kwargs)


def _name(model: Any, blob_out: Any) -> str:
    return str(blob_out) if blob_out is not None else str(model.net.NextName())


def _blob(model: Any, name: str, shape: list[int], fill: tuple[str, dict[str, Any]]) -> Any:
    """A blob of the layer that isn't trained; its fill, if the model initializes what it needs."""
    if not model.init_params:
        return core.ScopedBlobReference(name, model.param_init_net)
    return getattr(model.param_init_net, fill[0])([], name, shape=shape, **fill[1])
