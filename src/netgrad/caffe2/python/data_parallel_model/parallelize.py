"""Models that are built once per device, and trained as one: each device gets a part of the batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from netgrad.caffe2.python import core, memonger
from netgrad.caffe2.python.data_parallel_model import devices as on
from netgrad.caffe2.python.data_parallel_model.batch_norm import (
    combine_batch_normalizations,
    has_batch_moments,
)
from netgrad.caffe2.python.data_parallel_model.blobs import blobs_to_sync
from netgrad.caffe2.python.data_parallel_model.memory import share_gradients
from netgrad.caffe2.python.data_parallel_model.reduce import (
    all_reduce,
    broadcast_computed_parameters,
    sync_blobs,
)
from netgrad.caffe2.python.data_parallel_model.shared import (
    keep_parameters_of_first,
    use_parameters_of_first,
)

Builder = Callable[..., Any]


def Parallelize(
    model_helper_obj: Any,
    input_builder_fun: Builder,
    forward_pass_builder_fun: Builder,
    param_update_builder_fun: Builder | None = None,
    optimizer_builder_fun: Builder | None = None,
    post_sync_builder_fun: Builder | None = None,
    pre_grad_net_transformer_fun: Builder | None = None,
    net_transformer_fun: Builder | None = None,
    devices: Sequence[int] | None = None,
    rendezvous: Any = None,
    net_type: str = "dag",
    broadcast_computed_params: bool = True,
    optimize_gradient_memory: bool = False,
    dynamic_memory_management: bool = False,
    blobs_to_keep: Sequence[Any] | None = None,
    use_nccl: bool = False,
    max_concurrent_distributed_ops: int = 16,
    cpu_device: bool = False,
    ideep: bool = False,
    num_threads_per_device: int = 4,
    shared_model: bool = False,
    combine_spatial_bn: bool = False,
    barrier_net_timeout_sec: int = 300,
) -> None:
    """Build a model for several devices: each in a name scope and a device scope of its own.

    In each run of the net the gradients are summed over the devices, and all make the same step. Nets run on
    the processor, whatever device they name: this is a way to write a model, and not one to run it faster.

    Args:
        model_helper_obj: The model helper.
        input_builder_fun: Called with the model for each device, to add what reads the input.
        forward_pass_builder_fun: Called with the model and ``loss_scale`` for each device; returns the list
            of losses, which it has multiplied by that scale: one over the number of devices.
        param_update_builder_fun: Called with the model for each device, to add the updates.
        optimizer_builder_fun: In its place: called with the model, once and without scopes.
        post_sync_builder_fun: Called with the model for each device, behind the first synchronization.
        pre_grad_net_transformer_fun: Called with the model before there are gradients.
        net_transformer_fun: Called with the model, the number of devices, their prefix and their type.
        devices: Their numbers.
        rendezvous: The other machines, which is refused: there are none.
        net_type: Written to the net.
        broadcast_computed_params: Whether running averages are those of the first device.
        optimize_gradient_memory: Whether gradient blobs are used again.
        dynamic_memory_management: Whether blobs are freed behind their last reader.
        blobs_to_keep: Those that aren't, without the name scope of a device.
        use_nccl: Whether sums are left to NCCL; there is none, and they are sums in any case.
        max_concurrent_distributed_ops: How many operators talk to other machines at once: none.
        cpu_device: Whether the devices are called CPUs and not GPUs.
        ideep: Whether they are called IDEEP devices.
        num_threads_per_device: Written to the net, for all devices together.
        shared_model: Whether all devices read the parameters of the first one (not for GPUs).
        combine_spatial_bn: Whether batch normalization takes the batches of all devices together.
        barrier_net_timeout_sec: How long machines wait for each other.

    Raises:
        AssertionError: There is a device scope around; a loss is no blob; parameters aren't in the scopes of
            the devices; arguments exclude each other.
        NotImplementedError: There is a rendezvous of several machines.
    """
    model = model_helper_obj
    on.check_call(model, rendezvous)
    on.set_devices(model, devices, cpu_device, ideep)
    assert not (shared_model and model._device_prefix == "gpu"), "Shared model only supported on CPU"
    model._shared_model = shared_model
    model._rendezvous = rendezvous
    model._grad_names = []
    on.set_workers(model.net, model, net_type, num_threads_per_device)
    assert param_update_builder_fun is None or optimizer_builder_fun is None, (
        "Can only specify one of param_update_builder_fun, optimizer_builder_fun"
    )
    trains = param_update_builder_fun is not None or optimizer_builder_fun is not None
    if not trains and model.init_params:
        on.log.warning(
            "model %s is used to test, and has init_params=True: its initializing net would overwrite what "
            "was learned",
            model.name,
        )
    of_no_device = list(model.params)
    losses = _add_forward(model, input_builder_fun, forward_pass_builder_fun, trains)
    _group_parameters(model, len(of_no_device))
    if pre_grad_net_transformer_fun is not None:
        pre_grad_net_transformer_fun(model)
    if trains:
        add_gradients(model, losses)
    if net_transformer_fun is not None:
        net_transformer_fun(model, len(model._devices), model._device_prefix, model._device_type)
    model._losses_by_gpu = losses
    model._data_parallel_model_init_nets = [model.param_init_net]
    model._data_parallel_model_nets = [model.net]
    if not trains:
        if combine_spatial_bn and has_batch_moments(model):
            combine_batch_normalizations(model)
        on.infer_blob_devices(model)
        if shared_model:
            _share(model)
        return
    if combine_spatial_bn:
        combine_batch_normalizations(model)
    _reduce_gradients(model, of_no_device, broadcast_computed_params)
    all_parameters = {str(param) for param in model.params}
    if shared_model:
        keep_parameters_of_first(model)
    if param_update_builder_fun is not None:
        _on_each(model, param_update_builder_fun)
    elif optimizer_builder_fun is not None:
        model._optimizer = optimizer_builder_fun(model)
    _sync_at_start(model)
    if post_sync_builder_fun is not None:
        _on_each(model, post_sync_builder_fun)
    assert not (optimize_gradient_memory and dynamic_memory_management), (
        "gradient blobs are either used again (optimize_gradient_memory) or freed (dynamic_memory_management)"
    )
    if optimize_gradient_memory:
        share_gradients(model)
    if dynamic_memory_management:
        _free_blobs(model, blobs_to_keep or ())
    if shared_model:
        use_parameters_of_first(model, all_parameters)


def Parallelize_GPU(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on devices that are called GPUs; their nets run on the processor."""
    Parallelize(*args, **{**kwargs, "cpu_device": False})


