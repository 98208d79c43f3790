"""What all optimizers share: the counter, the learning rate, their state."""

from __future__ import annotations

import copy
from collections import defaultdict
from typing import Any, NamedTuple

from netgrad.caffe2.caffe2_pb2 import CPU, DeviceOption
from netgrad.caffe2.python import core, scope, utils
from netgrad.caffe2.python.modeling.parameter_info import ParameterInfo

_optimizer_instance_count: dict[str, int] = defaultdict(int)  # test programs read it


def reset_optimizer_instance_count() -> None:
    """Count the instances of each class of optimizers from 0 again."""
    _optimizer_instance_count.clear()


class AuxOptimizerParams(NamedTuple):
    """State of an optimizer.

    Attributes:
        local: Blobs that belong to one parameter each.
        shared: Blobs that all parameters share.
    """

    local: list[Any]
    shared: list[Any]


class Optimizer:
    """Adds the update of one parameter after the other."""

    def __init__(self) -> None:
        self._aux_params = AuxOptimizerParams(local=[], shared=[])
        self._instance_num = _optimizer_instance_count[type(self).__name__]
        _optimizer_instance_count[type(self).__name__] += 1
        self._lr_multiplier: Any = None
        self._local_lr_multiplier: Any = None
        self._local_lr_multiplier_on_gpu = False

    def __call__(self, net: Any, param_init_net: Any, param: Any, grad: Any = None) -> None:
        """Add the update of ``param``: a `ParameterInfo` that has a gradient, or a blob with its gradient."""
        if grad is None:
            assert isinstance(param, ParameterInfo), f"a ParameterInfo is needed, not {param!r}"
            assert param.grad is not None, f"{param} has no gradient"
            info = param
        else:
            blob = core.BlobReference(param) if isinstance(param, str) else param
            info = ParameterInfo(param_id=None, param=blob, grad=grad)
        self._run(net, param_init_net, info)

    def _run(self, net: Any, param_init_net: Any, param_info: ParameterInfo) -> None:
        raise NotImplementedError(f"{type(self).__name__} says not how a parameter is updated")

    def get_cpu_blob_name(self, base_str: str, node_name: str = "") -> str:
        """A name for a blob of this optimizer on the processor."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_cpu"

    def get_gpu_blob_name(self, base_str: str, gpu_id: int, node_name: str = "") -> str:
        """A name for a blob of this optimizer on another device."""
        return f"{type(self).__name__}_{self._instance_num}_{base_str}{node_name}_gpu{gpu_id}"

    @property
    def attributes(self) -> dict[str, Any]:
        """What the optimizer was made with, and its state, without the number of its instance."""
        found = copy.deepcopy(self.__dict__)
        del found["_instance_num"]
        return found

    def make_unique_blob_name(self, base_str: str) -> str:
        """A name for a blob of this optimizer on the current device."""
        device = scope.CurrentDeviceScope()
        if device is None:
            return self.get_cpu_blob_name(base_str)
        if core.IsGPUDeviceType(device.device_type):
            return self.get_gpu_blob_name(base_str, device.device_id, device.node_name)
        return self.get_cpu_blob_name(base_str, device.node_name)

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
        """Add the counter and the learning rate, once per net; returns references to rate and counter."""
        name = learning_rate_blob or self.make_unique_blob_name("lr")
        iteration = utils.BuildUniqueMutexIter(param_init_net, net, iter_val=iter_val)
        if net.BlobIsDefined(name):
            rate = net.GetBlobRef(name)
        else:
            # what is updated goes down: minus the rate
            rate = net.LearningRate(
                [iteration],
                core.BlobReference(name),
                base_lr=-base_learning_rate,
                policy=policy,
                **kwargs,
            )
        if self._lr_multiplier is not None:
            multiplier = net.CopyFromCPUInput(
                self._lr_multiplier, core.BlobReference(self.make_unique_blob_name("lr_multiplier"))
            )
            scaled = core.BlobReference(self.make_unique_blob_name("scaled_lr"))
            rate = net.Mul([rate, multiplier], scaled, broadcast=1)
        if self._local_lr_multiplier is not None:
            scaled = core.BlobReference(self.make_unique_blob_name("local_scaled_lr"))
            rate = net.Mul([rate, self._local_multiplier(net)], scaled, broadcast=1)
        return rate, iteration

    def _local_multiplier(self, net: Any) -> Any:
        if self._local_lr_multiplier_on_gpu or not core.IsGPUDeviceType(_device().device_type):
            return self._local_lr_multiplier
        name = core.BlobReference(self.make_unique_blob_name("local_lr_multiplier"))
        return net.CopyFromCPUInput(self._local_lr_multiplier, name)

    def add_lr_multiplier(self, lr_multiplier: Any) -> None:
        """Multiply the rate of all parameters by a blob, in place of an earlier one; None: by nothing."""
        self._lr_multiplier = lr_multiplier

    def _add_local_lr_multiplier(self, local_lr_multiplier: Any, is_gpu_blob: bool = False) -> None:
        """Multiply the rate by another blob as well, until it is cleared."""
        self._local_lr_multiplier = local_lr_multiplier
        self._local_lr_multiplier_on_gpu = is_gpu_blob

    def _clear_local_lr_multiplier(self) -> None:
        self._local_lr_multiplier = None
        self._local_lr_multiplier_on_gpu = False

    def _add_lars(self, net: Any, param_init_net: Any, info: ParameterInfo, offset: float | None) -> None:
        """Multiply the rate of one parameter by its LARS factor; of none with a sparse gradient."""
        self._clear_local_lr_multiplier()
        if offset is None or isinstance(info.grad, core.GradientSlice):
            return
        assert offset >= 0, f"the offset of LARS is not negative, as {offset} is"
        largest = 3.4028234663852886e38  # of float32
        factor = net.Lars(
            [info.blob, info.grad, *self.create_lars_inputs(param_init_net, 0.0, 1.0, largest)],
            core.BlobReference(self.make_unique_blob_name(f"{info.blob}_lars")),
            offset=offset,
            lr_min=0.0,
        )
        self._add_local_lr_multiplier(factor, core.IsGPUDeviceType(_device().device_type))

    def create_lars_inputs(
        self, param_init_net: Any, weight_decay: float, trust: float, lr_max: float
    ) -> tuple[Any, Any, Any]:
        """Blobs of the weight decay, the trust and the largest rate of LARS."""
        values = {"weight_decay": weight_decay, "trust": trust, "lr_max": lr_max}
        decay, trusted, highest = (
            param_init_net.ConstantFill([], core.BlobReference(name), shape=[1], value=value)
            for name, value in values.items()
        )
        return decay, trusted, highest

    @staticmethod
    def dedup(net: Any, sparse_dedup_aggregator: str | None, grad: Any) -> Any:
        """A sparse gradient whose repeated rows are aggregated, if an aggregator is given."""
        assert isinstance(grad, core.GradientSlice), f"a sparse gradient is needed, not {grad}"
        if not sparse_dedup_aggregator:
            return grad
        return net.DeduplicateGradientSlices(grad, aggregator=sparse_dedup_aggregator)

    def get_auxiliary_parameters(self) -> AuxOptimizerParams:
        """The state: what belongs to one parameter, and what all share."""
        return self._aux_params

    def scale_learning_rate(self, *args: Any, **kwargs: Any) -> None:
        """Multiply the rate by a number, before the updates are added.

        Raises:
            NotImplementedError: The optimizer has no rate.
        """
        raise NotImplementedError(f"{type(self).__name__} has no learning rate that can be scaled")

    def _state(
        self, param_init_net: Any, param: Any, ending: str, value: float = 0.0, **arguments: Any
    ) -> Any:
        """A blob like the parameter."""
        name = core.BlobReference(f"{param}_{ending}")
        state = param_init_net.ConstantFill([param], name, value=value, **arguments)
        self._aux_params.local.append(state)
        return state

    def _row_state(self, param_init_net: Any, param: Any, ending: str, **arguments: Any) -> Any:
        """A blob with a number for each row of the parameter."""
        shape, rows = (core.BlobReference(f"{param}_{name}") for name in ("shape", "shape_numrows"))
        if not param_init_net.BlobIsDefined(rows):
            param_init_net.Shape([param], shape)
            param_init_net.Slice([shape], rows, starts=[0], ends=[1])
        name = core.BlobReference(f"{param}_{ending}")
        state = param_init_net.ConstantFill([rows], name, input_as_shape=1, **{"value": 0.0, **arguments})
        self._aux_params.local.append(state)
        return state

    def _number(self, param_init_net: Any, param: Any, ending: str, value: float, count: int = 1) -> Any:
        """A blob of one number or some that belongs to the parameter."""
        name = core.BlobReference(f"{param}_{ending}")
        state = param_init_net.ConstantFill([], name, shape=[count], value=value)
        self._aux_params.local.append(state)
        return state


def _device() -> DeviceOption:
    return scope.CurrentDeviceScope() or core.DeviceOption(CPU)


def constant_one(param_init_net: Any, with_node: bool = True) -> Any:
    """A blob of 1.0 on the current device."""
    device = _device()
    node = device.node_name if with_node else ""
    name = core.BlobReference(f"ONE_{device.device_type}_{device.device_id}{node}")
    return param_init_net.ConstantFill([], name, shape=[1], value=1.0)


class OptimizerWithRate(Optimizer):
    """An optimizer with a learning rate, which it calls ``alpha``, and a policy."""

    def __init__(self, alpha: float, policy: str, **kwargs: Any) -> None:
        super().__init__()
        self.alpha = alpha
        self.policy = policy
        self.init_kwargs = kwargs

    def scale_learning_rate(self, scale: float) -> None:
        """Multiply the rate by a number, before the updates are added."""
        self.alpha *= scale

    def _rate(self, net: Any, param_init_net: Any, sign: float = 1.0) -> tuple[Any, Any]:
        return self.build_lr(
            net,
            param_init_net,
            base_learning_rate=sign * self.alpha,
            policy=self.policy,
            **self.init_kwargs,
        )
