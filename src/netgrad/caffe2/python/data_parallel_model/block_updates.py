"""Models whose devices train on their own, and are averaged after some iterations with a momentum.

Blockwise model-update filtering, after Chen and Huo, "Scalable training of deep learning machines by
incremental block training with intra-block parallel optimization and blockwise model-update filtering",
ICASSP 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.python import core
from netgrad.caffe2.python.data_parallel_model import devices as on
from netgrad.caffe2.python.data_parallel_model.blobs import AddBlobSync
from netgrad.caffe2.python.data_parallel_model.memory import share_gradients
from netgrad.caffe2.python.data_parallel_model.parallelize import add_gradients
from netgrad.caffe2.python.data_parallel_model.reduce import all_reduce, sync_blobs


def Parallelize_BMUF(
    model_helper_obj: Any,
    input_builder_fun: Callable[..., Any],
    forward_pass_builder_fun: Callable[..., Any],
    param_update_builder_fun: Callable[..., Any],
    block_learning_rate: float = 1.0,
    block_momentum: float | None = None,
    devices: Sequence[int] | None = None,
    rendezvous: Any = None,
    net_type: str = "dag",
    master_device: int | None = None,
    use_nccl: bool = False,
    nesterov: bool = False,
    optimize_gradient_memory: bool = False,
    reset_momentum_sgd: bool = False,
    warmup_iterations: int | None = None,
    max_concurrent_distributed_ops: int = 4,
    add_blobs_to_sync: Sequence[str] | None = None,
    num_threads_per_device: int = 4,
    cpu_device: bool = False,
    barrier_net_timeout_sec: int = 300,
) -> None:
    """Build a model for several devices that each make steps of their own; then a block update follows.

    With ``a`` the average of a parameter over the devices, ``g`` what it was after the last block update,
    ``r`` the rate and ``m`` the momentum, that is ``v <- m v + r (a - g)`` and ``g <- g + v``, with Nesterov
    ``g <- g + v - m (v - v_before)``, which all devices get. `RunNet` runs both nets.

    Args:
        model_helper_obj: The model helper.
        input_builder_fun: As of `Parallelize`.
        forward_pass_builder_fun: As of `Parallelize`.
        param_update_builder_fun: As of `Parallelize`.
        block_learning_rate: The rate.
        block_momentum: The momentum; None: 1 - 1 / number of devices.
        devices: Numbers of the devices.
        rendezvous: The other machines, which is refused: there are none.
        net_type: Written to the nets.
        master_device: The device that keeps ``g`` and ``v``; None: the first.
        use_nccl: Whether sums are left to NCCL; there is none, and they are sums in any case.
        nesterov: See above.
        optimize_gradient_memory: Whether gradient blobs are used again.
        reset_momentum_sgd: Whether the momentum of the devices' own steps starts over after a block update.
        warmup_iterations: How many iterations `RunWarmup` makes before the first block.
        max_concurrent_distributed_ops: How many operators talk to other machines at once: none.
        add_blobs_to_sync: Further blobs that all devices get from the first one after a block.
        num_threads_per_device: Written to the nets, for all devices together.
        cpu_device: Whether the devices are called CPUs and not GPUs.
        barrier_net_timeout_sec: How long machines wait for each other.

    Raises:
        AssertionError: See `Parallelize`; or the master isn't the first device.
        NotImplementedError: There is a rendezvous of several machines.
    """
    model = model_helper_obj
    on.check_call(model, rendezvous)
    on.set_devices(model, devices, cpu_device)
    master = model._devices[0] if master_device is None else master_device
    # Sums and copies start at the first device.
    assert master == model._devices[0], f"the master has to be the first of the devices {model._devices}"
    model._shared_model = False
    model._rendezvous = rendezvous
    momentum = 1.0 - 1.0 / len(model._devices) if block_momentum is None else block_momentum
    _build(model, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun)
    names = list(model._device_grouped_blobs)
    start, update = core.Net("global_model_init"), core.Net("global_model")
    for net in (model.net, start, update):
        on.set_workers(net, model, net_type, num_threads_per_device)
    model._global_model_init_net, model._global_model_param_updates_net = start, update
    if warmup_iterations is not None:
        _add_warmup(model, names, warmup_iterations)
        on.set_workers(model._warmup_broadcast, model, net_type, num_threads_per_device)
    all_reduce(model, update, names)
    with core.DeviceScope(on.option_of(model, master)):
        for name in names:
            param = model._device_grouped_blobs[name][master]
            _start_block(start, param, nesterov)
            _end_block(update, param, 1.0 / len(model._devices), block_learning_rate, momentum, nesterov)
    sync_blobs(model, update, names)
    if add_blobs_to_sync is not None:
        AddBlobSync(model, add_blobs_to_sync, net=update)
    if reset_momentum_sgd:
        _reset_momentum(model, update)
    if optimize_gradient_memory:
        share_gradients(model)
    model._data_parallel_model_init_nets = [model.param_init_net, start]
    model._data_parallel_model_nets = [model.net, (update, 1)]


def Parallelize_GPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """`Parallelize_BMUF` on devices that are called GPUs; their nets run on the processor."""
    Parallelize_BMUF(*args, **{**kwargs, "cpu_device": False})


def Parallelize_CPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """`Parallelize_BMUF` on devices that are called CPUs."""
    Parallelize_BMUF(*args, **{**kwargs, "cpu_device": True})


def _build(
    model: Any, add_input: Callable[..., Any], add_forward: Callable[..., Any], add_update: Callable[..., Any]
) -> None:
    """The nets of the devices, with their own steps."""
    of_no_device = len(model.params)
    model._losses_by_gpu = {}
    for device in model._devices:
        with on.on_device(model, device):
            add_input(model)
            model._losses_by_gpu[device] = add_forward(model, 1.0 / len(model._devices))
    on.check_unique(model.params)
    model._device_grouped_blobs = on.group_by_device(model, model.params[of_no_device:])
    model._param_names = list(model._device_grouped_blobs)
    add_gradients(model, model._losses_by_gpu)
    on.check_unique(model.params)
    on.infer_blob_devices(model)
    for device in model._devices:
        with on.on_device(model, device):
            add_update(model)


def _add_warmup(model: Any, names: Sequence[str], iterations: int) -> None:
    model._warmup_iterations = iterations
    model._warmup_broadcast = core.Net("warmup-broadcast")
    sync_blobs(model, model._warmup_broadcast, names)
    first = model._devices[0]
    with core.DeviceScope(on.option_of(model, first)):
        for name in names:
            param = model._device_grouped_blobs[name][first]
            model._warmup_broadcast.Copy(param, _global(param))


def _momentum(param: Any) -> Any:
    return core.BlobReference(f"{param}_v")


def _global(param: Any) -> Any:
    return core.BlobReference(f"{param}_g")


def _momentum_before(param: Any) -> Any:
    return core.BlobReference(f"{param}_prev")


def _start_block(net: core.Net, param: Any, nesterov: bool) -> None:
    net.ConstantFill(param, _momentum(param), value=0.0)
    net.Copy(param, _global(param))
    if nesterov:
        net.ConstantFill(param, _momentum_before(param), value=0.0)


def _end_block(net: core.Net, param: Any, share: float, rate: float, momentum: float, nesterov: bool) -> None:
    """The block update of one parameter, which holds its sum over the devices."""
    v, g, before = _momentum(param), _global(param), _momentum_before(param)
    net.Scale(param, param, scale=share)
    net.Sub([param, g], param)
    net.Scale(param, param, scale=rate)
    net.Scale(v, v, scale=momentum)
    net.Add([v, param], v)
    net.Add([g, v], g)
    if nesterov:
        net.Sub([v, before], before)
        net.Scale(before, before, scale=momentum)
        net.Sub([g, before], g)
        net.Copy(v, before)
    net.Copy(g, param)


def _reset_momentum(model: Any, net: core.Net) -> None:
    for op in model.net.Proto().op:
        if op.type == "MomentumSGDUpdate":
            blob = core.BlobReference(op.input[1])
            with core.DeviceScope(op.device_option):
                net.ConstantFill([blob], blob, value=0.0)