def Parallelize_CPU(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on devices that are called CPUs."""
    Parallelize(*args, **{**kwargs, "cpu_device": True})


def Parallelize_iDeep(*args: Any, **kwargs: Any) -> None:
    """`Parallelize` on devices that are called IDEEP devices; their nets run like all others."""
    Parallelize(*args, **{**kwargs, "ideep": True})


def _on_each(model: Any, build: Builder) -> None:
    for device in model._devices:
        with on.on_device(model, device):
            build(model)


def _add_forward(model: Any, build_input: Builder, build: Builder, trains: bool) -> dict[int, Any]:
    """Build the model on each device; returns the losses by device."""
    losses: dict[int, Any] = {}
    for device in model._devices:
        with on.on_device(model, device):
            build_input(model)
            found = build(model, 1.0 / len(model._devices))
        if trains:
            is_list = isinstance(found, list) and all(isinstance(loss, core.BlobReference) for loss in found)
            assert is_list, f"Model builder function must return list of loss blobs, and not {found!r}"
        losses[device] = found
    on.check_unique(model.params)
    return losses


def _group_parameters(model: Any, of_no_device: int) -> None:
    """Write to the model which parameters the devices have; those that were there before aren't theirs."""
    computed = on.group_by_device(model, model.GetComputedParams(""))
    model._device_grouped_blobs = {**on.group_by_device(model, model.params[of_no_device:]), **computed}
    model._param_names = list(model._device_grouped_blobs)
    model._computed_param_names = list(computed)


def add_gradients(model: Any, losses: dict[int, Any]) -> None:
    """Add the backward pass of all devices, from an explicit gradient of ones for each loss."""
    starts: dict[str, str] = {}
    for device in model._devices:
        with core.DeviceScope(on.option_of(model, device)):
            for loss in losses[device]:
                start = model.net.ConstantFill(loss, core.BlobReference(f"{loss}_grad"), value=1.0)
                starts[str(loss)] = str(start)
    model.AddGradientOperators(starts)


def _reduce_gradients(model: Any, of_no_device: Sequence[Any], with_computed: bool) -> None:
    on.check_unique(model.params)
    known = model.param_to_grad
    grads = [known[param] for param in model.params if param in known and param not in of_no_device]
    grouped = on.group_by_device(model, grads)
    model._device_grouped_blobs.update(grouped)
    model._grad_names = list(grouped)
    on.infer_blob_devices(model)
    if with_computed:
        broadcast_computed_parameters(model)
    # The last layers' gradients are there first.
    all_reduce(model, model.net, reversed(model._grad_names))


def _sync_at_start(model: Any) -> None:
    """Let the initializing net end with all devices having what the first one has."""
    blobs, names = blobs_to_sync(model)
    model._device_grouped_blobs.update(on.group_by_device(model, blobs))
    on.infer_blob_devices(model)
    on.check_scopes(model)
    argument = model.net.Proto().arg.add()
    argument.name, argument.i = "first_iter_only_one_worker", 1
    sync_blobs(model, model.param_init_net, names)


def _share(model: Any) -> None:
    """Let a model that only runs read the parameters of its first device."""
    all_parameters = {str(param) for param in model.params}
    keep_parameters_of_first(model)
    use_parameters_of_first(model, all_parameters)


def _free_blobs(model: Any, kept: Sequence[Any]) -> None:
    names = {on.prefix_of(model, device) + str(blob) for device in model._devices for blob in kept}
    model.net.Proto().CopyFrom(memonger.release_blobs_when_used(model.net.Proto(), names))
