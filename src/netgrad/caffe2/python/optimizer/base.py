"""What all optimizers share: the counter, the learning rate, their state."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from netgrad.caffe2.caffe2_pb2 import CPU, CUDA
from netgrad.caffe2.python import core, scope
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo

_OPTIMIZER_ITERATION_NAME = "optimizer_iteration"

_instances: dict[str, int] = defaultdict(int)


class Optimizer:
    """Adds the update of one parameter after the other.

    Attributes:
        _base_learning_rate: The rate that policies start from, positive.
    """

    def __init__(self) -> None:
        self._aux_local: list[Any] = []
        self._aux_shared: list[Any] = []
        self._instance_num = _instances[type(self).__name__]
        _instances[type(self).__name__] += 1
        self._lr_multiplier: Any = None
        self._local_lr_multipliers: list[Any] = []
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """Add the update of ``param``: a `ParameterInfo`, or a blob with its gradient."""
        info = param if isinstance(param, ParameterInfo) else ParameterInfo(None, param, grad=grad)
        self._run(net, param_init_net, info)

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        raise NotImplementedError

    def get_cpu_blob_name(self, base_str: str, node_name: str = "") -> str:
        """A name for a blob of this optimizer on the processor."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str: str, gpu_id: int, node_name: str = "") -> str:
        """A name for a blob of this optimizer on another device."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    def make_unique_blob_name(self, base_str: str) -> str:
        """A name for a blob of this optimizer on the current device."""
        device = scope.CurrentDeviceScope()
        if device is not None and device.device_type == CUDA:
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name if device is not None else "")

    def build_lr(
        self,
        net: Any,
        param_init_net: Any,
        base_learning_rate: float,
        learning_rate_blob: str | None = None,
        policy: str = "fixed",
        iter_val: int = 0,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        """Add the counter and the learning rate, once per net; returns references to both."""
        name = learning_rate_blob or self.make_unique_blob_name("lr")
        with core.DeviceScope(core.DeviceOption(CPU)):
            iteration = _counter(net, param_init_net, iter_val)
        if net.BlobIsDefined(name):
            rate = net.GetBlobRef(name)
        else:
            rate = net.LearningRate(
                [iteration],
                core.BlobReference(name),
                base_lr=-base_learning_rate,
                policy=policy,
                **kwargs,
            )
        for multiplier in (self._lr_multiplier, *self._local_lr_multipliers):
            if multiplier is not None:
                rate = net.Mul([rate, multiplier], net.NextScopedBlob(f"{rate}_scaled"), broadcast=1)
        return rate, iteration

    def add_lr_multiplier(self, lr_multiplier: Any, is_gpu_blob: bool = False) -> None:
        """Multiply the rate of all parameters by a blob."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, multiplier: Any, is_gpu_blob: bool = False) -> None:
        self._local_lr_multipliers.append(multiplier)

    def _clear_local_lr_multiplier(self) -> None:
        self._local_lr_multipliers.clear()

    def get_auxiliary_parameters(self) -> AuxParams:
        """The state: what belongs to one parameter, and what all share."""
        return AuxParams(local=self._aux_local, shared=self._aux_shared)

    def scale_learning_rate(self, *args: Any, **kwargs: Any) -> None:
        """Multiply the rate by a number, before the updates are added.

        Raises:
            NotImplementedError: The optimizer has no rate.
        """
        raise NotImplementedError("this optimizer has no learning rate")

    def _state(self, param_init_net: Any, param: Any, ending: str, value: float = 0.0) -> Any:
        """A blob like the parameter."""
        state = param_init_net.ConstantFill([param], f"{param}_{ending}", value=value)
        self._aux_local.append(state)
        return state


class AuxParams:
    """State of an optimizer."""

    def __init__(self, local: list[Any], shared: list[Any]) -> None:
        self.local = local
        self.shared = shared


def _counter(net: Any, param_init_net: Any, value: int = 0) -> Any:
    """The counter of iterations of ``net``, which goes up before the rates are computed."""
    if net.BlobIsDefined(_OPTIMIZER_ITERATION_NAME):
        return net.GetBlobRef(_OPTIMIZER_ITERATION_NAME)
    iteration = param_init_net.ConstantFill(
        [],
        core.BlobReference(_OPTIMIZER_ITERATION_NAME),
        shape=[1],
        value=value,
        dtype=core.DataType.INT64,
    )
    mutex = param_init_net.CreateMutex([], [core.BlobReference("iteration_mutex")])
    net.AtomicIter([mutex, iteration], [iteration])
    return net.GetBlobRef(_OPTIMIZER_ITERATION_NAME)


class OptimizerWithRate(Optimizer):
    """An optimizer with a learning rate and a policy."""

    def __init__(self, base_learning_rate: float, policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.base_learning_rate = base_learning_rate
        self.policy = policy
        self.init_kwargs = kwargs

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.base_learning_rate *= scale

    def _rate(self, net: Any, param_init_net: Any, sign: float = 1.0) -> tuple[Any, Any]:
        return self.build_lr(
            net,
            param_init_net,
            base_learning_rate=sign * self.base_learning_rate,
            policy=self.policy,
            **self.init_kwargs,
        )

    def _deduplicated(self, net: Any, grad: Any, aggregator: str | None) -> Any:
        return net.DeduplicateGradientSlices(grad, aggregator=aggregator) if aggregator else grad
