# ruff: noqa: PT028  the functions are called by tests, and are none themselves
"""Whether a model computes the same when its blobs share memory: for test programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netgrad.caffe2.caffe2_pb2 import NetDef
from netgrad.caffe2.python import core, memonger, workspace
from netgrad.caffe2.python.cnn import CNNModelHelper

_Array = np.ndarray[Any, Any]
_BATCH, _IMAGE = 4, (3, 227, 227)


def _names(proto: NetDef) -> set[str]:
    return {name for op in proto.op for name in (*op.input, *op.output)}


def has_blob(proto: NetDef, needle: str) -> bool:
    """Whether an operator of the net reads or writes a blob."""
    return needle in _names(proto)


def count_blobs(proto: NetDef) -> int:
    """How many blobs the operators read and write."""
    return len(_names(proto))


def count_shared_blobs(proto: NetDef) -> int:
    """How many of them are shared: such have ``_shared`` in their names."""
    return sum("_shared" in name for name in _names(proto))


def test_shared_grads(
    with_shapes: bool,
    create_model: Callable[..., Any],
    conv_blob: str,
    last_out_blob: str,
    data_blob: str = "gpu_0/data",
    label_blob: str = "gpu_0/label",
    num_labels: int = 1000,
) -> list[tuple[Any, Any]]:
    """Train a model for one step with gradients that share blobs, and without.

    Args:
        with_shapes: Whether the sizes of the blobs are known to who shares them.
        create_model: Adds the layers, the softmax and the loss; see `netgrad.caffe2.python.models.resnet`.
        conv_blob: The parameter whose gradient is compared.
        last_out_blob: The result that is compared.
        data_blob: The blob of the images.
        label_blob: The blob of the labels.
        num_labels: How many labels there are.

    Returns:
        Three pairs: the numbers of blobs with sharing and without; the results without and with; the
        gradients without and with.
    """
    model = CNNModelHelper(order="NCHW", name="test", cudnn_exhaustive_search=True)
    with core.NameScope("gpu_0"):
        data, label = (model.net.AddExternalInput(name) for name in (data_blob, label_blob))
        _, loss = create_model(
            model, data, num_input_channels=3, num_labels=num_labels, label=label, is_test=False
        )
    gradient = str(model.AddGradientOperators([loss])[conv_blob])
    nets = [model.param_init_net, model.net]
    shapes, _ = workspace.InferShapesAndTypes(nets, {data_blob: [_BATCH, *_IMAGE], label_blob: [_BATCH]})
    before = count_blobs(model.net.Proto())
    shared = memonger.share_grad_blobs(
        model.net,
        ["gpu_0/loss"],
        set(model.param_to_grad.values()),
        "gpu_0/",
        share_activations=True,
        dont_share_blobs={gradient},
        blob_shapes=shapes if with_shapes else None,
    )
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(data_blob, _images())
    workspace.FeedBlob(label_blob, np.random.randint(num_labels, size=_BATCH).astype(np.int32))
    results, slopes = zip(*(_run(net, last_out_blob, gradient) for net in (model.net, shared)), strict=True)
    return [(count_blobs(shared), before), results, slopes]


def test_forward_only(
    create_model: Callable[..., Any],
    last_out_blob: str,
    data_blob: str = "gpu_0/data",
    num_labels: int = 1000,
) -> list[Any]:
    """Run a model with activations that share blobs, and without.

    Returns:
        The numbers of blobs with sharing and without, the number of shared ones, results without and with.
    """
    model = _predictor(create_model, data_blob, num_labels)
    shared = memonger.optimize_inference_for_dag(model.net, [data_blob], "gpu_0/")
    return _compared(model, shared, last_out_blob, data_blob)


def test_forward_only_fast_simplenet(
    create_model: Callable[..., Any],
    last_out_blob: str,
    data_blob: str = "gpu_0/data",
    num_labels: int = 1000,
) -> list[Any]:
    """The same as `test_forward_only`, by the way of sharing for nets that run in order."""
    model = _predictor(create_model, data_blob, num_labels)
    kept = {data_blob, last_out_blob, *model.net.Proto().external_input}
    shared = memonger.optimize_inference_fast(model.net.Proto(), kept)
    return _compared(model, shared, last_out_blob, data_blob)


def _predictor(create_model: Callable[..., Any], data_blob: str, num_labels: int) -> CNNModelHelper:
    model = CNNModelHelper(order="NCHW", name="test", cudnn_exhaustive_search=True)
    with core.NameScope("gpu_0"):
        data = model.net.AddExternalInput(data_blob)
        create_model(model, data, num_input_channels=3, num_labels=num_labels, is_test=True)
    return model


def _compared(model: CNNModelHelper, shared: NetDef, last_out_blob: str, data_blob: str) -> list[Any]:
    workspace.RunNetOnce(model.param_init_net)
    workspace.FeedBlob(data_blob, _images())
    results = tuple(_run(net, last_out_blob)[0] for net in (model.net, shared))
    return [(count_blobs(shared), count_blobs(model.net.Proto())), count_shared_blobs(shared), results]


def _images() -> _Array:
    return np.random.rand(_BATCH, *_IMAGE).astype(np.float32)


def _run(net: Any, *names: str) -> list[_Array]:
    """Run a net and fetch blobs; what it writes itself is forgotten before."""
    proto = net.Proto() if isinstance(net, core.Net) else net
    for name in {name for op in proto.op for name in op.output} & set(names):
        workspace.FeedBlob(name, np.zeros(1, np.float32))
    workspace.RunNetOnce(net)
    found: list[_Array] = workspace.FetchBlobs(list(names))
    return found
