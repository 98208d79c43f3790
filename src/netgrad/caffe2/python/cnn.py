"""The older model helper, whose layers are methods: ``model.Conv("data", "conv1", 3, 64, kernel=7)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import brew, core, scope, workspace
from netgrad.caffe2.python.model_helper import ModelHelper

# The methods, and the layers of `brew` that they are.
_LAYERS = {
    "Accuracy": "accuracy",
    "AveragePool": "average_pool",
    "Concat": "concat",
    "Conv": "conv",
    "ConvNd": "conv_nd",
    "ConvTranspose": "conv_transpose",
    "DepthConcat": "depth_concat",
    "Dropout": "dropout",
    "FC": "fc",
    "FC_Decomp": "fc_decomp",
    "FC_Prune": "fc_prune",
    "FC_Sparse": "fc_sparse",
    "GroupConv": "group_conv",
    "GroupConv_Deprecated": "group_conv_deprecated",
    "ImageInput": "image_input",
    "InstanceNorm": "instance_norm",
    "Iter": "iter",
    "LRN": "lrn",
    "MaxPool": "max_pool",
    "PRelu": "prelu",
    "PackedFC": "packed_fc",
    "Relu": "relu",
    "Softmax": "softmax",
    "SpatialBN": "spatial_bn",
    "SpatialGN": "spatial_gn",
    "Sum": "sum",
    "Transpose": "transpose",
    "AddWeightDecay": "add_weight_decay",
}


class CNNModelHelper(ModelHelper):
    """A model helper with the layers of `brew` as methods, and any other operator as a method, too.

    Attributes:
        order: Order of the dims of images.
        use_cudnn: Whether operators name the engine CUDNN, which makes no difference here.
        cudnn_exhaustive_search: An argument of convolutions, likewise.
        ws_nbytes_limit: Another one, if it isn't None.
    """

    def __init__(
        self,
        order: str = "NCHW",
        name: str | None = None,
        use_cudnn: bool = True,
        cudnn_exhaustive_search: bool = False,
        ws_nbytes_limit: int | None = None,
        init_params: bool = True,
        skip_sparse_optim: bool = False,
        param_model: ModelHelper | None = None,
    ) -> None:
        """Start a model.

        Args:
            order: ``NCHW`` or ``NHWC``.
            name: Its name; without one ``CNN``.
            use_cudnn: See the attributes.
            cudnn_exhaustive_search: See the attributes.
            ws_nbytes_limit: See the attributes.
            init_params: Whether parameters get fills.
            skip_sparse_optim: Whether optimizers leave out parameters whose gradients are rows.
            param_model: Another model whose parameters this one shares.

        Raises:
            ValueError: The order is another one.
        """
        if order not in ("NCHW", "NHWC"):
            raise ValueError(f"Cannot understand the CNN storage order {order}: it is NCHW or NHWC")
        defaults: dict[str, Any] = {
            "order": order,
            "use_cudnn": use_cudnn,
            "cudnn_exhaustive_search": cudnn_exhaustive_search,
        }
        if ws_nbytes_limit:
            defaults["ws_nbytes_limit"] = ws_nbytes_limit
        super().__init__(
            name="CNN" if name is None else name,
            init_params=init_params,
            skip_sparse_optim=skip_sparse_optim,
            param_model=param_model,
            arg_scope=defaults,
        )
        self.order = order
        self.use_cudnn = use_cudnn
        self.cudnn_exhaustive_search = cudnn_exhaustive_search
        self.ws_nbytes_limit = ws_nbytes_limit

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type not in _LAYERS:
            return super().__getattr__(op_type)
        layer = getattr(brew, _LAYERS[op_type])

        def add(*args: Any, **kwargs: Any) -> Any:
            return layer(self, *args, **kwargs)

        return add

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_LAYERS})

    def PadImage(self, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
        """Add the operator ``PadImage``."""
        return self.net.PadImage(blob_in, blob_out, **kwargs)

    def GetWeights(self, namescope: str | None = None) -> list[Any]:
        """The weights of a name scope, without scopes inside: None for the current one, ``''`` for all."""
        return _of_scope(self.weights, namescope)

    def GetBiases(self, namescope: str | None = None) -> list[Any]:
        """The biases of a name scope, likewise."""
        return _of_scope(self.biases, namescope)

    @property
    def XavierInit(self) -> tuple[str, dict[str, Any]]:
        """The fill after Glorot."""
        return "XavierFill", {}

    @property
    def MSRAInit(self) -> tuple[str, dict[str, Any]]:
        """The fill after He."""
        return "MSRAFill", {}

    @property
    def ZeroInit(self) -> tuple[str, dict[str, Any]]:
        """The fill with zeros."""
        return "ConstantFill", {}

    @property
    def CPU(self) -> DeviceOption:
        """The option of the processor."""
        return core.DeviceOption(CPU)

    def GPU(self, gpu_id: int = 0) -> DeviceOption:
        """The option of a GPU, whose operators run on the processor."""
        return core.DeviceOption(workspace.GpuDeviceType, gpu_id)


def _of_scope(blobs: Sequence[Any], namescope: str | None) -> list[Any]:
    wanted = scope.CurrentNameScope() if namescope is None else namescope
    return [blob for blob in blobs if not wanted or blob.GetNameScope() == wanted]
