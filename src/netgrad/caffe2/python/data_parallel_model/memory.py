"""Models that need fewer blobs. ONNX Runtime shares the memory of what it runs in any case."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from netgrad.caffe2.python import memonger, workspace
from netgrad.caffe2.python.data_parallel_model.devices import prefix_of


def OptimizeGradientMemory(
    model: Any,
    input_shapes: Mapping[str, Sequence[int]] | None,
    excluded_blobs: Iterable[str],
    recycle_activations: bool,
) -> None:
    """Let the blobs of gradients be used again once nothing needs them.

    Args:
        model: A model that was made parallel.
        input_shapes: Shapes of the inputs by name, without the name scope of a device; None if they aren't
            known.
        excluded_blobs: Names of blobs that stay as they are, likewise.
        recycle_activations: Whether other blobs are used again, too.
    """
    shapes = None
    if input_shapes is not None:
        given = {
            prefix_of(model, device) + name: shape
            for device in model._devices
            for name, shape in input_shapes.items()
        }
        shapes, _ = workspace.InferShapesAndTypes([model.param_init_net, model.net], given)
    share_gradients(model, list(excluded_blobs), recycle_activations, shapes)


def share_gradients(
    model: Any,
    excluded: Sequence[str] = (),
    share_activations: bool = False,
    shapes: Mapping[str, Any] | None = None,
) -> None:
    """`OptimizeGradientMemory` with the shapes of all blobs."""
    for device in model._devices:
        scope = prefix_of(model, device)
        shared = memonger.share_grad_blobs(
            model.net,
            model._losses_by_gpu[device],
            set(model.param_to_grad.values()),
            scope,
            dont_share_blobs={scope + name for name in excluded},
            share_activations=share_activations,
            blob_shapes=shapes,
        )
        model.net.Proto().CopyFrom(shared)
