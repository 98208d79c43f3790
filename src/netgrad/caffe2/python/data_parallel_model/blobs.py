"""The blobs of a parallel model that scripts ask for: what checkpoints have, learning rates, predictors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from netgrad.caffe2.caffe2_pb2 import DeviceOption
from netgrad.caffe2.python import core, model_helper, workspace
from netgrad.caffe2.python.data_parallel_model.devices import device_of, prefix_of, stripBlobName
from netgrad.caffe2.python.data_parallel_model.reduce import sync_blobs


def blobs_to_sync(model: Any) -> tuple[list[Any], list[str]]:
    """What the first device's copies are for: all that the initializing net makes on devices.

    Of a model whose devices share their parameters that is what isn't trained.

    Returns:
        The blobs, by device and then by name; their names without the scope of a device.

    Raises:
        AssertionError: The initializing net doesn't make some parameters.
    """
    if model._shared_model:
        made = [str(param) for param in model.GetComputedParams("")]
    else:
        made = [blob for blob in _initialized(model) if device_of(model, blob) is not None]
    names = list(dict.fromkeys(stripBlobName(blob) for blob in made))
    if not model._shared_model:
        missing = [name for name in model._param_names if name not in names]
        assert not missing, f"Some params not instantiated in param init net: {', '.join(missing)}"
    ordered = sorted(set(made), key=lambda blob: (device_of(model, blob), blob))
    return [core.BlobReference(blob) for blob in ordered], names


def _initialized(model: Any) -> list[str]:
    return [blob for op in model.param_init_net.Proto().op for blob in op.output]


def GetCheckpointParams(model: Any) -> set[Any]:
    """The blobs that a complete checkpoint has: those of the first device, and the counters of iterations."""
    first = prefix_of(model, model._devices[0])
    found = {core.BlobReference(blob) for blob in _initialized(model) if blob.startswith(first)}
    counters = {
        op.output[0]
        for op in model.net.Proto().op
        if op.type in ("Iter", "AtomicIter") and device_of(model, op.output[0]) is None
    }
    return found | counters


def FinalizeAfterCheckpoint(model: Any, blobs: Sequence[Any] | None = None, cpu_mode: bool = False) -> None:
    """Give all devices what was loaded on the first one.

    Args:
        model: The model, whose checkpoint has been loaded.
        blobs: The blobs that were loaded; None: all that the initializing net makes.
        cpu_mode: Whether the net that copies them says no device.
    """
    if not hasattr(model, "_checkpoint_net"):
        names = blobs_to_sync(model)[1] if blobs is None else [stripBlobName(blob) for blob in blobs]
        _know(model, [name for name in names if name not in model._device_grouped_blobs])
        model._checkpoint_net = core.Net("checkpoint_sync_net")
        if not cpu_mode:
            model._checkpoint_net.RunAllOnGPU()
        sync_blobs(model, model._checkpoint_net, names)
        workspace.CreateNet(model._checkpoint_net)
    workspace.RunNet(model._checkpoint_net.Proto().name)


def _know(model: Any, names: Sequence[str]) -> None:
    for name in names:
        model._device_grouped_blobs[name] = {
            device: core.BlobReference(prefix_of(model, device) + name) for device in model._devices
        }


def AddBlobSync(model: Any, blobs: Sequence[str], net: core.Net | None = None) -> None:
    """Copy blobs of the first device to the others in each run.

    Args:
        model: The model.
        blobs: Their names, without the name scope of a device.
        net: The net that does it; without one the model's.

    Raises:
        AssertionError: A name has the scope of a device.
    """
    for blob in blobs:
        assert not str(blob).startswith(model._device_prefix), f"Provide unprefixed blob name: {blob}"
    _know(model, [str(blob) for blob in blobs])
    sync_blobs(model, model.net if net is None else net, dict.fromkeys(str(blob) for blob in blobs))


def AddDistributedBlobSync(model: Any, blobs: Sequence[Any]) -> None:
    """Sum blobs over all machines: there is one, and nothing to be done."""
    assert model._rendezvous is None or model._rendezvous.get("num_shards", 1) == 1


def GetLearningRateBlobNames(model: Any) -> list[str]:
    """The blobs of the learning rates: of the optimizer, or of all operators ``LearningRate``."""
    optimizer = getattr(model, "_optimizer", None)
    if optimizer is None:
        return [op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"]
    if core.IsGPUDeviceType(model._device_type):
        return [optimizer.get_gpu_blob_name("lr", device, "") for device in model._devices]
    return [optimizer.get_cpu_blob_name("lr")]


def ExtractPredictorNet(
    model: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: DeviceOption | None
) -> tuple[Any, list[str]]:
    """The part of the first device that predicts; see `model_helper.ExtractPredictorNet`.

    Args:
        model: The model.
        inputs: Names without the name scope of the device, which the predictor uses.
        outputs: Likewise.
        device: Where the predictor runs.

    Returns:
        The net, and the parameters that it reads, with the scope of the device.
    """
    scope = prefix_of(model, model._devices[0])
    names: Mapping[str, str] = {f"{scope}{blob}": str(blob) for blob in (*inputs, *outputs)}
    return model_helper.ExtractPredictorNet(
        net_proto=model.net.Proto(),
        input_blobs=[f"{scope}{blob}" for blob in inputs],
        output_blobs=[f"{scope}{blob}" for blob in outputs],
        device=device,
        renames=names,
    )
