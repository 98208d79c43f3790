"""Gradients that are kept small."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core
from netgrad.caffe2.python.modeling.net_modifier import NetModifier


class GradientClipping(NetModifier):
    """Overwrites gradients by smaller ones: scaled to a norm, or with each element in a range."""

    L1_NORM = "l1_norm"
    L2_NORM = "l2_norm"
    BY_NORM = "by_norm"
    BY_VALUE = "by_value"
    GRAD_CLIP_METHODS = (BY_NORM, BY_VALUE)
    CLIP_GRADIENT_NORM_TYPES = (L2_NORM, L1_NORM)

    def __init__(
        self,
        grad_clip_method: str,
        clip_norm_type: str | None = "l2_norm",
        clip_threshold: float = 0.1,
        use_parameter_norm: bool = False,
        compute_norm_ratio: bool = False,
        clip_max: float = 1,
        clip_min: float = -1,
        blobs_to_include: Iterable[Any] | None = None,
        blobs_to_exclude: Iterable[Any] | None = None,
    ) -> None:
        """Prepare the clipping.

        Args:
            grad_clip_method: ``by_norm`` or ``by_value``.
            clip_norm_type: ``l2_norm`` or ``l1_norm``.
            clip_threshold: The largest norm.
            use_parameter_norm: Whether it is so many times the norm of the parameter.
            compute_norm_ratio: Whether the quotient of both norms is computed: ``<parameter>_norm_ratio``.
            clip_max: The largest element, by value.
            clip_min: The smallest element, by value.
            blobs_to_include: The parameters whose gradients are clipped; None: all.
            blobs_to_exclude: Those whose gradients aren't.

        Raises:
            AssertionError: A method or norm is unknown.
        """
        known = "This method of clipping, {}, has not been implemented."
        assert grad_clip_method in self.GRAD_CLIP_METHODS, known.format(grad_clip_method)
        assert clip_norm_type in (*self.CLIP_GRADIENT_NORM_TYPES, None), known.format(clip_norm_type)
        has_norm = grad_clip_method == self.BY_VALUE or clip_norm_type is not None
        assert has_norm, "clipping by norm needs a clip_norm_type"
        self.grad_clip_method = grad_clip_method
        self.clip_norm_type = clip_norm_type
        self.clip_threshold = float(clip_threshold)
        self.use_parameter_norm = use_parameter_norm
        self.compute_norm_ratio = compute_norm_ratio
        self.clip_max = float(clip_max)
        self.clip_min = float(clip_min)
        self.blobs_to_include = None if blobs_to_include is None else list(blobs_to_include)
        self.blobs_to_exclude = list(blobs_to_exclude or ())

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Mapping[Any, Any] | None = None,
        blob_to_device: Mapping[str, DeviceOption] | None = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the clipping; see `NetModifier.modify_net`. Sparse gradients stay as they are, with a warning.

        Raises:
            AssertionError: There is no map of gradients.
            Exception: The net doesn't define a parameter.
        """
        assert grad_map is not None, "clipping needs grad_map: parameter to gradient"
        grads = {str(param): grad for param, grad in grad_map.items()}
        names = (
            list(grads) if self.blobs_to_include is None else [str(name) for name in self.blobs_to_include]
        )
        excluded = {str(name) for name in self.blobs_to_exclude}
        for name in names:
            if not net.BlobIsDefined(name):
                raise Exception(f"param {name} is not defined in net {net.Name()}")
            grad = grads[name]
            if name in excluded:
                continue
            if isinstance(grad, core.GradientSlice):
                warnings.warn(f"the gradient of {name} is sparse, and is not clipped", stacklevel=2)
                continue
            known = [blob for blob in (name, str(grad)) if blob in (blob_to_device or {})]
            device = blob_to_device[known[0]] if known and blob_to_device else core.DeviceOption(CPU)
            with core.DeviceScope(device):
                self._clip(net, core.BlobReference(name), core.BlobReference(str(grad)))

    def _clip(self, net: Any, param: Any, grad: Any) -> None:
        if self.grad_clip_method == self.BY_VALUE:
            net.Clip([grad], [grad], max=self.clip_max, min=self.clip_min)
            return
        norm = self._norm(net, grad)
        inputs = [grad, norm]
        if self.use_parameter_norm:
            inputs.append(self._norm(net, param))
            if self.compute_norm_ratio:
                net.Div(inputs[1:], [net.NextScopedBlob(prefix=f"{param}_norm_ratio")])
        net.ClipTensorByScaling(inputs, [grad], threshold=self.clip_threshold)

    def _norm(self, net: Any, blob: Any) -> Any:
        """The norm of a blob; ``LpNorm`` itself gives the sum of squares."""
        p = 2 if self.clip_norm_type == self.L2_NORM else 1
        norm = net.LpNorm([blob], net.NextScopedBlob(prefix=f"{blob}_l{p}_norm"), p=p)
        return net.Pow([norm], exponent=0.5) if p == 2 else norm
